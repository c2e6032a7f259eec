"""The lasso restricted to a working set: coordinate descent on a local Gram, finished by Newton steps.

For the m atoms of the set with Gram G, correlations q with the sample and codes c, the correlations with the
residual g = q - G c are kept up to date:

    one coordinate:  c_a <- soft(g_a + G_aa c_a, alpha) / G_aa,  g <- g - (change of c_a) G_a
    Newton:          on the support F, d = G_FF^-1 (g_F - alpha sign(c_F)), then an exact line search along
                     c_F + t d, 0 <= t <= 1, over the kinks where a code passes through zero

Descent finds the support, Newton removes the slow linear convergence that coherent atoms cause. Neither raises
the objective. A Newton step costs as much as about |F| / 8 sweeps, and is tried after that many.
"""

from typing import NamedTuple

import numpy as np

from septum.coding.cholesky import factorise, solve
from septum.coding.compiled import compiled
from septum.coding.gap import duality_gap
from septum.coding.mode import F64, Index

PADDING = 8  # rows a multiple of 4096 bytes apart would share one set of the cache
MAX_SWEEPS = 5000
SWEEP_COST = 2.5  # a multiply-add of a sweep against one of a large matrix product
NEWTON_COST = 0.8  # |F|^3 / 6 multiply-adds, slower ones


class WorkingSet(NamedTuple):
    """Room for a working set of some capacity: names, Gram, codes and correlations of its atoms."""

    atom: Index  # flat index of each atom
    modes: Index  # (n, capacity): its index along each mode
    gram: F64  # (capacity, capacity)
    codes: F64
    signal: F64  # q, correlations with the sample
    residual: F64  # g, correlations with the residual
    factor: F64  # (capacity, capacity), for Newton steps
    pull: F64
    step: F64
    skipped: F64
    support: Index


@compiled
def make_working_set(n_modes, capacity):
    """An empty working set."""
    return WorkingSet(
        np.zeros(capacity, np.int64),
        np.zeros((n_modes, capacity), np.int64),
        np.empty((capacity, capacity + PADDING)),
        np.zeros(capacity),
        np.zeros(capacity),
        np.zeros(capacity),
        np.empty((capacity, capacity + PADDING)),
        np.zeros(capacity),
        np.zeros(capacity),
        np.zeros(capacity),
        np.zeros(capacity, np.int64),
    )


@compiled
def name_atom(grid, work, size, index, code, signal):
    """Put an atom at position `size`: its names, code and correlation; `extend_gram` does the rest."""
    work.atom[size] = index
    rest = index
    for step in range(len(grid.ranks)):
        k = len(grid.ranks) - 1 - step
        work.modes[k, size] = rest % grid.ranks[k]
        rest //= grid.ranks[k]
    work.codes[size] = code
    work.signal[size] = signal


@compiled
def refresh_residual(work, size):
    """g = q - G c from scratch."""
    work.residual[:size] = work.signal[:size]
    for a in range(size):
        code = work.codes[a]
        if code != 0.0:
            row = work.gram[a]
            for b in range(size):
                work.residual[b] -= code * row[b]


@compiled
def descend(work, size, alpha, positive, energy, target, budget):
    """Lower the restricted objective until its gap is at most `target`, or until `budget` is spent.

    `energy` is the sample's ||X||^2. Returns the sweeps made and what they cost, in multiply-adds of a large product.
    """
    sweeps = 0
    waited = 0
    cost = 0.0
    gap = _restricted_gap(work, size, alpha, positive, energy)
    while gap > target and cost < budget and sweeps < MAX_SWEEPS:
        active = _sweep(work, size, alpha, positive)
        sweeps += 1
        waited += 1
        cost += SWEEP_COST * (active + 4) * size
        gap = _restricted_gap(work, size, alpha, positive, energy)
        if gap > target and waited >= 3 + active // 8:
            _newton(work, size, alpha, positive)
            waited = 0
            cost += NEWTON_COST * active * active * active + SWEEP_COST * active * size
            gap = _restricted_gap(work, size, alpha, positive, energy)
    return sweeps, cost


@compiled
def _sweep(work, size, alpha, positive):
    active = 0
    residual = work.residual
    for a in range(size):
        row = work.gram[a]
        scale = row[a]
        old = work.codes[a]
        pull = residual[a] + scale * old
        new = 0.0
        if pull > alpha:
            new = (pull - alpha) / scale
        elif pull < -alpha and not positive:
            new = (pull + alpha) / scale
        if new != 0.0:
            active += 1
        change = new - old
        if change != 0.0:
            work.codes[a] = new
            for b in range(size):
                residual[b] -= change * row[b]
    return active


@compiled
def _restricted_gap(work, size, alpha, positive, energy):
    largest = 0.0
    aligned = 0.0
    total = 0.0
    fitted = 0.0
    for a in range(size):
        g = work.residual[a]
        c = work.codes[a]
        largest = max(largest, g if positive else abs(g))
        aligned += g * c
        fitted += work.signal[a] * c
        total += abs(c)
    return duality_gap(largest, aligned, energy - fitted - aligned, total, alpha)


@compiled
def _newton(work, size, alpha, positive):
    count = _newton_direction(work, size, alpha)
    length = _line_search(work, count, alpha, positive)
    for i in range(count):
        a = work.support[i]
        change = length * work.step[i]
        if work.skipped[i] == 2.0:  # the code that the step carries exactly to zero
            change = -work.codes[a]
        if change != 0.0:
            work.codes[a] += change
            row = work.gram[a]
            for b in range(size):
                work.residual[b] -= change * row[b]


@compiled
def _newton_direction(work, size, alpha):
    """Fill `support`, `pull` = g_F - alpha sign(c_F) and `step` = G_FF^-1 pull; return |F|."""
    count = 0
    for a in range(size):
        if work.codes[a] != 0.0:
            work.support[count] = a
            count += 1
    for i in range(count):
        a = work.support[i]
        source = work.gram[a]
        target = work.factor[i]
        for j in range(i, count):
            target[j] = source[work.support[j]]
        work.pull[i] = work.residual[a] - (alpha if work.codes[a] > 0.0 else -alpha)
        work.step[i] = work.pull[i]
    factorise(work.factor, count, work.skipped)
    solve(work.factor, count, work.skipped, work.step)
    return count


@compiled
def _line_search(work, count, alpha, positive):
    """The t in [0, 1] that minimises the objective along the step; `skipped` becomes 2 for a code that ends at zero.

    The slope is (t - 1) <pull, step> plus 2 alpha |step_i| for every code that has passed through zero; non-negative
    codes stop at the first zero.
    """
    curve = 0.0
    for i in range(count):
        curve += work.pull[i] * work.step[i]
    if curve <= 0.0:
        return 0.0
    crossed = 0.0
    while True:
        nearest = 1.0
        which = -1
        for i in range(count):
            c, d = work.codes[work.support[i]], work.step[i]
            if work.skipped[i] == 0.0 and c * d < 0.0 and -c / d < nearest:
                nearest = -c / d
                which = i
        if which < 0:
            return 1.0 if crossed == 0.0 else 1.0 - crossed / curve
        before = (nearest - 1.0) * curve + crossed
        if before >= 0.0:
            return 1.0 - crossed / curve
        crossed += 2.0 * alpha * abs(work.step[which])
        if positive or (nearest - 1.0) * curve + crossed >= 0.0:
            work.skipped[which] = 2.0
            return nearest
        work.skipped[which] = 1.0
