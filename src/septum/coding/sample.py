"""The squared-loss lasso of one sample, and of a run of samples: the choice of engine, compiled.

    screen       max |q| <= alpha: zero codes are optimal, and nothing else is done
    working set  the sample's own largest violators join a set, the restricted problem is solved, and the full
                 gradient q - G c (a small product over the nonzero rows of C) names the next violators
    FISTA        when the set outgrows its room, or has cost as much as 300 FISTA steps: codes that are not sparse

The engines take turns, each from the other's codes and with twice the last turn's budget, so that the better one
for a sample is never far behind; budgets count operations, not time, and so do not depend on the machine.

The gap that stops a sample is the full one, from a gradient computed afresh from the codes that are returned.
"""

from typing import NamedTuple

import numpy as np

from septum.coding.accelerated import Momentum, accelerate, make_momentum
from septum.coding.compiled import compiled
from septum.coding.gap import duality_gap
from septum.coding.mode import (
    F64,
    Index,
    correlate,
    cosine,
    extend_gram,
    gram_diagonal,
    multiply,
    partial_size,
    product,
    sparse_image,
    step_cost,
)
from septum.coding.working_set import (
    SWEEP_COST,
    WorkingSet,
    descend,
    make_working_set,
    name_atom,
    refresh_residual,
)

FIRST_ATOMS = 24
DISTINCT = 0.6  # joint atoms with a larger cosine do not enter in the same round
MAX_ROUNDS = 100
FIRST_TURN = 300  # steps of FISTA that the first turn of either engine is worth
MAX_TURNS = 8


class Desk(NamedTuple):
    """Room to work on one sample at a time."""

    first: F64
    second: F64
    signal: F64  # q = X x_1 A_1^T ... x_n A_n^T
    gradient: F64  # q - G c
    slot: Index
    member: Index  # 1 where an atom is in the working set
    top: F64  # the largest |gradient| of each row
    candidate: Index
    violation: F64
    atom: Index  # the codes so far: flat index and value
    value: F64
    work: WorkingSet
    momentum: Momentum


@compiled
def make_desk(grid, capacity):
    """Room for samples of the grid's shape and working sets of up to `capacity` atoms."""
    n = len(grid.ranks)
    length = product(grid.ranks, 0, n)
    height = product(grid.ranks, 0, n - 1)
    room = partial_size(grid)
    if n == 2:
        room = max(room, height * height)
    return Desk(
        np.empty(room),
        np.empty(room),
        np.empty(length),
        np.empty(length),
        np.full(height, -1),
        np.zeros(length, np.int64),
        np.empty(height),
        np.empty(length + 1, np.int64),
        np.empty(length + 1),
        np.empty(length, np.int64),
        np.empty(length),
        make_working_set(n, capacity),
        make_momentum(length),
    )


@compiled
def solve_sample(grid, desk, sample, alpha, positive, single, move, share, target, count):
    """Codes of one sample; `count` warm codes stand in desk.atom and desk.value, and the result replaces them.

    Stops at a gap of `target` + `share` * 1/2 ||X||^2, the goal. `single`: the codes are rounded to float32, and
    the gap is of these. `move`: make one round even when the warm codes are good enough already.
    Returns the number of nonzero codes, the gap, the goal and the iterations.
    """
    energy = 0.0
    for entry in sample:
        energy += entry * entry
    goal = target + share * 0.5 * energy
    correlate(grid, sample, desk.first, desk.second, desk.signal)
    largest = 0.0
    for q in desk.signal:
        largest = max(largest, q if positive else abs(q))
    if largest <= alpha:
        return 0, 0.0, goal, 0
    spent = 0
    steps = FIRST_TURN
    for _ in range(MAX_TURNS):
        if count <= 0.9 * len(desk.work.codes):
            size = _seed(grid, desk, count, positive)
            budget = steps * step_cost(grid)
            count, gap, more, finished = _grow(
                grid, desk, size, alpha, positive, single, move, energy, goal, budget
            )
            spent += more
            if finished:
                break
        count, gap, more = _accelerate(grid, desk, count, alpha, positive, single, energy, goal, steps)
        spent += more
        if gap <= goal:
            break
        steps *= 2
    return count, gap, goal, spent


@compiled
def _seed(grid, desk, count, positive):
    """The working set of the warm codes; codes on zero atoms, or of the wrong sign, are dropped."""
    work = desk.work
    size = 0
    for a in range(count):
        index, value = desk.atom[a], desk.value[a]
        if value == 0.0 or (positive and value < 0.0) or gram_diagonal(grid, index) <= 0.0:
            continue
        name_atom(grid, work, size, index, value, desk.signal[index])
        size += 1
    extend_gram(grid, work.modes, 0, size, work.gram)
    return size


@compiled
def _grow(grid, desk, size, alpha, positive, single, move, energy, target, budget):
    """Rounds of the working set; `finished` is False when room or budget ran out before the gap was small."""
    work = desk.work
    capacity = len(work.codes)
    for a in range(size):
        desk.member[work.atom[a]] = 1
    count = _collect(desk, size, False)
    gap = _full_gap(grid, desk, count, alpha, positive, energy)
    spent = 0
    finished = False
    inner_share = 0.1
    for turn in range(MAX_ROUNDS):
        if gap <= target and not (move and turn == 0 and gap > 0.0):
            finished = True
            break
        room = max(FIRST_ATOMS, count)
        fresh = _violators(grid, desk, alpha, positive, room)
        if budget <= 0.0:
            break
        if size + fresh > capacity:
            size = _compact(desk, size)
            if size > 0.9 * capacity:
                break
            fresh = min(fresh, capacity - size)
        for a in range(fresh):
            index = desk.candidate[a]
            name_atom(grid, work, size + a, index, 0.0, desk.signal[index])
            desk.member[index] = 1
        extend_gram(grid, work.modes, size, size + fresh, work.gram)
        size += fresh
        if single:
            refresh_residual(work, size)
        else:
            for a in range(size):
                work.residual[a] = desk.gradient[work.atom[a]]
        aim = min(max(0.25 * target, inner_share * gap), 0.25 * gap)
        before = gap
        sweeps, cost = descend(work, size, alpha, positive, energy, aim, budget)
        spent += sweeps
        budget -= cost + SWEEP_COST * size * (count + fresh)
        count = _collect(desk, size, single)
        gap = _full_gap(grid, desk, count, alpha, positive, energy)
        if fresh == 0:
            inner_share *= 0.1
            if sweeps == 0 and gap >= before and aim <= 0.25 * target:
                finished = True  # as far as rounding lets it go
                break
    for a in range(size):
        desk.member[work.atom[a]] = 0
    return count, gap, spent, finished


@compiled
def _collect(desk, size, single):
    """Copy the nonzero codes of the working set to the desk, rounded to float32 if asked."""
    count = 0
    for a in range(size):
        value = desk.work.codes[a]
        if single:
            value = np.float64(np.float32(value))
        if value != 0.0:
            desk.atom[count] = desk.work.atom[a]
            desk.value[count] = value
            count += 1
    return count


@compiled
def _full_gap(grid, desk, count, alpha, positive, energy):
    """The gradient and the duality gap of the codes on the desk, afresh."""
    gradient, signal = desk.gradient, desk.signal
    if count == 0:
        gradient[:] = signal
    else:
        sparse_image(grid, desk.atom, desk.value, count, desk.slot, desk.first, desk.second, gradient)
        for a in range(len(signal)):
            gradient[a] = signal[a] - gradient[a]
    largest = _row_tops(gradient, desk.top, positive)
    aligned = 0.0
    total = 0.0
    fitted = 0.0
    for a in range(count):
        c = desk.value[a]
        aligned += gradient[desk.atom[a]] * c
        fitted += signal[desk.atom[a]] * c
        total += abs(c)
    return duality_gap(largest, aligned, energy - fitted - aligned, total, alpha)


@compiled
def _row_tops(gradient, top, positive):
    """The largest |gradient| of each row of atoms (i_1, ..., i_{n-1}), and of all."""
    width = len(gradient) // len(top)
    largest = 0.0
    for row in range(len(top)):
        high = 0.0
        if positive:
            for a in range(row * width, (row + 1) * width):
                high = max(high, gradient[a])
        else:
            for a in range(row * width, (row + 1) * width):
                high = max(high, abs(gradient[a]))
        top[row] = high
        largest = max(largest, high)
    return largest


@compiled
def _violators(grid, desk, alpha, positive, room):
    """Put up to `room` atoms outside the set with the largest |gradient| > alpha on desk.candidate."""
    gradient, member, candidate, violation = desk.gradient, desk.member, desk.candidate, desk.violation
    width = len(gradient) // len(desk.top)
    found = 0
    for row in range(len(desk.top)):
        if desk.top[row] <= alpha:
            continue
        for a in range(row * width, (row + 1) * width):
            size = gradient[a] if positive else abs(gradient[a])
            candidate[found] = a
            violation[found] = size
            found += (size > alpha) & (member[a] == 0)
    if grid.coherence > DISTINCT:
        return _distinct(grid, desk, _strongest(desk, found, 4 * room), room)
    return _strongest(desk, found, room)


@compiled
def _strongest(desk, found, room):
    """Keep about `room` of the candidates, those with the largest violation."""
    if found <= room:
        return found
    edge = _edge(desk.violation, found, room)
    kept = 0
    for a in range(found):
        if desk.violation[a] >= edge and kept < room:
            desk.candidate[kept] = desk.candidate[a]
            desk.violation[kept] = desk.violation[a]
            kept += 1
    return kept


@compiled
def _distinct(grid, desk, found, room):
    """Keep up to `room` candidates, strongest first, each unlike those before it."""
    candidate, violation = desk.candidate, desk.violation
    kept = 0
    while kept < room and kept < found:
        best = kept
        for a in range(kept, found):
            if violation[a] > violation[best]:
                best = a
        candidate[kept], candidate[best] = candidate[best], candidate[kept]
        violation[kept], violation[best] = violation[best], violation[kept]
        last = kept + 1
        for a in range(kept + 1, found):
            if cosine(grid, candidate[kept], candidate[a]) <= DISTINCT:
                candidate[last], candidate[a] = candidate[a], candidate[last]
                violation[last], violation[a] = violation[a], violation[last]
                last += 1
        found = last
        kept += 1
    return kept


@compiled
def _edge(value, count, room):
    """A level that about `room` of the values reach: between half of it and all, by bisection."""
    low, high = value[0], value[0]
    for a in range(count):
        low = min(low, value[a])
        high = max(high, value[a])
    for _ in range(30):
        middle = 0.5 * (low + high)
        above = 0
        for a in range(count):
            if value[a] >= middle:
                above += 1
        if above > room:
            low = middle
        else:
            high = middle
            if 2 * above >= room:
                break
    return high


@compiled
def _compact(desk, size):
    """Keep only the atoms with a nonzero code; their Gram moves up with them."""
    work = desk.work
    kept = 0
    for a in range(size):
        if work.codes[a] == 0.0:
            desk.member[work.atom[a]] = 0
            continue
        work.support[kept] = a
        kept += 1
    for i in range(kept):
        a = work.support[i]
        work.atom[i] = work.atom[a]
        work.modes[:, i] = work.modes[:, a]
        work.codes[i] = work.codes[a]
        work.signal[i] = work.signal[a]
        for j in range(kept):
            work.gram[i, j] = work.gram[a, work.support[j]]
    return kept


@compiled
def _accelerate(grid, desk, count, alpha, positive, single, energy, target, steps):
    """At most about `steps` steps of FISTA from the codes on the desk."""
    state = desk.momentum
    state.codes[:] = 0.0
    for a in range(count):
        state.codes[desk.atom[a]] = desk.value[a]
    aim = 0.5 * target if single else target
    spent = 0
    while True:
        _, more = accelerate(
            grid, state, desk.signal, alpha, positive, energy, aim, steps, desk.first, desk.second
        )
        spent += more
        count = 0
        for a in range(len(state.codes)):
            value = np.float64(np.float32(state.codes[a])) if single else state.codes[a]
            if value != 0.0:
                desk.atom[count] = a
                desk.value[count] = value
                count += 1
        gap = _full_gap(grid, desk, count, alpha, positive, energy)
        if gap <= target or spent >= steps or aim < 0.01 * target:
            break
        aim *= 0.1
    return count, gap, spent


@compiled
def solve_run(
    grid, samples, alpha, positive, single, move, share, target, warm_start, warm_index, warm_value, capacity
):
    """Codes of a run of samples (n_samples, d_1 ... d_n), with warm codes in CSR form.

    Returns the codes' row pointers, flat indices and values (each row in order), the gaps, the
    iterations, and whether each gap is small enough.
    """
    n_samples = len(samples)
    desk = make_desk(grid, capacity)
    pointer = np.zeros(n_samples + 1, np.int64)
    index = np.empty(1024, np.int64)
    value = np.empty(1024)
    gap = np.empty(n_samples)
    converged = np.empty(n_samples, np.bool_)
    spent = np.empty(n_samples, np.int64)
    for t in range(n_samples):
        warm = warm_start[t + 1] - warm_start[t]
        desk.atom[:warm] = warm_index[warm_start[t] : warm_start[t + 1]]
        desk.value[:warm] = warm_value[warm_start[t] : warm_start[t + 1]]
        count, gap[t], goal, spent[t] = solve_sample(
            grid, desk, samples[t], alpha, positive, single, move, share, target[t], warm
        )
        converged[t] = gap[t] <= goal
        base = pointer[t]
        pointer[t + 1] = base + count
        if base + count > len(index):
            room = 2 * (base + count)
            longer_index, longer_value = np.empty(room, np.int64), np.empty(room)
            longer_index[:base], longer_value[:base] = index[:base], value[:base]
            index, value = longer_index, longer_value
        order = np.argsort(desk.atom[:count])
        for a in range(count):
            index[base + a] = desk.atom[order[a]]
            value[base + a] = desk.value[order[a]]
    return pointer, index[: pointer[-1]], value[: pointer[-1]], gap, spent, converged


@compiled
def reconstruct_run(grid, pointer, index, value, out):
    """out[t] = C_t x_1 A_1 ... x_n A_n for CSR codes; `out` is (n_samples, d_1 ... d_n)."""
    length = product(grid.ranks, 0, len(grid.ranks))
    first, second = np.empty(partial_size(grid)), np.empty(partial_size(grid))
    codes = np.zeros(length)
    for t in range(len(out)):
        if pointer[t] == pointer[t + 1]:
            out[t] = 0.0
            continue
        for a in range(pointer[t], pointer[t + 1]):
            codes[index[a]] = value[a]
        multiply(grid, codes, first, second, out[t])
        for a in range(pointer[t], pointer[t + 1]):
            codes[index[a]] = 0.0


@compiled
def correlate_run(grid, residuals, pointer, index, value, positive, largest, aligned, total):
    """For residuals R_t and CSR codes: max |B|, <B, C> and ||C||_1, with B the correlations of R_t."""
    length = product(grid.ranks, 0, len(grid.ranks))
    first, second = np.empty(partial_size(grid)), np.empty(partial_size(grid))
    gradient = np.empty(length)
    for t in range(len(residuals)):
        correlate(grid, residuals[t], first, second, gradient)
        top = 0.0
        for g in gradient:
            top = max(top, g if positive else abs(g))
        inner = 0.0
        norm = 0.0
        for a in range(pointer[t], pointer[t + 1]):
            inner += gradient[index[a]] * value[a]
            norm += abs(value[a])
        largest[t], aligned[t], total[t] = top, inner, norm
