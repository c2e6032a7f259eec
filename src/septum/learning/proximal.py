"""Local descent at fixed sizes: algorithm 2 of the paper with appendix B's acceleration, made sound.

The problem is taken in the form

    min  loss(X, Z) + alpha ||C||_1   over atoms with N_k(a) <= 1,   Z = C x_1 A_1 ... x_n A_n

which has the same minima as equation 22 and couples the blocks through the smooth part only. One
iteration takes a proximal step in each block, the others at their current values, in the paper's order:
the dictionaries but the last, the codes, the last dictionary.

    A_k <- project(A_k' - grad / L_k),  C <- prox_{alpha / L_C}(C' - grad / L_C),   L >= L_min > 0

A block's step starts from B' = B + w (B - B_before), w = min((s_{i-1} - 1) / s_i, 0.999 sqrt(L_before / L)),
s_i = (1 + sqrt(1 + 4 s_{i-1}^2)) / 2. If f rises, the iteration is redone from the last accepted point without
extrapolation and s starts again at 1. Steps without extrapolation descend, so f never rises; f is
semi-algebraic and the iterates are bounded, so they approach a critical point.

Appendix B prints another rule: its extrapolation weight grows without bound, and it never restores the
iterate that it rejects.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

import numpy as np

from septum.array import Float
from septum.kronecker import Codes, flatten_codes
from septum.learning.gradient import Point, Smooth, along_all, samples_first, samples_second
from septum.regularizer import Regularizer

# L_min of the dictionaries, relative to ||X||^2 / n_samples, and of the codes, where atoms are about one.
LEAST_CURVATURE = 1e-9
DAMPING = 0.999


@dataclass(frozen=True)
class Objective:
    """f with the atoms' norms at most one: the smooth part and alpha times the norm of the codes."""

    smooth: Smooth
    regularizer: Regularizer
    alpha: float

    def penalty(self, point: Point) -> float:
        """alpha times the norm of the codes, each atom counted as if it had N_k = 1."""
        if not self.regularizer.couples_samples:
            return self.alpha * float(np.abs(point.codes).sum(dtype=np.float64))
        return self.alpha * float(self.regularizer.value(self.unit_atoms(point), sparse_codes(point)).sum())

    def unit_atoms(self, point: Point) -> list[Float]:
        """Atoms scaled to N_k = 1; atoms of norm zero are left alone."""
        weights = self.regularizer.atom_weights(point.dictionaries)
        return [
            (A / np.where(w > 0, w, 1.0)).astype(A.dtype)
            for A, w in zip(point.dictionaries, weights, strict=True)
        ]

    def normalized(self, point: Point) -> Point:
        """Atoms of N_k = 1 and the same reconstruction: the objective cannot rise, for norms are at most 1."""
        weights = self.regularizer.atom_weights(point.dictionaries)
        codes = point.codes
        for mode, weight in enumerate(weights):
            shape = [1] * codes.ndim
            shape[0 if mode == 0 else mode + 1] = weight.size
            codes = codes * weight.reshape(shape).astype(codes.dtype)
        return Point(self.unit_atoms(point), codes)

    def value(self, point: Point) -> float:
        """f at a point."""
        return self.smooth.value(self.smooth.error(_reconstruct(point))) + self.penalty(point)

    def prox(self, codes: Float, level: float, sizes: tuple[int, ...]) -> Float:
        """prox of level times the norm of the codes, samples second."""
        ones = [np.ones(size) for size in sizes]
        return samples_second(self.regularizer.prox_codes(samples_first(codes), level, ones))


def _reconstruct(point: Point) -> Float:
    return along_all(point.codes, point.dictionaries, range(len(point.dictionaries)))


def sparse_codes(point: Point) -> Codes:
    """Dense codes, samples second, as the internal CSR array."""
    first = samples_first(point.codes)
    return flatten_codes(first, first.shape, first.dtype)


@dataclass(frozen=True)
class Stop:
    """When to end a descent: f falls by less than `tol` an iteration on average over `window`."""

    tol: float
    max_iter: int
    window: int = 5
    interrupted: Callable[[], bool] = lambda: False


def descend(objective: Objective, start: Point, stop: Stop) -> tuple[Point, list[float]]:
    """Descend from a point; the last point accepted, and f at the start and after each iteration."""
    descent = _Descent(objective, start)
    for _ in range(stop.max_iter):
        if not descent.iterate() or stop.interrupted():
            break
        trace = descent.trace
        if len(trace) > stop.window and trace[-1 - stop.window] - trace[-1] < stop.window * stop.tol:
            break
    return descent.point, descent.trace


class _Descent:
    """The last two accepted points, the Lipschitz constants of the last iteration, and s."""

    def __init__(self, objective: Objective, start: Point) -> None:
        self.objective = objective
        self.point = self.before = start
        n_modes = len(start.dictionaries)
        # Block k < n is the dictionary of mode k, block n the codes.
        self.order = [*range(n_modes - 1), n_modes, n_modes - 1]
        self.lipschitz = [np.inf] * (n_modes + 1)
        data = objective.smooth.data
        energy = float(np.linalg.norm(data)) ** 2 / max(1, data.shape[1])
        tiny = float(np.finfo(np.float64).tiny)
        self.least = [max(tiny, LEAST_CURVATURE * energy)] * n_modes + [LEAST_CURVATURE]
        self.s = 1.0
        self.trace = [objective.value(start)]

    def iterate(self) -> bool:
        """One accepted iteration; False when not even plain steps descend any more."""
        following = 0.5 * (1.0 + sqrt(1.0 + 4.0 * self.s**2))
        candidate, lipschitz, value = self.sweep((self.s - 1.0) / following)
        if value > self.trace[-1]:
            following = 1.0
            candidate, lipschitz, value = self.sweep(0.0)
            if value >= self.trace[-1]:
                return False
        self.before, self.point = self.point, candidate
        self.lipschitz, self.s = lipschitz, following
        self.trace.append(value)
        return True

    def sweep(self, weight: float) -> tuple[Point, list[float], float]:
        """A proximal step in every block, extrapolated by at most `weight`, and f after it."""
        point, lipschitz = self.point, list(self.lipschitz)
        for block in self.order:
            if block == len(point.dictionaries):
                point, lipschitz[block] = self.step_codes(point, weight)
            else:
                point, lipschitz[block] = self.step_dictionary(point, block, weight)
        return point, lipschitz, self.objective.value(point)

    def extrapolation(self, block: int, constant: float, weight: float) -> float:
        return min(weight, DAMPING * sqrt(self.lipschitz[block] / constant)) if weight > 0 else 0.0

    def step_dictionary(self, point: Point, mode: int, weight: float) -> tuple[Point, float]:
        smooth = self.objective.smooth
        constant = max(smooth.dictionary_lipschitz(point, mode), self.least[mode])
        w = self.extrapolation(mode, constant, weight)
        here = self.point.dictionaries[mode]
        ahead = point.with_dictionary(mode, here + w * (here - self.before.dictionaries[mode]))
        gradient = smooth.dictionary_gradient(ahead, mode, smooth.residual(ahead))
        moved = ahead.dictionaries[mode] - gradient / constant
        atoms = self.objective.regularizer.project_atoms(moved, mode).astype(here.dtype, copy=False)
        return point.with_dictionary(mode, atoms), constant

    def step_codes(self, point: Point, weight: float) -> tuple[Point, float]:
        smooth, alpha = self.objective.smooth, self.objective.alpha
        block = len(point.dictionaries)
        constant = max(smooth.code_lipschitz(point), self.least[block])
        w = self.extrapolation(block, constant, weight)
        here = self.point.codes
        ahead = Point(point.dictionaries, here + w * (here - self.before.codes) if w else here)
        moved = ahead.codes - smooth.code_gradient(ahead, smooth.residual(ahead)) / constant
        codes = self.objective.prox(moved, alpha / constant, point.sizes).astype(here.dtype, copy=False)
        return Point(point.dictionaries, codes), constant
