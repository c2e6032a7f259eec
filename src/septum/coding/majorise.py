"""Missing entries and other losses, by majorisation: every step is a squared-loss lasso with everything observed.

For a loss with a derivative of Lipschitz constant L, and the masked residual R = rho'(M o (X - Y)) at any point Y,

    loss(Z) <= loss(Y) - <R, Z - Y> + L/2 ||Z - Y||^2 = const + L/2 ||(Y + R / L) - Z||^2,

so the next codes are those of the filled-in data Y + R / L at alpha / L, which the compiled engine finds from the
last ones in a few sweeps. Y is extrapolated from the last two reconstructions, with restart: the accelerated
proximal gradient method in the space of the data, whose speed does not depend on the dictionaries' coherence.

The gap is that of the problem itself: with R = rho'(M o (X - Z)), B its correlations and s R dual feasible,

    gap(s) = sum (Fenchel-Young term of the loss at (M o (X - Z), s R)) + sum |c| (alpha - s sign(c) b).
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from septum.coding.mode import F64, Grid, Index
from septum.coding.sample import correlate_run, reconstruct_run, solve_run
from septum.loss import Loss

MAX_STEPS = 1000
PATIENCE = 50


class Run(NamedTuple):
    """CSR codes of a run of samples, with their gaps and iterations."""

    pointer: Index
    atom: Index
    value: F64
    gap: F64
    n_iter: Index


class Assessment(NamedTuple):
    """Reconstructions, residuals and gaps of a run's codes."""

    fitted: F64
    residual: F64
    gap: F64


def solve_majorised(
    grid: Grid,
    samples: F64,
    mask: NDArray[np.bool_] | None,
    loss: Loss,
    alpha: float,
    positive: bool,
    single: bool,
    target: F64,
    warm: tuple[Index, Index, F64],
    capacity: int,
) -> Run:
    """Codes of samples (n_samples, d_1 ... d_n) under a mask and a loss, to gaps of at most `target`."""
    codes = _Rows(*warm)
    state = assess(grid, samples, mask, loss, alpha, positive, codes.run())
    aim = 0.5 * target if single else target
    point, momentum = state.fitted.copy(), np.ones(len(samples))
    fitted, gap = state.fitted, state.gap
    waited, best, precision = np.zeros(len(samples), int), gap.copy(), np.full(len(samples), 0.01)
    n_iter = np.zeros(len(samples), np.int64)
    todo = np.flatnonzero(gap > aim)
    for _ in range(MAX_STEPS):
        if todo.size == 0:
            break
        hidden = None if mask is None else mask[todo]
        pulled = loss.influence(_masked(samples[todo] - point[todo], hidden))
        surrogate = point[todo] + pulled / loss.lipschitz
        found = solve_run(
            grid, surrogate, alpha / loss.lipschitz, positive, False, True, 0.0,
            np.maximum(precision[todo] * gap[todo], 1e-3 * aim[todo]) / loss.lipschitz, *codes.take(todo), capacity,
        )  # fmt: skip
        codes.put(todo, *found[:3])
        state = assess(grid, samples[todo], hidden, loss, alpha, positive, codes.take(todo))
        uphill = np.einsum("td,td->t", point[todo] - state.fitted, state.fitted - fitted[todo]) > 0
        t = np.where(uphill, 1.0, momentum[todo])
        momentum[todo] = 0.5 * (1 + np.sqrt(1 + 4 * t * t))
        beta = ((t - 1) / momentum[todo])[:, None]
        point[todo] = state.fitted + beta * (state.fitted - fitted[todo])
        fitted[todo], gap[todo] = state.fitted, state.gap
        n_iter[todo] += 1
        better = gap[todo] < 0.9 * best[todo]
        best[todo] = np.minimum(best[todo], gap[todo])
        waited[todo] = np.where(better, 0, waited[todo] + 1)
        slow = todo[(waited[todo] >= 5) & (precision[todo] > 1e-6)]
        precision[slow] *= 0.1
        waited[slow] = 0
        todo = todo[(gap[todo] > aim[todo]) & (waited[todo] < PATIENCE)]
    result = codes.run()
    if single:
        result = (result[0], result[1], result[2].astype(np.float32).astype(np.float64))
        gap = assess(grid, samples, mask, loss, alpha, positive, result).gap
    return Run(*result, gap, n_iter)


def assess(
    grid: Grid,
    samples: F64,
    mask: NDArray[np.bool_] | None,
    loss: Loss,
    alpha: float,
    positive: bool,
    codes: tuple[Index, Index, F64],
) -> Assessment:
    """Reconstruct CSR codes and compute the gap of each sample in float64."""
    fitted = np.empty_like(samples)
    reconstruct_run(grid, *codes, fitted)
    error = _masked(samples - fitted, mask)
    residual = np.ascontiguousarray(loss.influence(error))
    largest, aligned, total = (np.empty(len(samples)) for _ in range(3))
    correlate_run(grid, residual, *codes, positive, largest, aligned, total)
    steepest = np.abs(residual).max(axis=1)
    with np.errstate(divide="ignore"):
        scale = np.minimum(1.0, np.minimum(alpha / largest, loss.dual_limit / steepest))
    misfit = loss.fenchel_young(error, scale[:, None] * residual).sum(axis=1)
    return Assessment(fitted, residual, np.maximum(misfit + (alpha * total - scale * aligned), 0.0))


def _masked(error: F64, mask: NDArray[np.bool_] | None) -> F64:
    return error if mask is None else np.where(mask, error, 0.0)


class _Rows:
    """CSR codes whose rows are replaced as samples move on."""

    def __init__(self, pointer: Index, index: Index, value: F64) -> None:
        self.index = [index[a:b] for a, b in pairwise(pointer)]
        self.value = [value[a:b] for a, b in pairwise(pointer)]

    def take(self, rows: NDArray[np.integer]) -> tuple[Index, Index, F64]:
        lengths = [len(self.index[t]) for t in rows]
        pointer = np.cumsum([0, *lengths]).astype(np.int64)
        if pointer[-1] == 0:
            return pointer, np.zeros(0, np.int64), np.zeros(0)
        return (
            pointer,
            np.concatenate([self.index[t] for t in rows]),
            np.concatenate([self.value[t] for t in rows]),
        )

    def put(self, rows: NDArray[np.integer], pointer: Index, index: Index, value: F64) -> None:
        for place, t in enumerate(rows):
            self.index[t] = index[pointer[place] : pointer[place + 1]]
            self.value[t] = value[pointer[place] : pointer[place + 1]]

    def run(self) -> tuple[Index, Index, F64]:
        return self.take(np.arange(len(self.index)))
