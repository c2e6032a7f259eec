"""The plain formulas that every fast path is tested against: NumPy, float64, nothing clever.

    P(C) = loss(M o (X - Z)) + alpha ||C||_1,   Z = C x_1 A_1 ... x_n A_n

for one or many samples (n_samples, d_1, ..., d_n) and dense codes (n_samples, r_1, ..., r_n).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from septum.array import Float
from septum.kronecker import correlate, gram, multiply
from septum.loss import Loss, Squared


def soft(value: Float, threshold: float, positive: bool = False) -> Float:
    """The proximal operator of threshold * ||.||_1, on the non-negative codes if `positive`."""
    size = value if positive else np.abs(value)
    return np.sign(value) * np.maximum(size - threshold, 0)


def objective(
    X: Float,
    dictionaries: Sequence[Float],
    codes: Float,
    alpha: float,
    mask: NDArray[np.bool_] | None = None,
    loss: Loss | None = None,
) -> Float:
    """P(C_t) of each sample."""
    error = _error(X, dictionaries, codes, mask)
    fit = (loss or Squared()).value(error)
    return _total(fit) + alpha * _total(np.abs(codes))


def gap(
    X: Float,
    dictionaries: Sequence[Float],
    codes: Float,
    alpha: float,
    mask: NDArray[np.bool_] | None = None,
    positive: bool = False,
    loss: Loss | None = None,
) -> Float:
    """P(C_t) - D(s_t R_t), the dual D(Q) = <Q, X> - rho*(Q) written out, with the residual scaled to feasibility."""
    loss = loss or Squared()
    error = _error(X, dictionaries, codes, mask)
    residual = loss.influence(error)
    correlation = correlate(residual, dictionaries).reshape(len(X), -1)
    largest = correlation.max(axis=1) if positive else np.abs(correlation).max(axis=1)
    steepest = np.abs(residual).reshape(len(X), -1).max(axis=1)
    with np.errstate(divide="ignore"):
        scale = np.minimum(alpha / np.maximum(largest, 0), loss.dual_limit / steepest)
    aligned, energy = _total(residual * X), _total(residual * residual)
    best = np.divide(aligned, energy, out=np.ones(len(X)), where=energy > 0)
    scale = np.clip(scale, 0, best).reshape(-1, *[1] * (X.ndim - 1))
    dual = _total(scale * residual * X) - _total(loss.conjugate(scale * residual))
    return objective(X, dictionaries, codes, alpha, mask, loss) - dual


def solve(
    X: Float,
    dictionaries: Sequence[Float],
    alpha: float,
    *,
    n_iter: int = 2000,
    mask: NDArray[np.bool_] | None = None,
    positive: bool = False,
    loss: Loss | None = None,
) -> Float:
    """Dense codes by `n_iter` plain FISTA steps: slow, and short enough to be seen to be right."""
    loss = loss or Squared()
    step = loss.lipschitz * np.prod([np.linalg.eigvalsh(G)[-1] for G in gram(dictionaries)])
    codes = point = np.zeros((len(X), *[A.shape[1] for A in dictionaries]))
    t = 1.0
    for _ in range(n_iter):
        residual = loss.influence(_error(X, dictionaries, point, mask))
        following = soft(point + correlate(residual, dictionaries) / step, alpha / step, positive)
        t_next = 0.5 * (1 + np.sqrt(1 + 4 * t * t))
        point = following + (t - 1) / t_next * (following - codes)
        codes, t = following, t_next
    return codes


def _error(X: Float, dictionaries: Sequence[Float], codes: Float, mask: NDArray[np.bool_] | None) -> Float:
    error = X - multiply(codes, dictionaries)
    return error if mask is None else np.where(mask, error, 0.0)


def _total(values: Float) -> Float:
    return values.reshape(len(values), -1).sum(axis=1)
