"""What a solver is asked for, what it reports at each outer step, and what it leaves behind.

Every solver is a function `learn(problem, settings) -> Learned`. It records one `Step` after each
outer step through a `Recorder`, which also tells it when to stop: attainment reached, time used up,
the callback's wish. Nothing here is a claim about the result: `certify` recomputes that.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from septum.array import Float
from septum.bound import lower_bound
from septum.factors import Factors
from septum.problem import Problem

GROWTH_LIMIT = 4


@dataclass(frozen=True)
class Settings:
    """Checked parameters of a fit, the same for every solver.

    `caps` bounds the number of atoms of each mode; `is_capped` says that the user set them. `start`
    holds given dictionaries, else `init` is "spectral" or "random".
    """

    caps: tuple[int, ...]
    is_capped: bool
    tol: float
    min_gain: float
    max_iter: int
    max_time: float | None
    init: str
    start: Sequence[Float] | None
    rng: np.random.Generator
    n_jobs: int
    verbose: int
    callback: Callable[["Step"], Any] | None


@dataclass(frozen=True)
class Step:
    """One outer step, as given to the callback; a callback that returns True stops the fit."""

    iteration: int
    objective: float
    lower_bound: float
    attainment: float
    polar: float
    atoms: tuple[int, ...]
    seconds: float
    factors: Factors = field(repr=False)
    inner_objective: NDArray[np.float64] = field(repr=False)


@dataclass(frozen=True)
class Learned:
    """Factors and the trace of how they were found; `stopped_because` is a sentence."""

    factors: Factors
    history: dict[str, Any]
    stopped_because: str
    n_iter: int


class Recorder:
    """Keeps the history of a fit and decides, from it, whether to stop."""

    def __init__(self, problem: Problem, settings: Settings) -> None:
        self.started = perf_counter()
        self.settings = settings
        self.zero_by_sample, self.decrease_by_sample, self.is_optimum_known = lower_bound(problem)
        self.zero = float(self.zero_by_sample.sum())
        self.decrease = float(self.decrease_by_sample.sum())
        self.steps: list[Step] = []
        self.asked_to_stop = False

    @property
    def seconds(self) -> float:
        """Time since the fit began."""
        return perf_counter() - self.started

    @property
    def out_of_time(self) -> bool:
        limit = self.settings.max_time
        return limit is not None and self.seconds >= limit

    def attainment(self, objective: float) -> float:
        """The share of the largest possible decrease, as far as the bound tells."""
        if self.decrease <= 0:
            return 1.0 if objective <= self.zero else -np.inf
        return min(1.0, (self.zero - objective) / self.decrease)

    def record(
        self, factors: Factors, objective: float, polar: float, inner_objective: Sequence[float]
    ) -> Step:
        """Append one outer step and tell the callback."""
        step = Step(
            iteration=len(self.steps),
            objective=objective,
            lower_bound=self.zero - self.decrease,
            attainment=self.attainment(objective),
            polar=polar,
            atoms=factors.sizes,
            seconds=self.seconds,
            factors=factors,
            inner_objective=np.asarray(inner_objective, dtype=np.float64),
        )
        # The factors of past steps are not kept: they would hold the memory of every step.
        self.steps.append(_without_factors(step))
        if self.settings.verbose:
            print(
                f"[septum] step {step.iteration}: atoms {' + '.join(map(str, step.atoms))}, objective "
                f"{objective:.8g}, attainment {100 * step.attainment:.2f}%, {step.seconds:.1f} s",
                flush=True,
            )
        if self.settings.callback is not None and self.settings.callback(step) is True:
            self.asked_to_stop = True
        return step

    def reason_to_stop(self) -> str | None:
        """Why the fit should end after the last recorded step, if it should."""
        if self.asked_to_stop:
            return "the callback asked to stop"
        if self.steps and self.steps[-1].attainment >= 1.0 - self.settings.tol:
            return f"attainment reached {1 - self.settings.tol:.4g}"
        if self.out_of_time:
            return "max_time was reached"
        if len(self.steps) >= self.settings.max_iter:
            return "max_iter outer steps were made"
        return None

    def history(self) -> dict[str, Any]:
        """Arrays of equal length, one entry for each outer step, and the inner objectives."""
        names = ("objective", "lower_bound", "attainment", "polar", "seconds")
        table: dict[str, Any] = {name: np.array([getattr(s, name) for s in self.steps]) for name in names}
        table["atoms"] = np.array([s.atoms for s in self.steps], dtype=np.intp)
        table["inner_objective"] = [s.inner_objective for s in self.steps]
        return table


def _without_factors(step: Step) -> Step:
    empty = Factors([], step.factors.codes[:0])
    return Step(**{**step.__dict__, "factors": empty})
