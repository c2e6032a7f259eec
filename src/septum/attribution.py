"""Which dictionary the gap is due to: the best objective with one of them fixed and all else free.

Fix A_k and leave the codes and the other dictionaries free, of any size. With unit atoms, what joins atom
i of A_k in sample t is a slice Y_{t,i} of shape (d_j)_{j != k}, and its cheapest factorisation costs its
nuclear norm (its l2 norm for n = 2), so the problem is a convex group lasso,

    f_k = min_Y sum_t loss(X_t - Y_t x_k A_k) + alpha sum_i ||Y_{t,i}||_*,        f* <= f_k <= f,

whose polar is max_{t,i} ||R_t x_k a_i^T||: for n = 2 the largest l2 norm of a_i^T R_t. Then

    f - f* = (f - f_k)  due to the other dictionaries and the codes  +  (f_k - f*)  due to A_k itself.

f_k is bracketed by a feasible Y and the rescaled residual, as the bounds of `septum.bound` are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from septum.array import Float
from septum.bound import feasible_scale
from septum.certificate import as_factors
from septum.errors import InvalidInputError
from septum.factors import Factors
from septum.kronecker import mode_product, multiply_sparse
from septum.loss import Loss
from septum.problem import Problem
from septum.regularizer import L1Atoms, Relaxation


@dataclass(frozen=True)
class Blame:
    """The best objective with one dictionary fixed, between `lower` and `upper`.

    Attributes
    ----------
    mode : int
        The dictionary that is fixed, counted from 0.
    lower, upper : float
        Bounds of the best objective over all codes and all other dictionaries of any size.
    others : float
        A guaranteed gain from changing everything but this dictionary: f - upper.
    """

    mode: int
    lower: float
    upper: float
    objective: float

    @property
    def others(self) -> float:
        return self.objective - self.upper


def blame(
    X: ArrayLike,
    dictionaries: Sequence[ArrayLike],
    codes: Any,
    alpha: float,
    *,
    loss: str | Loss = "squared",
    mask: ArrayLike | None = None,
    tol: float = 1e-6,
    max_iter: int = 2000,
) -> list[Blame]:
    """One `Blame` for each dictionary, for the paper's regulariser.

    Parameters
    ----------
    X, dictionaries, codes, alpha, loss, mask
        As in `septum.certify`.
    tol : float
        Stop when upper - lower is at most `tol` times f(0), sample by sample.
    """
    problem = Problem.of(X, alpha, loss=loss, mask=mask)
    if not np.isfinite(tol) or tol <= 0:
        raise InvalidInputError(f"tol must be positive, not {tol!r}")
    factors = as_factors(problem, dictionaries, codes).normalized()
    return [_blame_mode(problem, factors, mode, tol, max_iter) for mode in range(len(problem.shape))]


def _blame_mode(problem: Problem, factors: Factors, mode: int, tol: float, max_iter: int) -> Blame:
    objective = problem.objective(factors)
    lower, upper = np.zeros(problem.n_samples), objective.copy()
    for part in problem.parts():
        for relaxation in _slice_norms(problem, factors, mode):
            descent = _OneSide(problem, factors, mode, relaxation, part)
            low, high = descent.solve(tol, max_iter)
            lower[part] = np.maximum(lower[part], low)
            upper[part] = np.minimum(upper[part], high)
    total = float(upper.sum())
    return Blame(mode, min(float(lower.sum()), total), total, float(objective.sum()))


def _slice_norms(problem: Problem, factors: Factors, mode: int) -> Sequence[Relaxation]:
    shape = tuple(factors.sizes[mode] if k == mode else d for k, d in enumerate(problem.shape))
    return L1Atoms(mode).relaxations(shape)


class _OneSide:
    """Accelerated proximal gradient steps on Y for a range of samples, each with its own gap."""

    def __init__(
        self, problem: Problem, factors: Factors, mode: int, relaxation: Relaxation, part: slice
    ) -> None:
        self.problem, self.mode, self.relaxation, self.part = problem, mode, relaxation, part
        self.A = factors.dictionaries[mode]
        eye = np.eye(self.A.shape[1])
        joined = [eye if k == mode else A for k, A in enumerate(factors.dictionaries)]
        self.start = multiply_sparse(factors.codes[part], joined, dtype=np.dtype(np.float64))
        self.x = problem.data(part)

    def solve(self, tol: float, max_iter: int) -> tuple[Float, Float]:
        """Lower and upper bounds of f_k for every sample; infinite above where slices have no exact norm."""
        zero = self.problem.loss_by_sample(self.x)
        if self.A.shape[1] == 0:
            return zero, zero
        lower, upper = np.zeros_like(zero), np.full_like(zero, np.inf)
        step = 1.0 / max(np.finfo(float).tiny, self.problem.loss.lipschitz * _largest_square(self.A))
        z = y = self.start
        momentum = 1.0
        for iteration in range(max_iter):
            if iteration % 10 == 0:
                low, high = self._bounds(z)
                lower, upper = np.maximum(lower, low), np.minimum(upper, high)
                if (high - lower <= tol * zero).all():
                    break
            new = self.relaxation.shrink(y + step * self._pull(y)[1], step * self.problem.alpha)
            following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
            if np.vdot(y - new, new - z) > 0:
                following, weight = 1.0, 0.0
            else:
                weight = (momentum - 1.0) / following
            y, z, momentum = new + weight * (new - z), new, following
        return lower, upper if self.relaxation.is_exact else np.full_like(upper, np.inf)

    def _pull(self, y: Float) -> tuple[Float, Float]:
        """The residual, and its correlations with the atoms of the fixed dictionary."""
        error = self.problem.error(mode_product(y, self.A, self.mode), self.part)
        residual = self.problem.loss.influence(error)
        return residual, mode_product(residual, self.A.T, self.mode)

    def _bounds(self, y: Float) -> tuple[Float, Float]:
        problem, count = self.problem, len(self.x)
        error = problem.error(mode_product(y, self.A, self.mode), self.part)
        upper = problem.loss_by_sample(error) + problem.alpha * self.relaxation.value(y)
        residual, pull = self._pull(y)
        scale = feasible_scale(residual, self.x, self.relaxation.dual_norm(pull), problem)
        q = residual * scale.reshape(-1, *[1] * (residual.ndim - 1))
        dual = (q * self.x - problem.loss.conjugate(q)).reshape(count, -1).sum(axis=1)
        return dual, upper


def _largest_square(A: Float) -> float:
    return float(np.linalg.norm(A, 2) ** 2) if A.size else 0.0
