"""Growth: the optimality check of section 5.2 and what it adds, with tests that are exact.

At W_t = R_t / alpha, adding one joint atom with codes tau lowers f if and only if <W_t, joint atom> > 1 for some
sample t. Three kinds of joint atom:

* a new atom in every mode: the best value is the polar, max_t sigma_max(W_t) for n = 2, attained by the
  singular pair of the worst sample (corollary 2);
* a new atom in mode k alone, with existing atoms in the others. Over code columns of unit l1 norm
  the best column is one existing atom, so the exact test is

      v_k = max_{t, i} N_k*( W_t x_j a_{i_j}^T, j != k ) > 1,        n = 2, paper's norms: ||a_i^T W_t||_2 > 1

  and the new atom is the direction that attains it. N_k* is the dual of the atoms' norm in mode k;
* nothing new: at optimal codes none of these exceeds 1.

The paper's g_t and p_t are neither sufficient nor necessary for such a descent, and its step size charges
alpha |tau| for a code column that costs alpha |tau| sum_i |a_i|; `growth_printed` keeps them for comparison.

The new joint atom's codes are the best for all samples at once, everything else fixed: one proximal step
at the joint atom's own Lipschitz constant, which at value v lowers f by at least alpha^2 (v - 1)^2 / 2.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from septum.array import Float
from septum.errors import InvalidInputError
from septum.kronecker import correlate
from septum.learning.gradient import Point, samples_first, samples_second
from septum.learning.proximal import Objective
from septum.regularizer import Regularizer

# A direction times this much is projected onto the ball of N_k: it lands where N_k* is attained.
FAR = 1e6


@dataclass(frozen=True)
class Schedule:
    """Which side grows.

    preference : the intended relative sizes of the dictionaries, such as (1, 3), or None: the mode with the
        largest test value grows. A one-sided step is taken where a test value exceeds 1 + `margin`
        and promises at least `share` of the decrease that a new atom in every mode promises.
    """

    caps: Sequence[int]
    preference: Sequence[float] | None = None
    margin: float = 1e-3
    share: float = 0.0

    def __post_init__(self) -> None:
        if self.preference is None:
            return
        wanted = np.asarray(self.preference, dtype=np.float64)
        if wanted.shape != (len(self.caps),) or not (np.isfinite(wanted) & (wanted > 0)).all():
            raise InvalidInputError(
                f"preference must be {len(self.caps)} positive numbers, one for each mode, not {self.preference!r}"
            )

    def order(self, values: Sequence[float], sizes: Sequence[int], polar: float) -> list[int]:
        """The modes in which to try a one-sided step, most wanted first."""
        least = 1.0 + max(self.margin, np.sqrt(self.share) * (polar - 1.0))
        open_modes = [k for k, v in enumerate(values) if v > least and sizes[k] < self.caps[k]]
        if self.preference is None:
            return sorted(open_modes, key=lambda k: -values[k])
        wanted = self.preference
        return sorted(open_modes, key=lambda k: (sizes[k] / wanted[k], -values[k]))


@dataclass(frozen=True)
class Candidate:
    """A joint atom: an existing index or None in each mode, its vectors, and its test value."""

    index: tuple[int | None, ...]
    atoms: list[Float]
    value: float

    @property
    def grows(self) -> tuple[int, ...]:
        """The modes that receive a new atom."""
        return tuple(k for k, i in enumerate(self.index) if i is None)


def one_sided(W: Float, dictionaries: Sequence[Float], mode: int, regularizer: Regularizer) -> Candidate:
    """The exact test for a new atom in one mode, W `(n_samples, d_1, ..., d_n)`."""
    others = [A if k != mode else np.eye(A.shape[0], dtype=A.dtype) for k, A in enumerate(dictionaries)]
    rows = np.moveaxis(correlate(W, others), mode + 1, -1)
    shape = rows.shape[:-1]
    rows = rows.reshape(-1, rows.shape[-1]).astype(np.float64, copy=False)
    values = np.einsum("id,di->i", rows, farthest(rows.T, mode, regularizer))
    best = int(np.argmax(values))
    at = list(np.unravel_index(best, shape))[1:]
    new = farthest(rows[best][:, None], mode, regularizer)[:, 0]
    index = tuple(None if k == mode else int(at.pop(0)) for k in range(len(dictionaries)))
    atoms = [new if i is None else A[:, i] for i, A in zip(index, dictionaries, strict=True)]
    return Candidate(index, atoms, float(values[best]))


def farthest(directions: Float, mode: int, regularizer: Regularizer) -> Float:
    """Atoms with N_k <= 1 that attain N_k*(direction) = max <direction, a>, column by column."""
    norms = np.linalg.norm(directions, axis=0)
    scale = np.where(norms > 0, FAR / np.where(norms > 0, norms, 1.0), 0.0)
    return regularizer.project_atoms(directions * scale, mode)


def all_sided(W: Float, regularizer: Regularizer, sample: int, value: float) -> Candidate:
    """A new atom in every mode: the worst joint atom of one sample."""
    atoms = regularizer.worst_atom(W, sample)
    return Candidate((None,) * len(atoms), [np.asarray(a, dtype=np.float64) for a in atoms], value)


def best_codes(objective: Objective, residual: Float, candidate: Candidate) -> Float:
    """Codes of the joint atom for every sample, `(n_samples,)`: a proximal step from zero."""
    columns = [a[:, None].astype(residual.dtype) for a in candidate.atoms]
    correlation = correlate(residual, columns)
    energy = float(np.prod([float(np.sum(a.astype(np.float64) ** 2)) for a in candidate.atoms]))
    constant = objective.smooth.loss.lipschitz * max(energy, float(np.finfo(np.float64).tiny))
    ones = [np.ones(1) for _ in columns]
    codes = objective.regularizer.prox_codes(correlation / constant, objective.alpha / constant, ones)
    return codes.reshape(-1)


def appended(point: Point, candidate: Candidate, codes: Float) -> Point:
    """The point with the candidate's new atoms and the joint atom's codes."""
    dictionaries, dense = list(point.dictionaries), point.codes
    position = []
    for k, i in enumerate(candidate.index):
        if i is not None:
            position.append(i)
            continue
        A = dictionaries[k]
        position.append(A.shape[1])
        dictionaries[k] = np.column_stack([A, candidate.atoms[k].astype(A.dtype)])
        wider = [(0, 0)] * dense.ndim
        wider[0 if k == 0 else k + 1] = (0, 1)
        dense = np.pad(dense, wider)
    if not candidate.grows:
        dense = dense.copy()
    samples_first(dense)[(slice(None), *position)] += codes.astype(dense.dtype)
    return Point(dictionaries, dense)


@dataclass(frozen=True)
class Check:
    """Condition 2 at a point: the polar of W from below and above, its worst sample, and the residual."""

    residual: Float
    lower: float
    upper: float
    sample: int


def check(objective: Objective, point: Point) -> Check:
    """max_t polar(R_t) / alpha at a point."""
    residual = np.ascontiguousarray(samples_first(objective.smooth.residual(point)))
    bounds = objective.regularizer.polar(residual)
    lower, upper = bounds.lower / objective.alpha, bounds.upper / objective.alpha
    return Check(residual, float(lower.max(initial=0.0)), float(upper.max(initial=0.0)), int(np.argmax(lower)))


def grow(objective: Objective, point: Point, found: Check, schedule: Schedule) -> Point | None:
    """One growth step that descends, or None when no admissible joint atom does."""
    W = found.residual / objective.alpha
    sizes, before = point.sizes, objective.value(point)
    proposals: list[Candidate] = []
    if min(sizes) > 0:
        proposals = [one_sided(W, point.dictionaries, k, objective.regularizer) for k in range(len(sizes))]
    wanted = schedule.order([c.value for c in proposals], sizes, found.lower)
    for k in wanted:
        grown = _accepted(objective, point, found, proposals[k], before)
        if grown is not None:
            return grown
    everywhere = all(size < cap for size, cap in zip(sizes, schedule.caps, strict=True))
    if everywhere and found.lower > 1.0:
        grown = _accepted(
            objective, point, found, all_sided(W, objective.regularizer, found.sample, found.lower), before
        )
        if grown is not None:
            return grown
    # What is left when the caps forbid a new atom everywhere: any one-sided step that descends.
    for k in sorted(range(len(proposals)), key=lambda k: -proposals[k].value):
        if k not in wanted and proposals[k].value > 1.0 and sizes[k] < schedule.caps[k]:
            grown = _accepted(objective, point, found, proposals[k], before)
            if grown is not None:
                return grown
    return None


def _accepted(
    objective: Objective, point: Point, found: Check, candidate: Candidate, before: float
) -> Point | None:
    codes = best_codes(objective, found.residual, candidate)
    grown = appended(point, candidate, codes)
    return grown if objective.value(grown) < before else None


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
        axis = 0 if k == 0 else k + 1
        used = np.flatnonzero(nonzero.any(axis=tuple(a for a in range(codes.ndim) if a != axis)))
        if used.size < A.shape[1]:
            dictionaries[k] = A[:, used]
            codes, nonzero = np.take(codes, used, axis=axis), np.take(nonzero, used, axis=axis)
    return Point(dictionaries, np.ascontiguousarray(codes))
