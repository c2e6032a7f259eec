"""What follows from the l1 norm of the codes: Theta, the codes' proximal map, and condition 1.

With theta = N_1(a_1) ... N_n(a_n) ||c||_1 the codes of different samples never meet, and first-order
optimality in a code (corollary 2, condition 1) reads, with w the product of its atoms' norms,

    <R_t, a_1 o ... o a_n> = alpha w sign(c)  where c is nonzero,   at most alpha w in magnitude elsewhere.
"""

from collections.abc import Sequence
from functools import reduce
from math import prod

import numpy as np
from numpy.typing import NDArray

from septum.array import Float
from septum.kronecker import Codes, code_indices, correlate, correlate_at, sizes
from septum.regularizer.protocol import MayExceed

BLOCK_ENTRIES = 2**21
SMALL_JOINT = 2**12


def joint_weights(weights: Sequence[Float]) -> Float:
    """The product of the modes' atom norms for every joint atom: shape (r_1, ..., r_n)."""
    return reduce(np.multiply.outer, weights)


def weighted_l1(codes: Codes, weights: Sequence[Float], r: tuple[int, ...]) -> Float:
    """sum over a sample's codes of |c| times the joint atom's weight, in float64."""
    sample, index = code_indices(codes, r)
    terms = np.abs(codes.data.astype(np.float64, copy=False))
    for weight, i in zip(weights, index, strict=True):
        terms = terms * weight[i]
    return np.bincount(sample, weights=terms, minlength=codes.shape[0])


def soft_threshold(codes: Float, threshold: float, weights: Sequence[Float]) -> Float:
    """The proximal map of threshold * sum w |c| on dense codes `(n_samples, r_1, ..., r_n)`."""
    level = (threshold * joint_weights(weights)).astype(codes.dtype)
    return np.sign(codes) * np.maximum(np.abs(codes) - level, 0)


def stationarity(
    residual: Float,
    dictionaries: Sequence[Float],
    weights: Sequence[Float],
    codes: Codes,
    alpha: float,
    *,
    may_exceed: MayExceed,
    at_least: float,
) -> float:
    """The largest violation of condition 1, relative to alpha w, or `at_least` if it is less.

    Off the support only correlations above alpha w violate, and on it such a correlation violates at
    least as much, so the largest correlation of all tells what is missing from the support's own.
    """
    unit = [A / np.where(w > 0, w, np.inf) for A, w in zip(dictionaries, weights, strict=True)]
    support = _support(codes, weights)
    if prod(sizes(unit)) <= SMALL_JOINT:
        rows = np.union1d(support[0], np.flatnonzero(may_exceed(1.0 + at_least)))
        return _by_blocks(residual, unit, alpha, rows, support, at_least)
    sample, index, sign = support
    off = np.abs(correlate_at(residual, unit, sample, index) / alpha - sign)
    worst = max(at_least, float(off.max(initial=0.0)))
    for t in np.flatnonzero(may_exceed(1.0 + worst)):
        worst = max(worst, largest_correlation(residual[t], unit, alpha * (1.0 + worst)) / alpha - 1.0)
    return worst


def _support(codes: Codes, weights: Sequence[Float]) -> tuple[NDArray[np.intp], list[NDArray[np.intp]], Float]:
    """Sample, indices and sign of every nonzero code on atoms of positive weight."""
    sample, index = code_indices(codes, tuple(w.size for w in weights))
    inside = np.ones(codes.nnz, dtype=bool)
    for w, i in zip(weights, index, strict=True):
        inside &= w[i] > 0
    return sample[inside], [i[inside] for i in index], np.sign(codes.data[inside])


def _by_blocks(
    residual: Float,
    unit: Sequence[Float],
    alpha: float,
    rows: NDArray[np.intp],
    support: tuple[NDArray[np.intp], list[NDArray[np.intp]], Float],
    worst: float,
) -> float:
    """All correlations of the named samples, a block of samples at a time."""
    sample, index, sign = support
    step = max(1, BLOCK_ENTRIES // max(1, prod(sizes(unit)), prod(residual.shape[1:])))
    for start in range(0, rows.size, step):
        block = rows[start : start + step]
        joint = correlate(residual[block], unit) / alpha
        here = slice(*np.searchsorted(sample, (block[0], block[-1] + 1)))
        at = (np.searchsorted(block, sample[here]), *[i[here] for i in index])
        off = np.abs(joint[at] - sign[here])
        worst = max(worst, float(np.abs(joint).max(initial=0.0)) - 1.0, float(off.max(initial=0.0)))
    return worst


def largest_correlation(one: Float, dictionaries: Sequence[Float], above: float) -> float:
    """max(above, max |<R, a_1 o ... o a_n>|) for one sample, without a dense block of codes.

    |<R, a_1 o ...>| <= ||R x_1 a_1^T||_F times the other atoms' norms: only the first atoms whose bound
    exceeds the best value found so far are joined with others.
    """
    if 0 in sizes(dictionaries):
        return above
    first, others = dictionaries[0], dictionaries[1:]
    if not others:
        return max(above, float(np.abs(one @ first).max()))
    longest = prod(float(np.linalg.norm(A, axis=0).max()) for A in others)
    flat, best = one.reshape(one.shape[0], -1), above
    step = max(1, BLOCK_ENTRIES // flat.shape[1])
    for start in range(0, first.shape[1], step):
        rows = first[:, start : start + step].T @ flat
        rows = rows[np.linalg.norm(rows, axis=1) * longest > best]
        best = _join(rows.reshape(-1, *one.shape[1:]), others, best)
    return best


def _join(rows: Float, dictionaries: Sequence[Float], best: float) -> float:
    """Partial correlations, one for each first atom, completed with the other modes' atoms."""
    if len(dictionaries) > 1:
        for row in rows:
            best = largest_correlation(row, dictionaries, best)
        return best
    step = max(1, BLOCK_ENTRIES // dictionaries[0].shape[1])
    for start in range(0, len(rows), step):
        best = max(best, float(np.abs(rows[start : start + step] @ dictionaries[0]).max(initial=0.0)))
    return best
