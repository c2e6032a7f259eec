"""Lower bounds of the best objective that any dictionaries of any size could reach, from the data alone.

For every Q whose polar is at most alpha (and, where entries are missing, that vanishes there),

    f >= F(Z) >= D(Q) = <Q, X> - sum rho*(Q)        (the Fenchel dual of equation 20)

whatever dictionaries and codes give f. Three sources of Q, sample by sample:

1. Squared loss, all observed: Q = X - shrink(X), with the proximal map of each relaxation of Omega.
   For n <= 2 the relaxation is Omega itself and D(Q) = f*, the closed form of section 4.2.
2. Any other loss or a mask: the convex problem min_Z loss + alpha Omega_S(Z) separates over samples and
   is solved by accelerated proximal gradient steps; Q is its rescaled residual.
3. Any residual R, rescaled: Q = s R with s no more than alpha / polar(R), the loss's dual limit, and
   the best step along R. Rescaling each sample by itself is far tighter than one scale for all.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from septum.array import Float
from septum.loss import Loss
from septum.problem import Problem
from septum.regularizer import Relaxation


@dataclass(frozen=True)
class DualPoint:
    """Feasible Q for a range of samples.

    `decrease` is f(0) - D(Q) for every sample, the most that any codes can gain, written as
    the Fenchel-Young gap of the loss at zero codes; `is_optimal` says that D(Q) = f*.
    """

    q: Float
    decrease: Float
    is_optimal: NDArray[np.bool_]


def dual_point(problem: Problem, part: slice, *, tol: float = 1e-7, max_iter: int = 1000) -> DualPoint:
    """The best Q that the data alone gives, for a range of samples."""
    x = problem.data(part)
    relaxations = problem.regularizer.relaxations(problem.shape)
    best: DualPoint | None = None
    for relaxation in relaxations:
        if problem.is_plain:
            point = _shrunk(x, problem, relaxation)
        else:
            point = _solved(x, problem, part, relaxation, tol, max_iter)
        best = point if best is None else _better(best, point, problem.regularizer.couples_samples)
    if best is None:
        zero = np.zeros_like(x)
        best = DualPoint(zero, _decrease(problem.loss, x, zero), np.zeros(len(x), dtype=bool))
    return best


def lower_bound(problem: Problem) -> tuple[Float, Float, bool]:
    """f(0) and f(0) - lower bound for every sample, and whether the bound is f* itself."""
    decrease = np.zeros(problem.n_samples)
    optimal = True
    for part in problem.parts():
        point = dual_point(problem, part)
        decrease[part] = point.decrease
        optimal = optimal and bool(point.is_optimal.all())
    return problem.zero_objective(), decrease, optimal


def residual_point(problem: Problem, residual: Float, polar_upper: Float, part: slice) -> DualPoint:
    """The residual of a range of samples, rescaled sample by sample to be dual feasible."""
    x = problem.data(part)
    scale = feasible_scale(residual, x, polar_upper, problem)
    if problem.regularizer.couples_samples:
        scale = np.full_like(scale, scale.min())
    q = residual * _column(scale, residual)
    return DualPoint(q, _decrease(problem.loss, x, q), np.zeros(len(x), dtype=bool))


def feasible_scale(residual: Float, x: Float, polar_upper: Float, problem: Problem) -> Float:
    """s_t = min(alpha / polar(R_t), dual limit / ||R_t||_inf, <R_t, X_t> / ||R_t||^2), at least 0."""
    flat, data = residual.reshape(len(x), -1), x.reshape(len(x), -1)
    energy = np.einsum("ti,ti->t", flat, flat)
    aligned = np.einsum("ti,ti->t", flat, data)
    largest = np.abs(flat).max(axis=1)
    if problem.regularizer.couples_samples:
        energy, aligned = np.full_like(energy, energy.sum()), np.full_like(aligned, aligned.sum())
        largest = np.full_like(largest, largest.max())
    scale = _ratio(problem.alpha, polar_upper)
    if np.isfinite(problem.loss.dual_limit):
        scale = np.minimum(scale, _ratio(problem.loss.dual_limit, largest))
    scale = np.minimum(scale, _ratio(aligned, energy))
    return np.where(energy > 0, np.maximum(scale, 0.0), 0.0)


def merge(first: DualPoint, second: DualPoint, coupled: bool) -> DualPoint:
    """The better of two feasible points, sample by sample."""
    return _better(first, second, coupled)


def _ratio(numerator: Float | float, denominator: Float) -> Float:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(denominator > 0, numerator / denominator, np.inf)


def _column(values: Float, like: Float) -> Float:
    return values.reshape(-1, *[1] * (like.ndim - 1))


def _decrease(loss: Loss, x: Float, q: Float) -> Float:
    return loss.fenchel_young(x, q).reshape(len(x), -1).sum(axis=1)


def _better(first: DualPoint, second: DualPoint, coupled: bool) -> DualPoint:
    if coupled:
        return second if second.decrease.sum() < first.decrease.sum() else first
    wins = second.decrease < first.decrease
    return DualPoint(
        np.where(_column(wins, first.q), second.q, first.q),
        np.where(wins, second.decrease, first.decrease),
        first.is_optimal | second.is_optimal,
    )


def _shrunk(x: Float, problem: Problem, relaxation: Relaxation) -> DualPoint:
    """Q = X - shrink(X): the gain f(0) - D(Q) is half the energy of what is left."""
    kept = relaxation.shrink(x, problem.alpha)
    flat = kept.reshape(len(x), -1)
    gain = 0.5 * np.einsum("ti,ti->t", flat, flat)
    return DualPoint(x - kept, gain, np.full(len(x), relaxation.is_exact))


def _solved(
    x: Float, problem: Problem, part: slice, relaxation: Relaxation, tol: float, max_iter: int
) -> DualPoint:
    """FISTA with restarts on min_Z loss + alpha Omega_S(Z), each sample until its own gap closes."""
    coupled = problem.regularizer.couples_samples
    scale = problem.loss_by_sample(x)
    scale = np.full_like(scale, scale.sum()) if coupled else scale
    best_q = np.zeros_like(x)
    best = _decrease(problem.loss, x, best_q)
    z, y, momentum = np.zeros_like(x), np.zeros_like(x), np.ones(len(x))
    active = np.arange(len(x))
    solved = np.zeros(len(x), dtype=bool)
    mask = None if problem.samples.mask is None else problem.samples.mask[part]
    step = 1.0 / problem.loss.lipschitz
    for iteration in range(max_iter):
        if iteration % 5 == 0:
            q, decrease, gap = _rescaled(problem, relaxation, x[active], z[active], _rows(mask, active))
            better = decrease < best[active] if not coupled else np.full(
                len(active), decrease.sum() < best[active].sum()
            )
            best_q[active[better]], best[active[better]] = q[better], decrease[better]
            gap = np.full_like(gap, gap.sum()) if coupled else gap
            done = gap <= tol * scale[active]
            solved[active[done]] = True
            active = active[~done]
            if active.size == 0:
                break
        force = problem.loss.influence(_masked(x[active] - y[active], _rows(mask, active)))
        new = relaxation.shrink(y[active] + step * force, step * problem.alpha)
        following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum[active] ** 2))
        move = new - z[active]
        uphill = np.einsum("ti,ti->t", (y[active] - new).reshape(len(new), -1), move.reshape(len(new), -1)) > 0
        weight = np.where(uphill, 0.0, (momentum[active] - 1.0) / following)
        momentum[active] = np.where(uphill, 1.0, following)
        y[active] = new + _column(weight, move) * move
        z[active] = new
    return DualPoint(best_q, best, solved & relaxation.is_exact)


def _rows(mask: NDArray[np.bool_] | None, rows: NDArray[np.intp]) -> NDArray[np.bool_] | None:
    return None if mask is None else mask[rows]


def _masked(values: Float, mask: NDArray[np.bool_] | None) -> Float:
    return values if mask is None else np.where(mask, values, 0.0)


def _rescaled(
    problem: Problem, relaxation: Relaxation, x: Float, z: Float, mask: NDArray[np.bool_] | None
) -> tuple[Float, Float, Float]:
    """Q from the residual at Z, f(0) - D(Q), and the gap of the convex problem at (Z, Q)."""
    error = _masked(x - z, mask)
    residual = problem.loss.influence(error)
    scale = feasible_scale(residual, x, relaxation.dual_norm(residual), problem)
    if problem.regularizer.couples_samples and scale.size:
        scale = np.full_like(scale, scale.min())
    q = residual * _column(scale, residual)
    young = problem.loss.fenchel_young(error, q).reshape(len(x), -1).sum(axis=1)
    inner = np.einsum("ti,ti->t", q.reshape(len(x), -1), z.reshape(len(x), -1))
    gap = young + problem.alpha * relaxation.value(z) - inner
    return q, _decrease(problem.loss, x, q), gap

