"""Many fits of the same samples, to choose from: a path over alpha, a front over sizes.

* `path` fits from the largest alpha to the smallest, each start being the dictionaries of the last;
* `front` records what attainment each number of atoms reaches: the sizes that one growing fit passes through, and
  fits of their own at sizes between one atom and where the growing fit ended. Every point is scored afresh from its
  dictionaries by the certificate, never by the solver's word; points that another beats with as few atoms are dropped.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from septum.array import Float, as_alpha, as_float
from septum.certificate import certify_factors
from septum.errors import InvalidInputError
from septum.estimator import SeparableDictionaryLearning, encode, finished, in_double
from septum.factors import Factors
from septum.kronecker import sizes
from septum.learning import Step
from septum.problem import Problem

# Sizes of a front that get a fit of their own, and sizes kept from the growing fit.
N_REFINED = 8
N_GROWN = 12


# --- path ------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Path:
    """Fits at several values of alpha, in the order in which these were given.

    Attributes
    ----------
    alphas : array (m,)
    estimators : list of m fitted SeparableDictionaryLearning
    seconds : array (m,)
    atoms : array (m, n), attainment, objective, lower_bound, nonzeros : arrays (m,)
        Attainment is the share of what is possible *at that alpha*: it does not compare values of alpha.
    """

    alphas: Float
    estimators: list[SeparableDictionaryLearning]
    seconds: Float

    def __repr__(self) -> str:
        rows = zip(self.alphas, self.atoms, self.attainment, self.nonzeros, strict=True)
        lines = [f"  alpha {a:<10.6g} {_joined(r):<12} attainment {100 * share:.2f}%  {n} codes" for a, r, share, n in rows]
        return "\n".join([f"Path of {len(self)} fits", *lines])

    def __len__(self) -> int:
        return len(self.estimators)

    def __iter__(self) -> Iterator[SeparableDictionaryLearning]:
        return iter(self.estimators)

    def __getitem__(self, i: int) -> SeparableDictionaryLearning:
        return self.estimators[i]

    @property
    def atoms(self) -> NDArray[np.intp]:
        return np.array([sizes(est.dictionaries_) for est in self.estimators], dtype=np.intp)

    @property
    def attainment(self) -> Float:
        return self._certified("attainment")

    @property
    def objective(self) -> Float:
        return self._certified("objective")

    @property
    def lower_bound(self) -> Float:
        return self._certified("lower_bound")

    @property
    def nonzeros(self) -> NDArray[np.intp]:
        """Nonzero codes over all samples."""
        return np.array([est.codes_.nnz for est in self.estimators], dtype=np.intp)

    def _certified(self, name: str) -> Float:
        return np.array([getattr(est.certificate_, name) for est in self.estimators], dtype=np.float64)

    def to_dict(self) -> dict[str, Any]:
        """Lists of plain numbers, ready for JSON."""
        names = ("alphas", "atoms", "attainment", "objective", "lower_bound", "nonzeros", "seconds")
        return {name: getattr(self, name).tolist() for name in names}


def path(X: ArrayLike, alphas: ArrayLike, *, mask: ArrayLike | None = None, **params: Any) -> Path:
    """Fit X at every alpha, from the largest to the smallest, each fit starting from the last dictionaries.

    Parameters
    ----------
    X : array (n_samples, d_1, ..., d_n)
    alphas : array (m,)
        Positive, in any order; the result keeps it.
    mask : boolean array of X's shape, True = observed
    **params
        Passed to SeparableDictionaryLearning; `init` starts the first fit.
    """
    values = np.array([as_alpha(alpha) for alpha in np.atleast_1d(as_float(alphas, "alphas")).tolist()])
    if values.size == 0:
        raise InvalidInputError("alphas is empty: give at least one positive number")
    found: dict[int, tuple[SeparableDictionaryLearning, float]] = {}
    warm: dict[str, Any] = {}
    for i in np.argsort(-values, kind="stable"):
        started = perf_counter()
        est = SeparableDictionaryLearning(float(values[i]), **{**params, **warm}).fit(X, mask=mask)
        found[int(i)] = est, perf_counter() - started
        if 0 not in sizes(est.dictionaries_):
            warm = {"init": est.dictionaries_}
    ordered = [found[i] for i in range(values.size)]
    return Path(values, [est for est, _ in ordered], np.array([seconds for _, seconds in ordered]))


# --- front -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FrontPoint:
    """One compromise: so many atoms reach that attainment.

    `source` is "growth" for a size that the growing fit passed through, "fit" for a fit of its own; `seconds`
    is the time from the start of that fit. To go on from here: `init=point.dictionaries`.
    """

    atoms: tuple[int, ...]
    attainment: float
    objective: float
    seconds: float
    source: str
    dictionaries: list[Float] = field(repr=False)

    @property
    def total(self) -> int:
        """Atoms of all modes together."""
        return sum(self.atoms)


@dataclass(frozen=True, repr=False)
class Front:
    """The best attainment found for each number of atoms: both increase along the front.

    Attributes
    ----------
    alpha : float
    points : list of FrontPoint, fewest atoms first
    atoms : array (m, n), total, attainment, objective, seconds : arrays (m,)
    """

    alpha: float
    points: list[FrontPoint]

    def __repr__(self) -> str:
        lines = [f"  {_joined(p.atoms):<12} {p.total:>5} atoms  attainment {100 * p.attainment:.2f}%" for p in self.points]
        return "\n".join([f"Front of {len(self)} sizes at alpha {self.alpha:g}", *lines])

    def __len__(self) -> int:
        return len(self.points)

    def __iter__(self) -> Iterator[FrontPoint]:
        return iter(self.points)

    def __getitem__(self, i: int) -> FrontPoint:
        return self.points[i]

    @property
    def atoms(self) -> NDArray[np.intp]:
        return np.array([point.atoms for point in self.points], dtype=np.intp)

    @property
    def total(self) -> NDArray[np.intp]:
        return np.array([point.total for point in self.points], dtype=np.intp)

    @property
    def attainment(self) -> Float:
        return np.array([point.attainment for point in self.points])

    @property
    def objective(self) -> Float:
        return np.array([point.objective for point in self.points])

    @property
    def seconds(self) -> Float:
        return np.array([point.seconds for point in self.points])

    def reaching(self, attainment: float) -> FrontPoint:
        """The point with the fewest atoms that reaches an attainment."""
        for point in self.points:
            if point.attainment >= attainment:
                return point
        best = max(self.attainment, default=0.0)
        raise InvalidInputError(f"no point of the front reaches attainment {attainment:g}: the best is {best:.4g}")

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, ready for JSON; without the dictionaries."""
        return {
            "alpha": self.alpha,
            "points": [
                {
                    "atoms": list(point.atoms),
                    "total": point.total,
                    "attainment": point.attainment,
                    "objective": point.objective,
                    "seconds": point.seconds,
                    "source": point.source,
                }
                for point in self.points
            ],
        }

    def plot(self, **options: Any) -> Any:
        """`septum.plot.front` of this front: a matplotlib Figure."""
        import septum

        return septum.plot.front(self, **options)


def _joined(atoms: Sequence[int] | NDArray[np.intp]) -> str:
    return " + ".join(map(str, atoms))


def front(
    X: ArrayLike,
    alpha: float,
    *,
    mask: ArrayLike | None = None,
    caps: Sequence[int | Sequence[int]] | None = None,
    **params: Any,
) -> Front:
    """What attainment each number of atoms reaches, so that a size can be chosen.

    Parameters
    ----------
    X : array (n_samples, d_1, ..., d_n)
    alpha : float > 0, the paper's lambda.
    mask : boolean array of X's shape, True = observed
    caps : sequence of `n_atoms`, optional
        Sizes that get a fit of their own. By default up to eight, (r_1^s, ..., r_n^s) with s evenly spaced from 0
        to 1, where (r_1, ..., r_n) is where the growing fit ended.
    **params
        Passed to SeparableDictionaryLearning. The front goes up to attainment 1 - `tol`, or to `n_atoms`.
    """
    problem = Problem.of(
        X, alpha, loss=params.get("loss", "squared"), mask=mask, regularizer=params.get("regularizer")
    )
    fit = partial(_fit, X, mask, {**params, "alpha": alpha})
    grown = _thinned(_pareto(_growing_points(problem, fit)), N_GROWN)
    if caps is None:
        caps = _sizes_up_to(grown[-1].atoms) if grown else []
    refined = [_fitted_point(fit(n_atoms=cap)) for cap in caps]
    if not problem.regularizer.couples_samples:
        grown = [_scored(problem, point, params.get("n_jobs")) for point in grown]
    return Front(as_alpha(alpha), _pareto(grown + [point for point in refined if point.total]))


def _fit(
    X: ArrayLike, mask: ArrayLike | None, params: dict[str, Any], **changed: Any
) -> SeparableDictionaryLearning:
    return SeparableDictionaryLearning(**{**params, **changed}).fit(X, mask=mask)


def _growing_points(problem: Problem, fit: Any) -> list[FrontPoint]:
    """The outer steps of one growing fit, with the attainment that the solver claims."""
    points: list[FrontPoint] = []
    asked = fit.args[2].get("callback")

    def note(step: Step) -> bool:
        factors = finished(step.factors, problem.samples.dtype)
        if 0 not in factors.sizes:
            points.append(
                FrontPoint(
                    factors.sizes, step.attainment, step.objective, step.seconds, "growth", list(factors.dictionaries)
                )
            )
        return asked is not None and asked(step) is True

    est = fit(callback=note)
    last = _fitted_point(est)
    return points + ([replace(last, source="growth")] if last.total else [])


def _sizes_up_to(largest: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Sizes whose logarithms are evenly spaced, from one atom a mode to just below the largest, without repeats."""
    exponents = np.linspace(0.0, 1.0, N_REFINED + 1)[:-1]
    found = {tuple(round(size**s) for size in largest) for s in exponents.tolist()}
    return sorted(found - {largest})


def _fitted_point(est: SeparableDictionaryLearning) -> FrontPoint:
    certificate = est.certificate_
    seconds = est.history_["seconds"]
    return FrontPoint(
        sizes(est.dictionaries_),
        certificate.attainment,
        certificate.objective,
        float(seconds[-1]) if len(seconds) else 0.0,
        "fit",
        est.dictionaries_,
    )


def _scored(problem: Problem, point: FrontPoint, n_jobs: int | None) -> FrontPoint:
    """The same dictionaries with optimal codes, certified."""
    factors = Factors(point.dictionaries, encode(problem, point.dictionaries, n_jobs=n_jobs))
    certificate = certify_factors(problem, in_double(factors))
    return replace(point, attainment=certificate.attainment, objective=certificate.objective)


def _pareto(points: Sequence[FrontPoint]) -> list[FrontPoint]:
    """Those that no other beats with as few atoms, fewest atoms first."""
    kept: list[FrontPoint] = []
    for point in sorted(points, key=lambda p: (p.total, -p.attainment, p.seconds)):
        if not kept or point.attainment > kept[-1].attainment:
            kept.append(point)
    return kept


def _thinned(points: list[FrontPoint], count: int) -> list[FrontPoint]:
    """At most `count` of them, the last included, spread evenly in the logarithm of the number of atoms."""
    if len(points) <= count:
        return points
    totals = np.log([point.total for point in points])
    wanted = np.linspace(totals[0], totals[-1], count)
    nearest = {int(np.abs(totals - level).argmin()) for level in wanted}
    return [points[i] for i in sorted(nearest)]
