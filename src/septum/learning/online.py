"""Online learning at fixed sizes: dictionaries updated batch by batch, from statistics of what has passed.

With codes fixed, the objective as a function of mode k's dictionary A_k (atoms a_i in the unit ball, the
others at their current values) is known from three sums over samples,

    P_t = unfold_k(C_t x_{j != k} A_j)       (r_k, product of the other d_j)
    gram_k = sum_t P_t P_t^T,  cross_k = sum_t unfold_k(X_t) P_t^T,  mass_k[i] = sum_t |codes on atom i|

so old samples need not be kept. A batch is coded, its statistics are added to the faded ones of the past,
and each atom takes its exact step (`septum.learning.atom`), whose norm moves into the codes, those of the
past included. Atoms without use, or worth less than another would be, are replaced (`septum.learning.renewal`).

The past was coded with older dictionaries, so it must fade: with n samples seen, b of them new, its weight is
(1 - b/n)^FADING. Each sample then weighs (its rank / n)^FADING: the memory grows with the stream, as convergence
asks for, yet the first, poor codes are forgotten (Mairal, Bach, Ponce, Sapiro 2010, section 3.4.1).

Missing entries and other losses: rho(e) <= rho(e_0) + rho'(e_0)(e - e_0) + L/2 (e - e_0)^2, so the batch enters as the
filled-in data Z_t + R_t / L with alpha / L, R_t the masked residual. For the squared loss and no mask
that is X_t itself.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from septum.array import Float, chunks
from septum.coding.engine import solve as solve_codes
from septum.coding.thread import single_blas_thread
from septum.errors import InvalidInputError
from septum.factors import Factors
from septum.kronecker import Codes, code_indices, multiply_sparse, sizes
from septum.learning.atom import update_atoms
from septum.learning.renewal import best_addition, novel, removal_cost, unexplained
from septum.learning.slab import Statistics, statistics
from septum.problem import Problem

FADING = 4.0
SWEEPS = 2
CODE_TOLERANCE = 1e-5

# An atom is idle when its codes weigh less than this share of the mode's mean.
IDLE_SHARE = 1e-3


@dataclass(frozen=True)
class Statistic:
    """What the past says about one mode: gram (r, r), cross (d, r), mass (r,) and seen (r,).

    `seen` is the number of samples, faded like the rest, that each atom could have served.
    """

    gram: Float
    cross: Float
    mass: Float
    seen: Float

    @classmethod
    def empty(cls, length: int, size: int) -> "Statistic":
        return cls(np.zeros((size, size)), np.zeros((length, size)), np.zeros(size), np.zeros(size))

    def __add__(self, other: "Statistic") -> "Statistic":
        return Statistic(
            self.gram + other.gram, self.cross + other.cross, self.mass + other.mass, self.seen + other.seen
        )

    def faded(self, weight: float) -> "Statistic":
        return Statistic(weight * self.gram, weight * self.cross, weight * self.mass, weight * self.seen)

    def rescaled(self, norm: Float) -> "Statistic":
        """After the codes on every atom were multiplied by `norm`."""
        return replace(self, gram=self.gram * np.outer(norm, norm), cross=self.cross * norm, mass=self.mass * norm)

    def taken(self, chosen: NDArray[np.intp]) -> "Statistic":
        """Of the named atoms, in that order."""
        gram = self.gram[np.ix_(chosen, chosen)]
        return Statistic(gram, self.cross[:, chosen], self.mass[chosen], self.seen[chosen])

    def renewed(self, fresh: NDArray[np.intp], size: int) -> "Statistic":
        """For `size` atoms, those named in `fresh` without a past."""
        out = Statistic.empty(self.cross.shape[0], size)
        old = np.setdiff1d(np.arange(self.mass.size), fresh)
        out.gram[np.ix_(old, old)] = self.gram[np.ix_(old, old)]
        out.cross[:, old], out.mass[old], out.seen[old] = self.cross[:, old], self.mass[old], self.seen[old]
        return out


def statistic(problem: Problem, dictionaries: Sequence[Float], codes: Codes, mode: int) -> Statistic:
    """The sums over a problem's samples for one mode, in ranges that fit in memory."""
    length, size = dictionaries[mode].shape
    total = replace(Statistic.empty(length, size), seen=np.full(size, float(problem.n_samples)))
    for part in chunks(problem.n_samples, 8 * prod(problem.shape) * 4):
        found = statistics(_filled(problem, dictionaries, codes[part], part), codes[part], dictionaries, mode)
        total = total + Statistic(found.H, found.G, found.weight, np.zeros(size))
    return total


def _filled(problem: Problem, dictionaries: Sequence[Float], codes: Codes, part: slice) -> Float:
    """Z + R / L: the data of the quadratic majoriser at the current reconstruction."""
    if problem.is_plain:
        return problem.data(part)
    Z = multiply_sparse(codes, dictionaries, dtype=np.dtype(np.float64))
    return Z + problem.loss.influence(problem.error(Z, part)) / problem.loss.lipschitz


@dataclass(frozen=True)
class Online:
    """Dictionaries, the statistics of their past, how much has been seen, and the sizes to keep."""

    dictionaries: list[Float]
    statistics: list[Statistic]
    n_samples: int
    n_steps: int
    limit: tuple[int, ...]

    @classmethod
    def begin(
        cls,
        problem: Problem,
        start: Sequence[Float] | None,
        caps: tuple[int, ...] | None,
        first: Callable[[], Factors],
    ) -> "Online":
        """Given dictionaries, or those that `first()` learns from the first batch."""
        _refuse_regularizer(problem)
        dictionaries = list(first().dictionaries if start is None else start)
        dictionaries = [A.astype(np.float64) for A in dictionaries]
        limit = sizes(dictionaries) if caps is None else caps
        if any(size > cap for size, cap in zip(sizes(dictionaries), limit, strict=True)):
            raise InvalidInputError(f"init holds {sizes(dictionaries)} atoms, more than the {limit} that n_atoms allows")
        return cls(dictionaries, [Statistic.empty(*A.shape) for A in dictionaries], 0, 0, limit)

    @classmethod
    def after_fit(cls, problem: Problem, factors: Factors) -> "Online":
        """The state from which a stream goes on after all samples were learnt at once."""
        dictionaries = [A.astype(np.float64) for A in factors.dictionaries]
        if problem.regularizer.name != "separable":
            known = [Statistic.empty(*A.shape) for A in dictionaries]
        else:
            with single_blas_thread():
                known = [statistic(problem, dictionaries, factors.codes, k) for k in range(len(dictionaries))]
        return cls(dictionaries, known, problem.n_samples, 1, sizes(dictionaries))

    @property
    def is_empty(self) -> bool:
        """No atoms yet: all batches so far were best left at zero."""
        return 0 in sizes(self.dictionaries)

    def updated(self, problem: Problem, *, n_jobs: int | None = None) -> "Online":
        """After one more batch."""
        _refuse_regularizer(problem)
        seen = self.n_samples + problem.n_samples
        if self.is_empty:
            return replace(self, n_samples=seen, n_steps=self.n_steps + 1)
        with single_blas_thread():
            past = [known.faded((self.n_samples / seen) ** FADING) for known in self.statistics]
            dictionaries = list(self.dictionaries)
            codes = None
            for _ in range(SWEEPS):
                codes = _encode(problem, dictionaries, codes, n_jobs)
                dictionaries, past, codes = _sweep(problem, dictionaries, past, codes)
            known = [old + statistic(problem, dictionaries, codes, k) for k, old in enumerate(past)]
            state = replace(
                self, dictionaries=dictionaries, statistics=known, n_samples=seen, n_steps=self.n_steps + 1
            )
            return state._renewed(problem, codes)._ordered()

    def _renewed(self, problem: Problem, codes: Codes) -> "Online":
        """Missing and idle atoms filled from what the batch has left; where none is free, a swap if it pays."""
        factors = Factors(self.dictionaries, codes)
        idle = [np.flatnonzero(known.mass <= IDLE_SHARE * known.mass.mean()) for known in self.statistics]
        free = [
            np.concatenate([rest, np.arange(size, cap)]).astype(np.intp)
            for rest, size, cap in zip(idle, sizes(self.dictionaries), self.limit, strict=True)
        ]
        count = max(slots.size for slots in free)
        pairs = unexplained(problem, factors, count) if count else []
        state = self
        for k, slots in enumerate(free):
            if slots.size:
                kept = np.delete(self.dictionaries[k], idle[k], axis=1)
                state = state._replaced(k, slots, novel(kept, pairs[k])[:, : slots.size])
            else:
                state = state._swapped(k, problem, factors)
        return state

    def _swapped(self, mode: int, problem: Problem, factors: Factors) -> "Online":
        """The atom of a mode that costs least to drop gives way to one that gains more, sample for sample."""
        known = self.statistics[mode]
        alpha = problem.alpha / problem.loss.lipschitz
        cost = removal_cost(self.dictionaries[mode], known.gram, known.cross, known.mass, alpha)
        cost = np.where(known.seen > 0, cost / np.where(known.seen > 0, known.seen, 1.0), np.inf)
        least = int(np.argmin(cost))
        new = best_addition(problem, factors, mode)
        if new is None or new.gain / (problem.n_samples * problem.loss.lipschitz) <= cost[least]:
            return self
        return self._replaced(mode, np.array([least]), new.atom[:, None])

    def _replaced(self, mode: int, slots: NDArray[np.intp], new: Float) -> "Online":
        """New atoms without a past in the first of the given places, those beyond the last included."""
        A = self.dictionaries[mode]
        slots = slots[: new.shape[1]]
        size = max(A.shape[1], int(slots.max(initial=-1)) + 1)
        grown = np.hstack([A, np.zeros((A.shape[0], size - A.shape[1]))])
        grown[:, slots] = new
        dictionaries, statistics = list(self.dictionaries), list(self.statistics)
        dictionaries[mode], statistics[mode] = grown, self.statistics[mode].renewed(slots, size)
        return replace(self, dictionaries=dictionaries, statistics=statistics)

    def _ordered(self) -> "Online":
        """The atoms that carry most first."""
        order = [np.argsort(-known.mass, kind="stable") for known in self.statistics]
        return replace(
            self,
            dictionaries=[A[:, o] for A, o in zip(self.dictionaries, order, strict=True)],
            statistics=[known.taken(o) for known, o in zip(self.statistics, order, strict=True)],
        )


def _encode(problem: Problem, dictionaries: Sequence[Float], warm: Codes | None, n_jobs: int | None) -> Codes:
    return solve_codes(
        problem.samples.data,
        dictionaries,
        problem.alpha,
        tol=CODE_TOLERANCE,
        warm=warm,
        mask=problem.samples.mask,
        loss=problem.loss,
        n_jobs=n_jobs,
    ).codes


def _sweep(
    problem: Problem, dictionaries: list[Float], past: list[Statistic], codes: Codes
) -> tuple[list[Float], list[Statistic], Codes]:
    """Exact atom steps in every mode, each with the newest other modes."""
    dictionaries, past, codes = list(dictionaries), list(past), codes.astype(np.float64)
    alpha = problem.alpha / problem.loss.lipschitz
    for k in range(len(dictionaries)):
        known = past[k] + statistic(problem, dictionaries, codes, k)
        sums = Statistics(known.cross, known.gram, known.mass)
        dictionaries[k], norm = update_atoms(dictionaries[k], sums, alpha)
        past[k] = past[k].rescaled(norm)
        _, index = code_indices(codes, sizes(dictionaries))
        codes.data *= norm[index[k]]
    return dictionaries, past, codes


def _refuse_regularizer(problem: Problem) -> None:
    if problem.regularizer.name != "separable":
        raise InvalidInputError(
            f"partial_fit needs the paper's regulariser (regularizer=None), not {problem.regularizer.name!r}: use fit"
        )
