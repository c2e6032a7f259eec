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

    `decrease` is f(0) - D(Q) for every sample, the most that any codes can gain, written as the
    Fenchel-Young gap of the loss at zero codes. `slack` is at least the best objective minus D(Q):
    zero where D(Q) = f*, infinite where nothing is known.
    """

    q: Float
    decrease: Float
    slack: Float


def dual_point(problem: Problem, part: slice, *, tol: float = 1e-7, max_iter: int = 1000) -> DualPoint:
    """The best Q that the data alone gives, for a range of samples."""
    x = problem.data(part)
    nothing = np.zeros_like(x)
    best = DualPoint(nothing, _decrease(problem.loss, x, nothing), np.full(len(x), np.inf))
    for relaxation in problem.regularizer.relaxations(problem.shape):
        if problem.is_plain:
            point = _shrunk(x, problem, relaxation)
        else:
            point = _Descent(problem, relaxation, x, part).solve(tol, max_iter)
        best = merge(best, point, problem.regularizer.couples_samples)
    return best


def lower_bound(problem: Problem) -> tuple[Float, Float, bool]:
    """f(0) and f(0) - lower bound for every sample, and whether the bound is f* itself (to 1e-6 of f(0))."""
    zero, decrease, slack = problem.zero_objective(), np.zeros(problem.n_samples), 0.0
    for part in problem.parts():
        point = dual_point(problem, part)
        decrease[part] = point.decrease
        slack += float(point.slack.sum())
    return zero, decrease, slack <= 1e-6 * float(zero.sum())


def residual_point(problem: Problem, residual: Float, polar_upper: Float, part: slice) -> DualPoint:
    """The residual of a range of samples, rescaled sample by sample to be dual feasible."""
    x = problem.data(part)
    scale = feasible_scale(residual, x, polar_upper, problem)
    q = residual * _column(scale, residual)
    return DualPoint(q, _decrease(problem.loss, x, q), np.full(len(x), np.inf))


def feasible_scale(residual: Float, x: Float, polar_upper: Float, problem: Problem) -> Float:
    """s_t = min(alpha / polar(R_t), dual limit / ||R_t||_inf, <R_t, X_t> / ||R_t||^2), at least 0.

    One s for all samples where they are coupled.
    """
    energy, aligned = _inner(residual, residual), _inner(residual, x)
    largest = np.abs(residual.reshape(len(x), -1)).max(axis=1)
    if problem.regularizer.couples_samples:
        energy, aligned = np.full_like(energy, energy.sum()), np.full_like(aligned, aligned.sum())
        largest, polar_upper = np.full_like(largest, largest.max()), np.full_like(energy, polar_upper.max())
    scale = np.minimum(_ratio(problem.alpha, polar_upper), _ratio(aligned, energy))
    if np.isfinite(problem.loss.dual_limit):
        scale = np.minimum(scale, _ratio(problem.loss.dual_limit, largest))
    return np.where(energy > 0, np.maximum(scale, 0.0), 0.0)


def merge(first: DualPoint, second: DualPoint, coupled: bool) -> DualPoint:
    """The better of two feasible points, sample by sample where samples are free of each other.

    The best objective is the same for both, so the slack of one and the distance between the two bound
    the slack of the other.
    """
    gain = first.decrease - second.decrease
    gain = np.full_like(gain, gain.mean()) if coupled else gain
    wins = gain > 0
    slack = np.where(
        wins, np.minimum(second.slack, first.slack - gain), np.minimum(first.slack, second.slack + gain)
    )
    return DualPoint(
        np.where(_column(wins, first.q), second.q, first.q),
        np.where(wins, second.decrease, first.decrease),
        np.maximum(slack, 0.0),
    )


def _ratio(numerator: Float | float, denominator: Float) -> Float:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(denominator > 0, numerator / denominator, np.inf)


def _column(values: Float, like: Float) -> Float:
    return values.reshape(-1, *[1] * (like.ndim - 1))


def _decrease(loss: Loss, x: Float, q: Float) -> Float:
    return loss.fenchel_young(x, q).reshape(len(x), -1).sum(axis=1)


def _shrunk(x: Float, problem: Problem, relaxation: Relaxation) -> DualPoint:
    """Q = X - shrink(X): the gain f(0) - D(Q) is half the energy of what is left."""
    kept = relaxation.shrink(x, problem.alpha)
    gain = 0.5 * _inner(kept, kept)
    return DualPoint(x - kept, gain, np.full(len(x), 0.0 if relaxation.is_exact else np.inf))


class _Descent:
    """Accelerated proximal gradient steps with restarts on min_Z loss + alpha Omega_S(Z).

    Samples are problems of their own unless coupled: each restarts by itself and leaves when the gap
    between its Z and its rescaled residual closes, or when the bound has not risen for 20 steps and the
    gap cannot close because the relaxation's dual norm is itself only bounded. The best residual is kept.
    """

    def __init__(self, problem: Problem, relaxation: Relaxation, x: Float, part: slice) -> None:
        self.problem, self.relaxation, self.x = problem, relaxation, x
        self.mask = None if problem.samples.mask is None else problem.samples.mask[part]
        self.q = np.zeros_like(x)
        self.decrease = _decrease(problem.loss, x, self.q)
        self.slack = np.full(len(x), np.inf)
        self.idle = np.zeros(len(x))
        self.patience = np.inf if relaxation.is_exact else 4

    def solve(self, tol: float, max_iter: int) -> DualPoint:
        x, scale = self.x, tol * self._joined(self.problem.loss_by_sample(self.x))
        z, y, momentum = np.zeros_like(x), np.zeros_like(x), np.ones(len(x))
        active = np.arange(len(x))
        for iteration in range(max_iter):
            if iteration % 5 == 0:
                gap = self._keep_best(z[active], active, scale)
                active = active[(gap > scale[active]) & (self.idle[active] < self.patience)]
                if active.size == 0:
                    break
            new = self._step(y[active], active)
            following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum[active] ** 2))
            move = new - z[active]
            uphill = self._joined(_inner(y[active] - new, move)) > 0
            weight = np.where(uphill, 0.0, (momentum[active] - 1.0) / following)
            momentum[active] = np.where(uphill, 1.0, following)
            y[active] = new + _column(weight, move) * move
            z[active] = new
        return DualPoint(self.q, self.decrease, self.slack)

    def _step(self, y: Float, rows: NDArray[np.intp]) -> Float:
        step = 1.0 / self.problem.loss.lipschitz
        force = self.problem.loss.influence(self._observed(self.x[rows] - y, rows))
        return self.relaxation.shrink(y + step * force, step * self.problem.alpha)

    def _keep_best(self, z: Float, rows: NDArray[np.intp], tol: Float) -> Float:
        """Rescale the residual at Z to a dual point, keep it where it is better; the gap between the two."""
        problem, x = self.problem, self.x[rows]
        error = self._observed(x - z, rows)
        residual = problem.loss.influence(error)
        scale = feasible_scale(residual, x, self.relaxation.dual_norm(residual), problem)
        q = residual * _column(scale, residual)
        decrease = _decrease(problem.loss, x, q)
        rise = self._joined(self.decrease[rows] - decrease)
        better = rise > 0
        self.idle[rows] = np.where(rise > 100 * tol[rows], 0, self.idle[rows] + 1)
        self.q[rows[better]], self.decrease[rows[better]] = q[better], decrease[better]
        young = problem.loss.fenchel_young(error, q).reshape(len(x), -1).sum(axis=1)
        gap = self._joined(young + problem.alpha * self.relaxation.value(z) - _inner(q, z))
        if self.relaxation.is_exact:
            share = len(x) if problem.regularizer.couples_samples else 1
            self.slack[rows] = np.minimum(self.slack[rows], np.maximum(gap, 0.0) / share)
        return gap

    def _observed(self, values: Float, rows: NDArray[np.intp]) -> Float:
        return values if self.mask is None else np.where(self.mask[rows], values, 0.0)

    def _joined(self, values: Float) -> Float:
        """Each sample's value, or their sum for all where samples are coupled."""
        return np.full_like(values, values.sum()) if self.problem.regularizer.couples_samples else values


def _inner(a: Float, b: Float) -> Float:
    """<A_t, B_t> for every sample."""
    return np.einsum("ti,ti->t", a.reshape(len(a), -1), b.reshape(len(b), -1))
