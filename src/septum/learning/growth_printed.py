"""Growth as algorithm 3 prints it, kept so that what it does can be measured; two modes, squared loss.

With W_t = R_t / alpha it computes

    g_t = sigma_max(A_1^T W_t) / sigma_max(A_1),   p_t = sigma_max(W_t A_2) / sigma_max(A_2),   c_t = sigma_max(W_t)

and takes their maxima. If g > 1 and g > p it adds the right singular vector of A_1^T W_t to A_2, with codes tau
times the left singular vector over the existing atoms of A_1; if p > 1 and p > g the mirror image; else if c > 1 a
new atom on both sides. tau minimises 1/2 ||R_t - tau E||^2 + alpha |tau| (equation "globalstep").

That step size charges alpha |tau| for a code column s that costs alpha |tau| ||s||_1, so a step may raise f
(`grow_as_printed`). `grow_at_true_cost` charges alpha |tau| ||s||_1 and, where this leaves tau = 0 or
no descent, grows on both sides. Neither makes the tests exact: g > 1 does not say that adding on one side helps, and
g <= 1 does not say that it would not. `growth_palm` has the exact test.

What it does is in benchmarks/results/palm.md: on the synthetic set at alpha 0.85 the rule as printed stalls at 94.8%
with 3 + 7 atoms and nearly every further step raises f; at alpha 0.95 it takes twice the atoms of the exact test.
"""

from dataclasses import dataclass

import numpy as np

from septum.array import Float
from septum.errors import InvalidInputError
from septum.learning.gradient import Point, Quadratic, samples_first
from septum.learning.growth_palm import Check, Schedule
from septum.learning.proximal import Objective
from septum.spectral import max_singular_value


@dataclass(frozen=True)
class Sides:
    """The three maxima of algorithm 3 and the samples that attain them."""

    g: float
    p: float
    c: float
    g_sample: int
    p_sample: int
    c_sample: int


def printed_tests(W: Float, dictionaries: list[Float]) -> Sides:
    """g, p and c for W `(n_samples, d_1, d_2)`."""
    left, right = dictionaries
    c, c_sample = max_singular_value(W)
    g = p = 0.0
    g_sample = p_sample = -1
    if left.shape[1]:
        g, g_sample = max_singular_value(np.matmul(left.T, W))
        g /= float(np.linalg.norm(left, 2))
    if right.shape[1]:
        p, p_sample = max_singular_value(np.matmul(W, right))
        p /= float(np.linalg.norm(right, 2))
    return Sides(g, p, c, g_sample, p_sample, c_sample)


def grow_as_printed(objective: Objective, point: Point, found: Check, schedule: Schedule) -> Point | None:
    """One growth step to the letter; f may rise."""
    return _grow(objective, point, found, schedule, true_cost=False)


def grow_at_true_cost(objective: Objective, point: Point, found: Check, schedule: Schedule) -> Point | None:
    """The printed tests, the true cost of a code column, and growth on both sides as the fallback."""
    before = objective.value(point)
    grown = _grow(objective, point, found, schedule, true_cost=True)
    if grown is not None and objective.value(grown) < before:
        return grown
    return _both(objective, point, found, schedule)


def _grow(
    objective: Objective, point: Point, found: Check, schedule: Schedule, *, true_cost: bool
) -> Point | None:
    if len(point.dictionaries) != 2 or not isinstance(objective.smooth, Quadratic):
        raise InvalidInputError(
            "growth as printed is defined for two modes, the squared loss and no mask: use growth='exact'"
        )
    sides = printed_tests(found.residual / objective.alpha, list(point.dictionaries))
    sizes, caps = point.sizes, schedule.caps
    if sides.g > 1 and sides.g > sides.p and sizes[1] < caps[1]:
        return _one_side(objective, point, found.residual, sides.g_sample, 1, true_cost)
    if sides.p > 1 and sides.p > sides.g and sizes[0] < caps[0]:
        return _one_side(objective, point, found.residual, sides.p_sample, 0, true_cost)
    return _both(objective, point, found, schedule)


def _one_side(
    objective: Objective, point: Point, residual: Float, sample: int, mode: int, true_cost: bool
) -> Point | None:
    """A new atom in `mode`, with codes tau s over the existing atoms of the other mode."""
    fixed = point.dictionaries[1 - mode]
    R = residual[sample] if mode == 1 else residual[sample].T
    left, _, right = np.linalg.svd(fixed.T @ R, full_matrices=False)
    column, atom = left[:, 0], right[0]
    E = np.outer(fixed @ column, atom)
    price = float(np.abs(column).sum()) if true_cost else 1.0
    tau = _step_size(R, E, objective.alpha * price)
    if tau == 0:
        return None
    dictionaries = list(point.dictionaries)
    dictionaries[mode] = np.column_stack([dictionaries[mode], atom.astype(residual.dtype)])
    codes = np.pad(point.codes, [(0, int(mode == 0)), (0, 0), (0, int(mode == 1))])
    if mode == 1:
        codes[:, sample, -1] = tau * column
    else:
        codes[-1, sample, :] = tau * column
    return Point(dictionaries, codes)


def _both(objective: Objective, point: Point, found: Check, schedule: Schedule) -> Point | None:
    """A new atom on both sides from the worst singular pair, with one code."""
    if found.lower <= 1.0 or any(r >= cap for r, cap in zip(point.sizes, schedule.caps, strict=True)):
        return None
    sample = int(np.argmax(found.lower_by_sample))
    R = found.residual[sample]
    left, _, right = np.linalg.svd(R, full_matrices=False)
    tau = _step_size(R, np.outer(left[:, 0], right[0]), objective.alpha)
    if tau == 0:
        return None
    new = (left[:, :1], right[:1].T)
    dictionaries = [np.column_stack([A, a.astype(A.dtype)]) for A, a in zip(point.dictionaries, new, strict=True)]
    codes = np.pad(point.codes, [(0, 1), (0, 0), (0, 1)])
    samples_first(codes)[sample, -1, -1] = tau
    return Point(dictionaries, codes)


def _step_size(R: Float, E: Float, price: float) -> float:
    """argmin 1/2 ||R - tau E||^2 + price |tau|, by soft thresholding."""
    energy, aligned = float(np.sum(E * E)), float(np.sum(R * E))
    return float(np.sign(aligned)) * max(abs(aligned) - price, 0.0) / energy if energy > 0 else 0.0
