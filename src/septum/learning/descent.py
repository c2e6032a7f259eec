"""Descent at fixed sizes: exact steps of the atoms, then exact codes, over and over.

One round updates every mode's dictionary by its exact atom steps (with the codes' scales), then solves
the codes to a small gap. Each part can only lower the objective. Rounds converge slowly along narrow
valleys, so the dictionaries are over-relaxed: moved on by beta times their last change before the codes
are solved. beta grows while that pays; where it does not, the round is redone without it, so that the
objective never rises.
"""

from collections.abc import Callable

import numpy as np

from septum.array import Float
from septum.learning.atom import update_atoms, weighted_atom
from septum.learning.slab import slabs, statistics
from septum.learning.working import Working

BETA_START, BETA_MAX = 0.5, 8.0


def descend(
    working: Working,
    *,
    tol: float,
    max_rounds: int,
    should_stop: Callable[[], bool] = lambda: False,
) -> list[float]:
    """Rounds until one gains less than `tol` (in units of f); f(0) - f after each round."""
    trace = [working.gain]
    beta = BETA_START
    for _ in range(max_rounds):
        beta = round_of_steps(working, beta)
        trace.append(working.gain)
        if trace[-1] - trace[-2] < tol or should_stop():
            break
    return trace[1:]


def round_of_steps(working: Working, beta: float) -> float:
    """One round; the over-relaxation to use in the next one."""
    before = [A.copy() for A in working.dictionaries]
    gain = working.gain
    for mode in range(len(before)):
        step_mode(working, mode)
    stepped, codes = list(working.dictionaries), working.codes
    plain_gain = float(working.value_of(stepped, codes).sum()) if beta > 0 else 0.0
    if beta > 0:
        working.dictionaries = [_relaxed(new, old, beta) for new, old in zip(stepped, before, strict=True)]
        working.solve_codes()
        if working.gain >= max(gain, plain_gain):
            return min(1.5 * beta, BETA_MAX)
    working.dictionaries, working.codes = stepped, codes
    working.solve_codes()
    return 0.5 * beta if beta > 0.05 else 0.0


def step_mode(working: Working, mode: int) -> None:
    """Exact steps of the atoms of one mode with the codes' supports and signs kept."""
    if working.is_plain:
        stats = statistics(working.X, working.codes, working.dictionaries, mode)
        atoms, factors = update_atoms(working.dictionaries[mode], stats, working.alpha)
    else:
        atoms, factors = _weighted_steps(working, mode)
    working.scale_codes(mode, factors)
    working.dictionaries = [*working.dictionaries[:mode], atoms, *working.dictionaries[mode + 1 :]]


def _relaxed(new: Float, old: Float, beta: float) -> Float:
    sign = np.where(np.einsum("dr,dr->r", new, old) < 0, -1.0, 1.0)
    moved = new + beta * (new - old * sign)
    return moved / np.linalg.norm(moved, axis=0)


def _weighted_steps(working: Working, mode: int) -> tuple[Float, Float]:
    """The same step with weights on the entries: masks, and losses majorised by a quadratic."""
    error = working.residual_error()
    weights = working.weights(error)
    if weights is None:
        raise AssertionError("plain problems take the step through their statistics")
    error = np.moveaxis(error, mode + 1, 1).reshape(len(error), error.shape[mode + 1], -1)
    weights = np.moveaxis(weights, mode + 1, 1).reshape(error.shape)
    part = slabs(working.codes, working.dictionaries, mode)
    atoms = working.dictionaries[mode].astype(np.float64, copy=True)
    factors = np.ones(atoms.shape[1])
    order = np.argsort(part.atom, kind="stable")
    bounds = np.searchsorted(part.atom[order], np.arange(atoms.shape[1] + 1))
    for i in range(atoms.shape[1]):
        chosen = order[bounds[i] : bounds[i + 1]]
        if chosen.size == 0:
            continue
        t, rows = part.sample[chosen], part.rows[chosen]
        heavy = weights[t] * rows[:, None, :]
        h = np.einsum("qvr,qr->v", heavy, rows)
        z = np.einsum("qvr,qvr->v", heavy, error[t]) + h * atoms[:, i]
        new = weighted_atom(z, h, working.alpha * float(part.weight[chosen].sum()))
        size = float(np.linalg.norm(new))
        if size == 0.0:
            continue
        error[t] -= (new - atoms[:, i])[None, :, None] * rows[:, None, :]
        atoms[:, i], factors[i] = new / size, size
    return atoms, factors
