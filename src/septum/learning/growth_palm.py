"""Growth: the optimality check of section 5.2 and what it adds, with tests that are exact.

At W_t = R_t / alpha, adding one joint atom with codes tau lowers f if and only if <W_t, joint atom> > 1 for some
sample t. Three kinds of joint atom:

* a new atom in every mode: the best value is the polar, max_t sigma_max(W_t) for n = 2, attained by the
  singular pair of the worst sample (corollary 2);
* a new atom in mode k alone, with existing atoms in the others. Over code columns of unit l1 norm
  the best column is one existing atom, so the exact test is

      v_k = max_{t, i} N_k*( W_t x_j a_{i_j}^T, j != k ) > 1,        n = 2, paper's norms: ||a_i^T W_t||_2 > 1

  and the new atom is the direction that attains it. N_k* is the dual of the atoms' norm in mode k;
* existing atoms alone: at optimal codes none of these exceeds 1, which is the descent's business.

The paper's g_t and p_t are neither sufficient nor necessary for such a descent, and its step size charges
alpha |tau| for a code column that costs alpha |tau| sum_i |a_i|; `growth_printed` keeps them for comparison.

The new joint atom's codes are the best for all samples at once, everything else fixed: one proximal step
at the joint atom's own Lipschitz constant, which at value v lowers f by at least alpha^2 (v - 1)^2 / 2.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from septum.array import Float
from septum.errors import InvalidInputError
from septum.kronecker import correlate
from septum.learning.gradient import Point, axis_of, samples_first, samples_second
from septum.learning.proximal import Objective
from septum.regularizer import Regularizer

# A direction times this much is projected onto the ball of N_k: it lands where N_k* is attained.
FAR = 1e6


@dataclass(frozen=True)
class Schedule:
    """Which side grows.

    A one-sided step is taken where its test value exceeds 1 + `margin`, and by enough to promise `share` of
    what the worst sample gains from a new atom in every mode. Of several, the one that gains the most over all
    samples; with a `preference`, the intended relative sizes of the dictionaries, such as (1, 3), the mode
    furthest behind. New atoms are sought in the `candidates` worst samples (1: the paper's choice).
    """

    caps: Sequence[int]
    preference: Sequence[float] | None = None
    margin: float = 1e-3
    share: float = 0.0
    candidates: int = 16

    def __post_init__(self) -> None:
        if self.preference is None:
            return
        wanted = np.asarray(self.preference, dtype=np.float64)
        if wanted.shape != (len(self.caps),) or not (np.isfinite(wanted) & (wanted > 0)).all():
            raise InvalidInputError(
                f"preference must be {len(self.caps)} positive numbers, one for each mode, not {self.preference!r}"
            )

    def order(
        self, values: Mapping[int, float], gains: Mapping[int, float], sizes: Sequence[int], polar: float
    ) -> list[int]:
        """The modes in which to try a one-sided step, most wanted first."""
        least = 1.0 + max(self.margin, float(np.sqrt(self.share)) * (polar - 1.0))
        able = [k for k, value in values.items() if value > least]
        if self.preference is None:
            return sorted(able, key=lambda k: -gains[k])
        wanted = self.preference
        return sorted(able, key=lambda k: (sizes[k] / wanted[k], -gains[k]))


@dataclass(frozen=True)
class Candidates:
    """Joint atoms that share their new modes, strongest test value first.

    `index[k]` is None where mode k receives a new atom, else the existing atom of every candidate;
    `atoms[k]` holds the candidates' vectors, `(d_k, n_candidates)`.
    """

    index: list[NDArray[np.intp] | None]
    atoms: list[Float]
    value: Float

    def only(self, best: int) -> "Candidates":
        """One of them."""
        one = slice(best, best + 1)
        return Candidates(
            [None if i is None else i[one] for i in self.index], [a[:, one] for a in self.atoms], self.value[one]
        )


def one_sided(
    W: Float, dictionaries: Sequence[Float], mode: int, regularizer: Regularizer, count: int = 1
) -> Candidates:
    """The exact test for a new atom in one mode, W `(n_samples, d_1, ..., d_n)`, in the `count` worst samples."""
    others = [A if k != mode else np.eye(A.shape[0], dtype=A.dtype) for k, A in enumerate(dictionaries)]
    rows = np.moveaxis(correlate(W, others), mode + 1, -1)
    rows = rows.reshape(len(W), -1, rows.shape[-1])
    reach = np.einsum("tid,dti->ti", rows, farthest(np.moveaxis(rows, -1, 0), mode, regularizer))
    best = reach.argmax(axis=1)
    value = reach[np.arange(len(W)), best]
    worst = np.argsort(-value, kind="stable")[:count]
    new = farthest(rows[worst, best[worst]].T, mode, regularizer)
    kept = [A.shape[1] for k, A in enumerate(dictionaries) if k != mode]
    fixed = list(np.unravel_index(best[worst], kept)) if kept else []
    fixed.insert(mode, None)
    atoms = [new if i is None else A[:, i] for i, A in zip(fixed, dictionaries, strict=True)]
    return Candidates(fixed, atoms, value[worst])


def farthest(directions: Float, mode: int, regularizer: Regularizer) -> Float:
    """Atoms with N_k <= 1 that attain N_k*(direction) = max <direction, a>, for directions along axis 0."""
    columns = directions.reshape(directions.shape[0], -1)
    norms = np.linalg.norm(columns, axis=0)
    scale = np.where(norms > 0, FAR / np.where(norms > 0, norms, 1.0), 0.0)
    return regularizer.project_atoms(columns * scale, mode).reshape(directions.shape)


def all_sided(W: Float, regularizer: Regularizer, value: Float, count: int = 1) -> Candidates:
    """A new atom in every mode: the worst joint atoms of the `count` worst samples."""
    worst = np.argsort(-value, kind="stable")[:count]
    found = [regularizer.worst_atom(W, int(t)) for t in worst]
    atoms = [np.column_stack(column).astype(np.float64) for column in zip(*found, strict=True)]
    return Candidates([None] * len(atoms), atoms, value[worst])


def matched(residual: Float, atoms: Sequence[Float]) -> Float:
    """<R_t, a_1p o ... o a_np> for every sample t and joint atom p: `(n_samples, n_joint)`."""
    out = np.tensordot(residual, atoms[-1], axes=(residual.ndim - 1, 0))
    for A in reversed(atoms[:-1]):
        out = np.einsum("...dp,dp->...p", out, A)
    return out


def best_codes(objective: Objective, residual: Float, candidates: Candidates) -> tuple[Float, Float]:
    """Each joint atom's codes for every sample, `(n_samples, n_candidates)`, and a lower bound of their gain.

    A proximal step from zero at the joint atom's Lipschitz constant L gains at least L/2 ||c||^2.
    """
    correlation = matched(residual, candidates.atoms)
    energy = np.prod([np.sum(a * a, axis=0) for a in candidates.atoms], axis=0)
    constant = objective.smooth.lipschitz * np.maximum(energy, np.finfo(np.float64).tiny)
    codes = np.empty_like(correlation)
    ones = [np.ones(1) for _ in candidates.atoms]
    for p, L in enumerate(constant):
        single = (correlation[:, p] / L).reshape(-1, *[1] * len(ones))
        codes[:, p] = objective.regularizer.prox_codes(single, objective.alpha / L, ones).reshape(-1)
    return codes, 0.5 * constant * np.sum(codes * codes, axis=0)


def appended(point: Point, candidate: Candidates, codes: Float) -> Point:
    """The point with one candidate's new atoms and its codes `(n_samples,)`."""
    dictionaries, dense = list(point.dictionaries), point.codes
    position: list[int] = []
    for k, i in enumerate(candidate.index):
        if i is not None:
            position.append(int(i[0]))
            continue
        position.append(dictionaries[k].shape[1])
        dictionaries[k] = np.column_stack([dictionaries[k], candidate.atoms[k]])
        wider = [(0, 0)] * dense.ndim
        wider[axis_of(k)] = (0, 1)
        dense = np.pad(dense, wider)
    at: tuple[Any, ...] = (slice(None), *position)
    samples_first(dense)[at] = codes
    return Point(dictionaries, dense)


@dataclass(frozen=True)
class Check:
    """Condition 2 at a point: the residual, and the polar of every W_t from below and from above."""

    residual: Float
    lower_by_sample: Float
    upper: float

    @property
    def lower(self) -> float:
        """max_t polar(W_t), at least."""
        return float(self.lower_by_sample.max(initial=0.0))


def check(objective: Objective, point: Point) -> Check:
    """max_t polar(R_t) / alpha at a point."""
    residual = np.ascontiguousarray(samples_first(objective.smooth.residual(point)))
    bounds = objective.regularizer.polar(residual)
    return Check(residual, bounds.lower / objective.alpha, float(bounds.upper.max(initial=0.0)) / objective.alpha)


def grow(objective: Objective, point: Point, found: Check, schedule: Schedule) -> Point | None:
    """One growth step that descends, or None when no admissible joint atom does."""
    W = found.residual / objective.alpha
    sizes, caps = point.sizes, schedule.caps
    open_modes = [k for k in range(len(sizes)) if sizes[k] < caps[k]]
    count = 1 if objective.regularizer.couples_samples else schedule.candidates
    sides: dict[int, Candidates] = {}
    if min(sizes) > 0 and len(sizes) > 1:
        sides = {
            k: one_sided(W, point.dictionaries, k, objective.regularizer, count) for k in open_modes
        }
    steps = {k: _strongest(objective, found.residual, side) for k, side in sides.items()}
    values = {k: float(side.value[0]) for k, side in sides.items()}
    wanted = schedule.order(values, {k: gain for k, (_, _, gain) in steps.items()}, sizes, found.lower)
    tried = [steps[k] for k in wanted]
    if len(open_modes) == len(sizes) and found.lower > 1.0:
        together = all_sided(W, objective.regularizer, found.lower_by_sample, count)
        tried.append(_strongest(objective, found.residual, together))
    # Where the caps forbid a new atom everywhere, a one-sided step just above 1 is better than none.
    tried += [steps[k] for k in sorted(steps, key=lambda k: -steps[k][2]) if k not in wanted and values[k] > 1.0]
    before = objective.value(point)
    for candidate, codes, _ in tried:
        grown = appended(point, candidate, codes)
        if objective.value(grown) < before:
            return grown
    return None


def _strongest(objective: Objective, residual: Float, candidates: Candidates) -> tuple[Candidates, Float, float]:
    """The candidate whose codes gain the most over all samples, these codes, and the gain."""
    codes, gain = best_codes(objective, residual, candidates)
    best = int(np.argmax(gain))
    return candidates.only(best), codes[:, best], float(gain[best])


def empty_point(objective: Objective, shape: Sequence[int]) -> Point:
    """No atoms at all."""
    data = objective.smooth.data
    dictionaries = [np.zeros((d, 0), dtype=data.dtype) for d in shape]
    return Point(dictionaries, zero_codes(data.shape[1], (0,) * len(shape), data.dtype))


def zero_codes(n_samples: int, sizes: Sequence[int], dtype: np.dtype) -> Float:
    """Dense zero codes, samples second."""
    return samples_second(np.zeros((n_samples, *sizes), dtype=dtype))


def pruned(point: Point) -> Point:
    """Without the atoms that no code uses; without any when all codes are zero."""
    dictionaries, codes = list(point.dictionaries), point.codes
    nonzero = codes != 0
    for k, A in enumerate(dictionaries):
        axis = axis_of(k)
        used = np.flatnonzero(nonzero.any(axis=tuple(a for a in range(codes.ndim) if a != axis)))
        if used.size < A.shape[1]:
            dictionaries[k] = A[:, used]
            codes, nonzero = np.take(codes, used, axis=axis), np.take(nonzero, used, axis=axis)
    return Point(dictionaries, np.ascontiguousarray(codes))
