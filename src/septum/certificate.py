"""The certificate of global optimality, recomputed from the arrays alone.

Given data, dictionaries and codes it says how far f is from the best that dictionaries of any size
could reach. Three kinds of evidence, all in float64:

* stationarity in the codes (corollary 2, condition 1): <R_t, joint atom> = alpha w sign(c) where c is
  nonzero and at most alpha w elsewhere, w the product of the atoms' norms; the largest violation,
  relative to alpha w, is reported and never assumed;
* the polar (corollary 2, condition 2): max_t sigma_max(R_t) / alpha <= 1, with a lower and an upper
  bound when it cannot be known;
* the duality gap: f - D(Q) = Fenchel-Young gap of the loss at (X - Z, Q) + (alpha Theta - <Q, Z>) for
  the feasible Q of `septum.bound`. Both terms are non-negative and free of cancellation.

This module imports no solver.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from septum.array import Float, as_dictionaries, as_float
from septum.bound import dual_point, merge, residual_point
from septum.errors import InvalidInputError, InvalidTypeError
from septum.factors import Factors
from septum.kronecker import flatten_codes, sizes
from septum.loss import Loss, Squared
from septum.problem import Problem
from septum.regularizer import Regularizer
from septum.regularizer.tensor_norm import matrix_rows
from septum.spectral import exceeds, max_singular_value, unfold

Verdict = Literal["optimal", "improvable", "undecided"]


@dataclass(frozen=True)
class Polar:
    """lower <= max_t polar(R_t) / alpha <= upper; condition 2 of corollary 2 asks for at most 1."""

    lower: float
    upper: float


@dataclass(frozen=True)
class Certificate:
    """How far a dictionary and its codes are from the global optimum over every size.

    Attributes
    ----------
    objective, lower_bound, gap : float
        f, a value no dictionaries of any size can go below, and their difference.
    attainment : float
        (f(0) - f) / (f(0) - lower_bound): the guaranteed share of the decrease that any dictionary of any
        size could give. At most 1; negative when worse than zero codes; 1 when nothing can be gained.
    polar : Polar
        Bounds of max_t polar(R_t) / alpha.
    stationarity : float
        Largest relative violation of first-order optimality in the codes.
    verdict : {"optimal", "improvable", "undecided"}
    tolerance : float
        Relative to f(0) for the gap, absolute for the polar and the stationarity.
    worst_sample : int
        The sample with the largest gap.
    attainment_by_sample : array (n_samples,)
    """

    objective: float
    lower_bound: float
    gap: float
    attainment: float
    polar: Polar
    stationarity: float
    verdict: Verdict
    tolerance: float
    worst_sample: int
    attainment_by_sample: Float = field(repr=False)

    def __str__(self) -> str:
        share = "-inf" if np.isneginf(self.attainment) else f"{100 * self.attainment:.4g}%"
        polar = f"{self.polar.upper:.6g}"
        if self.polar.lower != self.polar.upper:
            polar = f"between {self.polar.lower:.6g} and {self.polar.upper:.6g}"
        lines = [
            f"{self.verdict}: {_SENTENCE[self.verdict]}",
            f"  attainment    {share} of the decrease that any dictionary of any size could give",
            f"  objective     {self.objective:.10g}",
            f"  lower bound   {self.lower_bound:.10g}",
            f"  gap           {self.gap:.4g}",
            f"  polar         {polar} (at most 1 at the optimum)",
            f"  stationarity  {self.stationarity:.4g} (largest violation in the codes)",
            f"  worst sample  {self.worst_sample}",
            f"  tolerance     {self.tolerance:g}",
        ]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, ready for JSON; what is not finite becomes None."""
        return {
            "objective": _plain(self.objective),
            "lower_bound": _plain(self.lower_bound),
            "gap": _plain(self.gap),
            "attainment": _plain(self.attainment),
            "polar": {"lower": _plain(self.polar.lower), "upper": _plain(self.polar.upper)},
            "stationarity": _plain(self.stationarity),
            "verdict": self.verdict,
            "tolerance": _plain(self.tolerance),
            "worst_sample": int(self.worst_sample),
            "attainment_by_sample": [_plain(value) for value in self.attainment_by_sample],
        }

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> "Certificate":
        """The inverse of `to_dict`."""

        def number(value: float | None) -> float:
            return -np.inf if value is None else float(value)

        return cls(
            objective=number(record["objective"]),
            lower_bound=number(record["lower_bound"]),
            gap=number(record["gap"]),
            attainment=number(record["attainment"]),
            polar=Polar(number(record["polar"]["lower"]), number(record["polar"]["upper"])),
            stationarity=number(record["stationarity"]),
            verdict=record["verdict"],
            tolerance=number(record["tolerance"]),
            worst_sample=int(record["worst_sample"]),
            attainment_by_sample=np.array([number(value) for value in record["attainment_by_sample"]]),
        )


_SENTENCE: dict[Verdict, str] = {
    "optimal": "no dictionary of any size is better, within the tolerance",
    "improvable": "larger or other dictionaries would be better",
    "undecided": "the bounds cannot tell whether other dictionaries would be better",
}


def _plain(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def certify(
    X: ArrayLike,
    dictionaries: Sequence[ArrayLike],
    codes: Any,
    alpha: float,
    *,
    loss: str | Loss = "squared",
    mask: ArrayLike | None = None,
    tolerance: float = 1e-6,
    regularizer: Regularizer | None = None,
) -> Certificate:
    """Certify any dictionaries and codes, whatever made them.

    Parameters
    ----------
    X : array (n_samples, d_1, ..., d_n)
    dictionaries : list of arrays (d_k, r_k)
        Of any norms: the norms are part of the objective.
    codes : dense array or SciPy sparse array (n_samples, r_1, ..., r_n)
    alpha : float > 0, the paper's lambda.
    loss : "squared", "huber", or a loss object.
    mask : boolean array of X's shape, True = observed.
    tolerance : float
        "optimal" means a gap of at most `tolerance` times f(0), or stationarity and the polar's upper
        bound within it; "improvable" that the polar's lower bound exceeds 1 by more than it, or
        that the optimum is known and the gap is larger.
    """
    problem = Problem.of(X, alpha, loss=loss, mask=mask, regularizer=regularizer)
    return certify_factors(problem, as_factors(problem, dictionaries, codes), tolerance=tolerance)


def as_factors(problem: Problem, dictionaries: Sequence[ArrayLike], codes: Any) -> Factors:
    """Dictionaries and codes checked against a problem, in float64."""
    arrays = as_dictionaries(dictionaries, problem.shape, dtype=np.dtype(np.float64))
    shape = (problem.n_samples, *sizes(arrays))
    if not hasattr(codes, "shape"):
        codes = as_float(codes, "codes")
    if np.iscomplexobj(codes):
        raise InvalidTypeError("codes must be real, not complex")
    if tuple(codes.shape) != shape:
        raise InvalidInputError(f"codes have shape {tuple(codes.shape)}, but X and the dictionaries ask for {shape}")
    flat = flatten_codes(codes, shape, np.dtype(np.float64))
    if not np.isfinite(flat.data).all():
        raise InvalidInputError("codes contain NaN or infinity")
    return Factors(arrays, flat)


def certify_factors(problem: Problem, factors: Factors, *, tolerance: float = 1e-6) -> Certificate:
    """`certify` for inputs that are already checked."""
    if not np.isfinite(tolerance) or tolerance < 0:
        raise InvalidInputError(f"tolerance must be a non-negative number, not {tolerance!r}")
    tally = _Tally(problem, factors)
    for part in problem.parts():
        tally.add(part)
    return tally.certificate(tolerance)


class _Tally:
    """Evidence gathered range by range, then summed up."""

    def __init__(self, problem: Problem, factors: Factors) -> None:
        self.problem, self.factors = problem, factors
        self.as_matrix = matrix_rows(problem.shape) if problem.regularizer.name == "separable" else None
        self.theta = problem.regularizer.value(factors.dictionaries, factors.codes)
        n = problem.n_samples
        self.objective, self.gap, self.gain, self.decrease, self.zero = (np.zeros(n) for _ in range(5))
        self.slack = 0.0
        self.polar_lower = self.polar_upper = 0.0
        self.stationarity = 0.0

    def add(self, part: slice) -> None:
        problem = self.problem
        z = self.factors.reconstruct(part, dtype=np.dtype(np.float64))
        x = problem.data(part)
        error = problem.masked(x - z, part)
        residual = problem.loss.influence(error)
        self.objective[part] = problem.loss_by_sample(error) + problem.alpha * self.theta[part]
        self.zero[part] = problem.loss_by_sample(x)
        self.gain[part] = self._gain(x, z, error, part)
        upper = self._add_polar(residual)
        self._add_stationarity(residual, part, upper)
        self._add_gap(x, z, error, residual, upper, part)

    def _gain(self, x: Float, z: Float, error: Float, part: slice) -> Float:
        """f(0) - f for every sample: for the squared loss <X, Z> - 1/2 ||M o Z||^2 - alpha Theta."""
        if isinstance(self.problem.loss, Squared):
            seen = self.problem.masked(z, part)
            change = seen * (x - 0.5 * seen)
        else:
            change = self.problem.loss.value(x) - self.problem.loss.value(error)
        return change.reshape(len(x), -1).sum(axis=1) - self.problem.alpha * self.theta[part]

    def _add_polar(self, residual: Float) -> Float | None:
        """The running bounds of the polar; every sample's upper bound where a dual point needs it."""
        problem, alpha = self.problem, self.problem.alpha
        if self.as_matrix is not None and problem.is_plain:
            best, _ = max_singular_value(unfold(residual, self.as_matrix), above=self.polar_lower * alpha)
            self.polar_lower = self.polar_upper = best / alpha
            return None
        upper = problem.regularizer.polar_upper(residual)
        self.polar_upper = max(self.polar_upper, float(upper.max()) / alpha)
        if problem.regularizer.couples_samples:
            bounds = problem.regularizer.polar(residual)
            self.polar_lower = max(self.polar_lower, float(bounds.lower.max()) / alpha)
        else:
            self._raise_polar_lower(residual, upper)
        self.polar_upper = max(self.polar_upper, self.polar_lower)
        return upper

    def _raise_polar_lower(self, residual: Float, upper: Float) -> None:
        """Lower bounds, most promising samples first, until no upper bound exceeds the best of them."""
        alpha, order = self.problem.alpha, np.argsort(-upper, kind="stable")
        start, step = 0, 1
        while start < order.size and upper[order[start]] > self.polar_lower * alpha:
            bounds = self.problem.regularizer.polar(residual[order[start : start + step]])
            self.polar_lower = max(self.polar_lower, float(bounds.lower.max()) / alpha)
            start, step = start + step, min(4 * step, 64)

    def _add_stationarity(self, residual: Float, part: slice, upper: Float | None) -> None:
        """Condition 1: the regulariser's own test, told which samples need one off the support."""
        alpha = self.problem.alpha

        def may_exceed(level: float) -> NDArray[np.bool_]:
            if upper is not None:
                return upper > level * alpha
            if self.polar_upper <= level or self.as_matrix is None:
                return np.full(len(residual), self.polar_upper > level)
            return exceeds(unfold(residual, self.as_matrix), level * alpha)

        self.stationarity = self.problem.regularizer.stationarity(
            residual,
            self.factors.dictionaries,
            self.factors.codes[part],
            alpha,
            may_exceed=may_exceed,
            at_least=self.stationarity,
        )

    def _add_gap(
        self, x: Float, z: Float, error: Float, residual: Float, upper: Float | None, part: slice
    ) -> None:
        problem = self.problem
        coupled = problem.regularizer.couples_samples
        point = dual_point(problem, part)
        if upper is not None:
            point = merge(point, residual_point(problem, residual, upper, part), coupled)
        young = problem.loss.fenchel_young(error, point.q).reshape(len(x), -1).sum(axis=1)
        inner = np.einsum("ti,ti->t", point.q.reshape(len(x), -1), z.reshape(len(x), -1))
        self.gap[part] = young + (problem.alpha * self.theta[part] - inner)
        self.decrease[part] = point.decrease
        self.slack += float(point.slack.sum())

    def certificate(self, tolerance: float) -> Certificate:
        coupled = self.problem.regularizer.couples_samples
        gap = max(0.0, float(self.gap.sum()))
        objective = float(self.objective.sum())
        by_sample = _ratio(self.gain, self.decrease)
        total = float(_ratio(self.gain.sum(keepdims=True), self.decrease.sum(keepdims=True))[0])
        if coupled:
            by_sample = np.full_like(by_sample, total)
        return Certificate(
            objective=objective,
            lower_bound=objective - gap,
            gap=gap,
            attainment=total,
            polar=Polar(self.polar_lower, self.polar_upper),
            stationarity=self.stationarity,
            verdict=self._verdict(gap, float(self.zero.sum()), tolerance),
            tolerance=tolerance,
            worst_sample=int(np.argmax(self.gap)),
            attainment_by_sample=by_sample,
        )

    def _verdict(self, gap: float, zero: float, tolerance: float) -> Verdict:
        if gap <= tolerance * zero:
            return "optimal"
        if self.stationarity <= tolerance and self.polar_upper <= 1.0 + tolerance:
            return "optimal"
        if self.polar_lower > 1.0 + tolerance or gap - self.slack > tolerance * zero:
            return "improvable"
        return "undecided"


def _ratio(gain: Float, decrease: Float) -> Float:
    """gain / decrease with 0 / 0 := 1 and loss / 0 := -infinity; at most 1."""
    out = np.ones_like(gain)
    possible = decrease > 0
    out[possible] = np.minimum(gain[possible] / decrease[possible], 1.0)
    out[~possible & (gain < 0)] = -np.inf
    return out
