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
from septum.learning.gradient import Block, Point, Smooth, axis_of, samples_first, samples_second
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
            shape[axis_of(mode)] = weight.size
            codes = codes * weight.reshape(shape).astype(codes.dtype)
        return Point(self.unit_atoms(point), codes)

    def value(self, point: Point) -> float:
        """f at a point, less f at zero codes."""
        return self.smooth.in_codes(point).value(point.codes) + self.penalty(point)

    def prox(self, codes: Float, level: float, sizes: tuple[int, ...]) -> Float:
        """prox of level times the norm of the codes, samples second."""
        ones = [np.ones(size) for size in sizes]
        return samples_second(self.regularizer.prox_codes(samples_first(codes), level, ones))


def sparse_codes(point: Point) -> Codes:
    """Dense codes, samples second, as the internal CSR array."""
    first = samples_first(point.codes)
    return flatten_codes(first, first.shape, first.dtype)


@dataclass(frozen=True)
class Stop:
    """When to end a descent: f falls by less than `tol` an iteration on average over `window`.

    `code_steps` proximal steps are taken in the codes for one in each dictionary: the codes are the slow block,
    and with the dictionaries fixed a further step costs little.
    """

    tol: float
    max_iter: int
    code_steps: int = 1
    window: int = 5
    interrupted: Callable[[], bool] = lambda: False


def descend(objective: Objective, start: Point, stop: Stop) -> tuple[Point, list[float]]:
    """Descend from a point: the last point accepted, and f - f(0) at the start and after each iteration."""
    descent = _Descent(objective, start, stop.code_steps)
    for _ in range(stop.max_iter):
        if not descent.iterate() or stop.interrupted():
            break
        trace = descent.trace
        if len(trace) > stop.window and trace[-1 - stop.window] - trace[-1] < stop.window * stop.tol:
            break
    return descent.point, descent.trace


class _Descent:
    """The last two accepted points, the Lipschitz constants of the last iteration, and s."""

    def __init__(self, objective: Objective, start: Point, code_steps: int) -> None:
        self.objective, self.code_steps = objective, code_steps
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
        """A proximal step in every block, extrapolated by at most `weight`, and f - f(0) after it."""
        smooth, point = self.objective.smooth, self.point
        lipschitz = list(self.lipschitz)
        for index in self.order:
            is_codes = index == point.n_modes
            block = smooth.in_codes(point) if is_codes else smooth.in_dictionary(point, index)
            constant = max(block.lipschitz, self.least[index])
            new = self.step(block, index, constant, self.ahead(index, constant, weight))
            if is_codes:
                for _ in range(self.code_steps - 1):
                    new = self.step(block, index, constant, new)
                point = Point(point.dictionaries, new)
            else:
                point = point.with_dictionary(index, new)
            lipschitz[index] = constant
        return point, lipschitz, block.value(new) + self.objective.penalty(point)

    def ahead(self, index: int, constant: float, weight: float) -> Float:
        """A block extrapolated from the last two accepted points."""
        here, before = _block_of(self.point, index), _block_of(self.before, index)
        w = min(weight, DAMPING * sqrt(self.lipschitz[index] / constant)) if weight > 0 else 0.0
        return here + w * (here - before) if w > 0 else here

    def step(self, block: Block, index: int, constant: float, start: Float) -> Float:
        """One proximal gradient step of a block."""
        moved = start - block.gradient(start) / constant
        if index < len(self.point.dictionaries):
            return self.objective.regularizer.project_atoms(moved, index)
        return self.objective.prox(moved, self.objective.alpha / constant, self.point.sizes)


def _block_of(point: Point, index: int) -> Float:
    return point.codes if index == point.n_modes else point.dictionaries[index]
