"""The paper's algorithm 1: descend at fixed sizes, check the polar, grow, and again.

`proximal` is algorithm 2 with appendix B's acceleration in its sound form, `growth_palm` the check and growth
of algorithm 3 with exact tests, `growth_printed` that growth as the paper prints it. Samples whose zero
codes are optimal whatever the dictionaries (polar of the residual at zero codes at most alpha) are left out
from the start, which changes nothing in the result. Codes are dense inside: memory grows with
n_samples * r_1 * ... * r_n.

Zero codes are a critical point, and near the largest useful alpha one random atom a side falls to it at once. Unused
atoms are dropped after every descent, and from nothing growth takes the worst singular pair, so that the paper's
random start then leads where the spectral one does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from septum.array import Float
from septum.coding.thread import single_blas_thread
from septum.errors import InvalidInputError
from septum.factors import Factors
from septum.learning.gradient import (
    Point,
    Quadratic,
    Residual,
    Smooth,
    along_all,
    samples_second,
    squared_norm,
)
from septum.learning.growth_palm import Check, Schedule, check, empty_point, grow, pruned, zero_codes
from septum.learning.growth_printed import grow_as_printed, grow_at_true_cost
from septum.learning.history import Learned, Recorder, Settings
from septum.learning.proximal import Objective, Stop, descend, sparse_codes
from septum.problem import Problem

Growth = Literal["exact", "printed", "printed_true_cost"]

GROWTH = {"exact": grow, "printed": grow_as_printed, "printed_true_cost": grow_at_true_cost}


@dataclass(frozen=True)
class PalmOptions:
    """What experiments may change; the estimator uses the defaults.

    Attributes
    ----------
    growth : {"exact", "printed", "printed_true_cost"}
        "printed" follows algorithm 3 to the letter: a step may raise f. "printed_true_cost" keeps its tests
        but charges a code column what it costs, and grows on both sides where that leaves no descent.
    preference : sequence of float, optional
        Intended relative sizes of the dictionaries: of the modes that may grow, the one furthest behind does.
    polar_tol : float
        The polar's stopping rule: stop at max_t polar(W_t) <= 1 + polar_tol.
    margin, share, candidates :
        See `Schedule`.
    inner_tol : float
        A descent ends when an iteration lowers f by less than this share of the largest possible decrease.
    max_inner, code_steps : int
        The most iterations of one descent, and the proximal steps in the codes within each.
    patience : int
        This many growth steps in a row that each gain less than `min_gain` an atom end the fit.
    refinements : int
        Where nothing can be added, `inner_tol` is lowered tenfold so many times before the fit ends.
    start_codes : {"zero", "correlations"}
        Codes beside given dictionaries: zero, or one plain gradient step from there, without the threshold.
    """

    growth: Growth = "exact"
    preference: Sequence[float] | None = None
    polar_tol: float = 1e-3
    margin: float = 1e-3
    share: float = 0.0
    candidates: int = 16
    inner_tol: float = 3e-6
    max_inner: int = 500
    code_steps: int = 4
    patience: int = 3
    refinements: int = 2
    start_codes: Literal["zero", "correlations"] = "zero"

    def __post_init__(self) -> None:
        if self.growth not in GROWTH:
            raise InvalidInputError(f"growth must be one of {list(GROWTH)}, not {self.growth!r}")


def learn(problem: Problem, settings: Settings, options: PalmOptions | None = None) -> Learned:
    """Learn dictionaries by the paper's algorithm; `options` are for experiments."""
    with single_blas_thread():
        return _Run(problem, settings, options or PalmOptions()).learn()


class _Run:
    """The parts of algorithm 1, and the trace."""

    def __init__(self, problem: Problem, settings: Settings, options: PalmOptions) -> None:
        self.problem, self.settings, self.options = problem, settings, options
        self.recorder = Recorder(problem, settings)
        reach = reach_at_zero(problem)
        self.active = np.flatnonzero(reach > 1.0)
        self.idle_polar = float(reach.max(initial=0.0, where=reach <= 1.0))
        self.objective = objective_on(problem, self.active)
        self.schedule = Schedule(
            settings.caps, options.preference, options.margin, options.share, options.candidates
        )
        self.refinements = 0
        self.weak_steps = 0
        self.has_grown = False

    def learn(self) -> Learned:
        """Descend, check, grow, until there is a reason to stop."""
        point = self.start()
        while True:
            point, trace = self.descend(point)
            found = check(self.objective, point)
            self.record(point, trace, found)
            reason = self.reason_to_stop(found)
            if reason is None:
                point, reason = self.enlarge(point, found)
            if reason is not None:
                factors = self.in_type_of_data(self.factors(point))
                return Learned(factors, self.recorder.history(), reason, len(self.recorder.steps))

    def start(self) -> Point:
        """The first atoms: given, one random atom a side, or the worst singular pair."""
        shape, dtype = self.problem.shape, self.objective.smooth.data.dtype
        empty = empty_point(self.objective, shape)
        if self.active.size == 0:
            return empty
        if self.settings.start is not None:
            given = [np.array(A, dtype=dtype) for A in self.settings.start]
            weights = self.objective.regularizer.atom_weights(given)
            kept = [np.ascontiguousarray(A[:, w > 0]) for A, w in zip(given, weights, strict=True)]
            if self.options.start_codes == "correlations":
                return correlated_point(self.objective, kept)
            sizes = [A.shape[1] for A in kept]
            return self.objective.normalized(Point(kept, zero_codes(self.active.size, sizes, dtype)))
        if self.settings.init == "random":
            rng = self.settings.rng
            return correlated_point(self.objective, [rng.standard_normal((d, 1)).astype(dtype) for d in shape])
        grown = grow(self.objective, empty, check(self.objective, empty), self.schedule)
        return empty if grown is None else grown

    def descend(self, point: Point) -> tuple[Point, list[float]]:
        """A descent, then unit atoms and no unused ones; f after every iteration."""
        if min(point.sizes) == 0:
            return point, [self.objective.value(point) + self.recorder.zero]
        stop = Stop(
            self.options.inner_tol * 0.1**self.refinements * self.recorder.decrease,
            self.options.max_inner,
            self.options.code_steps,
            interrupted=lambda: self.recorder.out_of_time,
        )
        point, trace = descend(self.objective, point, stop)
        point = pruned(self.objective.normalized(point))
        trace.append(self.objective.value(point))
        return point, [value + self.recorder.zero for value in trace]

    def record(self, point: Point, trace: list[float], found: Check) -> None:
        """One outer step of the history."""
        factors = self.factors(point)
        objective = float(self.problem.objective(factors).sum())
        self.recorder.record(
            self.in_type_of_data(factors), objective, max(found.upper, self.idle_polar), trace
        )
        steps = self.recorder.steps
        if self.has_grown:
            gained = steps[-1].attainment - steps[-2].attainment
            added = max(1, sum(steps[-1].atoms) - sum(steps[-2].atoms))
            self.weak_steps = self.weak_steps + 1 if gained < self.settings.min_gain * added else 0

    def reason_to_stop(self, found: Check) -> str | None:
        """The stopping rules, but for the polar's."""
        if self.active.size == 0:
            return "zero codes are optimal: alpha is at least the polar of the data"
        common = self.recorder.reason_to_stop()
        if common is not None:
            return common
        if self.weak_steps >= self.options.patience:
            return f"{self.weak_steps} growth steps in a row gained less attainment than min_gain"
        return None

    def enlarge(self, point: Point, found: Check) -> tuple[Point, str | None]:
        """Grow; where the polar is satisfied or nothing can be added, descend more precisely before stopping."""
        certified = found.upper <= 1.0 + self.options.polar_tol
        if not certified:
            grown = GROWTH[self.options.growth](self.objective, point, found, self.schedule)
            if grown is not None:
                self.refinements, self.has_grown = 0, True
                return grown, None
        if self.refinements < self.options.refinements and min(point.sizes) > 0:
            self.refinements, self.has_grown = self.refinements + 1, False
            return point, None
        if certified:
            return point, f"the polar is within {self.options.polar_tol:g} of 1"
        return point, "no atom that the caps allow lowers the objective"

    def factors(self, point: Point) -> Factors:
        """Unit-norm atoms, most used first, and codes for every sample, in float64."""
        if min(point.sizes) == 0:
            return zero_factors(self.problem)
        codes = sparse_codes(point)
        rows = np.zeros(self.problem.n_samples, dtype=np.int64)
        rows[self.active] = np.diff(codes.indptr)
        indptr = np.concatenate([[0], np.cumsum(rows)])
        spread = sparse.csr_array(
            (codes.data, codes.indices, indptr), shape=(self.problem.n_samples, codes.shape[1])
        )
        return Factors(list(point.dictionaries), spread).normalized().pruned().ordered()

    def in_type_of_data(self, factors: Factors) -> Factors:
        """The same factors, float32 for float32 data."""
        dtype = self.problem.samples.dtype
        dictionaries = [A.astype(dtype, copy=False) for A in factors.dictionaries]
        return Factors(dictionaries, factors.codes.astype(dtype, copy=False))


def reach_at_zero(problem: Problem) -> Float:
    """An upper bound of polar(W_t) at zero codes, for every sample.

    Where it is at most 1 zero codes are optimal for every dictionary of atoms with N_k <= 1, and the sample never
    needs codes. A regulariser that couples the samples gives them all one value: they stay or go together.
    """
    reach = [
        problem.regularizer.polar_upper(problem.loss.influence(problem.data(part))) / problem.alpha
        for part in problem.parts()
    ]
    return np.concatenate(reach)


def objective_on(problem: Problem, rows: NDArray[np.intp]) -> Objective:
    """The objective on some of the samples, in float64: float32 would stall well before the tolerances."""
    data = samples_second(problem.samples.data[rows].astype(np.float64))
    smooth: Smooth = Quadratic(data)
    if not problem.is_plain:
        mask = problem.samples.mask
        smooth = Residual(data, None if mask is None else samples_second(mask[rows]), problem.loss)
    return Objective(smooth, problem.regularizer, problem.alpha)


def correlated_point(objective: Objective, atoms: Sequence[Float]) -> Point:
    """Unit atoms, and codes that are one plain gradient step from zero: for one atom a side, the correlations."""
    data = objective.smooth.data
    sizes = [A.shape[1] for A in atoms]
    unit = objective.unit_atoms(Point(list(atoms), zero_codes(data.shape[1], sizes, data.dtype)))
    codes = along_all(data, [A.T for A in unit], range(len(unit)))
    return Point(unit, codes / prod(squared_norm(A) for A in unit))


def zero_factors(problem: Problem) -> Factors:
    """One unit atom a side and zero codes, so that shapes stay usable."""
    part = slice(0, problem.n_samples if problem.regularizer.couples_samples else 1)
    atoms = problem.regularizer.worst_atom(problem.loss.influence(problem.data(part)), 0)
    dictionaries = [np.asarray(a, dtype=problem.samples.dtype)[:, None] for a in atoms]
    codes = sparse.csr_array((problem.n_samples, 1), dtype=problem.samples.dtype)
    return Factors(dictionaries, codes)
