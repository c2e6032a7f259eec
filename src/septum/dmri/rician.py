"""Magnitude noise: the moments of Rician and non-central chi values, and their exact inverses.

A magnitude image shows m = sqrt(sum over 2N Gaussian channels), the signal A in one of them and noise of
standard deviation sigma in each (N = 1: Rician; N coils by sum of squares: non-central chi). With sigma = 1:

    mean      E[m | A]   = sqrt(pi / 2) L(-A^2 / 2),  L the generalised Laguerre function of degree 1/2, order N - 1
    variance  Var[m | A] = 2 N + A^2 - E[m | A]^2
    score     d/dA log p(m | A) = e(m, A) - A,  e(m, A) = m I_N(m A) / I_(N-1)(m A)

`correct` inverts the mean: what a magnitude averaged to m says of A. `expected` is e: the signal channel that
is to be expected given the magnitude and an estimate of A. At the true A its mean is A, whatever the noise
floor, so denoising e and estimating A in turn is expectation maximisation of the magnitudes' likelihood. e - A
has the variance I(A), the information that a magnitude holds of A, below 1 near the floor. `level_score` divides it by
the root of I (but by no less than half): A + (e - A) / sqrt(I) has the mean A and unit noise nearly everywhere, and
its iteration converges faster to the same point.

The functions of one variable are tabulated once for each N; linear interpolation is exact to 1e-6 sigma.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from septum.array import Float
from septum.coding.compiled import compiled
from septum.errors import InvalidInputError

# From this signal on (in sigma, beside the noise of N coils) the expansions in 1 / A are exact to 1e-6.
_FAR = 30.0
_KNOTS = 16384
BOOST_STEP = 0.02
LARGEST_BOOST = 2.0


class Law(NamedTuple):
    """Tables for one number of coils, for the compiled kernels.

    `inverse` holds A over the root of (mean - floor), in steps of `step`; `ratio` holds I_N / I_(N-1) over
    x / (x + 4 N) in [0, 1]; `boost` holds 1 / sqrt(I) over A in steps of BOOST_STEP, 1 beyond its end.
    """

    n_coils: int
    floor: float
    step: float
    inverse: NDArray[np.float64]
    ratio: NDArray[np.float64]
    boost: NDArray[np.float64]


def check_coils(n_coils: object) -> int:
    """A whole number of coils, at least 1."""
    if isinstance(n_coils, bool) or not isinstance(n_coils, (int, np.integer)) or n_coils < 1:
        raise InvalidInputError(f"the number of coils must be a whole number of at least 1, not {n_coils!r}")
    return int(n_coils)


def mean(signal: ArrayLike, n_coils: int = 1) -> Float:
    """E[m | A] for unit noise."""
    A = np.abs(np.asarray(signal, dtype=np.float64))
    limit = _far(n_coils)
    near = np.minimum(A, limit)
    if n_coils == 1:
        q = near**2 / 4
        exact = np.sqrt(np.pi / 2) * ((1 + 2 * q) * special.ive(0, q) + 2 * q * special.ive(1, q))
    else:
        floor = np.sqrt(2) * np.exp(special.gammaln(n_coils + 0.5) - special.gammaln(n_coils))
        exact = floor * special.hyp1f1(-0.5, n_coils, -(near**2) / 2)
    return np.where(limit >= A, exact, _far_mean(np.maximum(A, limit), n_coils))


def variance(signal: ArrayLike, n_coils: int = 1) -> Float:
    """Var[m | A] for unit noise."""
    A = np.abs(np.asarray(signal, dtype=np.float64))
    limit = _far(n_coils)
    near = np.minimum(A, limit)
    exact = 2 * n_coils + near**2 - mean(near, n_coils) ** 2
    far = 1.0 - (2 * n_coils - 1) / (2 * np.maximum(A, limit) ** 2)
    return np.where(limit >= A, exact, far)


def correct(magnitude: ArrayLike, sigma: ArrayLike, n_coils: int = 1) -> Float:
    """The signal whose mean magnitude this is; zero at or below the noise floor.

    `sigma` is a number, or an array that broadcasts against the magnitudes; where it is 0 nothing changes.
    """
    m = np.asarray(magnitude)
    m = m if m.dtype.kind == "f" else m.astype(np.float64)
    scale = np.broadcast_to(np.asarray(sigma, dtype=np.float64), m.shape)
    out = np.empty(m.shape, dtype=m.dtype)
    invert_mean(np.ascontiguousarray(m).reshape(-1), scale.reshape(-1), table(check_coils(n_coils)), out.reshape(-1))
    return out


def expected(magnitude: ArrayLike, signal: ArrayLike, sigma: float = 1.0, n_coils: int = 1) -> Float:
    """e(m, A), element by element."""
    law = table(check_coils(n_coils))
    m, A = np.broadcast_arrays(np.asarray(magnitude, np.float64), np.asarray(signal, np.float64))
    out = np.empty(m.shape)
    expect(m.reshape(-1) / sigma, A.reshape(-1) / sigma, law, out.reshape(-1))
    return out * sigma


@lru_cache(maxsize=8)
def table(n_coils: int) -> Law:
    """The tables for a number of coils."""
    floor = float(mean(0.0, n_coils))
    limit = _far(n_coils)
    root = np.linspace(0.0, np.sqrt(float(mean(limit, n_coils)) - floor), _KNOTS)
    signal = _solve_mean(floor + root**2, floor, limit, n_coils)
    t = np.linspace(0.0, 1.0, _KNOTS)
    x = 4.0 * n_coils * t[:-1] / (1.0 - t[:-1])
    below, above = special.ive(n_coils - 1, x), special.ive(n_coils, x)
    ratio = np.divide(above, below, out=np.zeros_like(x), where=below > 0)
    boost = 1.0 / np.sqrt(np.maximum(information(np.arange(0.0, 12.0, BOOST_STEP), n_coils), LARGEST_BOOST**-2))
    return Law(n_coils, floor, float(root[1]), signal, np.append(ratio, 1.0), boost)


def information(signal: ArrayLike, n_coils: int = 1) -> Float:
    """I(A) = E[(e(m, A) - A)^2] for unit noise, by quadrature over the magnitudes; 1 for Gaussian noise."""
    A = np.atleast_1d(np.asarray(signal, dtype=np.float64))[:, None]
    m = np.linspace(1e-6, float(A.max()) + 2 * np.sqrt(n_coils) + 8.0, 2000)
    x = m * A
    below, above = special.ive(n_coils - 1, x), special.ive(n_coils, x)
    ratio = np.divide(above, below, out=np.zeros_like(x), where=below > 0)
    # log p(m | A) without what does not depend on m: N log m - (m - A)^2 / 2 + log ive(N - 1, x).
    with np.errstate(divide="ignore"):
        log = n_coils * np.log(m) - (m - A) ** 2 / 2 + np.where(A > 0, np.log(below), (n_coils - 1) * np.log(m))
    density = np.exp(log - log.max(axis=1, keepdims=True))
    return ((m * ratio - A) ** 2 * density).sum(axis=1) / density.sum(axis=1)


@compiled
def invert_mean(magnitude, sigma, law, out):
    """out = the signal with that mean magnitude, on flat arrays."""
    last = len(law.inverse) - 1
    for k in range(len(magnitude)):
        s, value = sigma[k], np.float64(magnitude[k])
        if s <= 0.0:
            out[k] = value
            continue
        over = value / s - law.floor
        if over <= 0.0:
            out[k] = 0.0
            continue
        place = np.sqrt(over) / law.step
        first = int(min(place, 1e9))
        if first >= last:
            m = value / s
            a = 2.0 * law.n_coils - 1.0
            signal = m
            for _ in range(4):
                signal = m - a / (2.0 * signal) + a * (a - 2.0) / (8.0 * signal**3)
            out[k] = signal * s
        else:
            share = place - first
            out[k] = s * ((1.0 - share) * law.inverse[first] + share * law.inverse[first + 1])


@compiled
def expect(magnitude, signal, law, out):
    """out = m I_N(m A) / I_(N-1)(m A) for unit noise, on flat arrays."""
    last = len(law.ratio) - 1
    scale = 4.0 * law.n_coils
    for k in range(len(magnitude)):
        m = max(np.float64(magnitude[k]), 0.0)
        x = m * max(np.float64(signal[k]), 0.0)
        place = last * (x / (x + scale))
        first = min(int(place), last - 1)
        share = place - first
        out[k] = m * ((1.0 - share) * law.ratio[first] + share * law.ratio[first + 1])


@compiled
def level_score(magnitude, signal, law, out):
    """out = A + (e(m, A) - A) / sqrt(I(A)) for unit noise, on flat arrays."""
    last = len(law.ratio) - 1
    final = len(law.boost) - 1
    scale = 4.0 * law.n_coils
    for k in range(len(magnitude)):
        m = max(np.float64(magnitude[k]), 0.0)
        A = max(np.float64(signal[k]), 0.0)
        x = m * A
        place = last * (x / (x + scale))
        first = min(int(place), last - 1)
        share = place - first
        e = m * ((1.0 - share) * law.ratio[first] + share * law.ratio[first + 1])
        place = min(A / BOOST_STEP, 1e9)
        boost = 1.0
        if place < final:
            first = int(place)
            share = place - first
            boost = (1.0 - share) * law.boost[first] + share * law.boost[first + 1]
        out[k] = A + boost * (e - A)


def _far(n_coils: int) -> float:
    return _FAR * np.sqrt(n_coils)


def _far_mean(A: Float, n_coils: int) -> Float:
    """The first terms of the expansion in 1 / A."""
    a = 2 * n_coils - 1
    return A + a / (2 * A) - a * (a - 2) / (8 * A**3)


def _solve_mean(target: Float, floor: float, limit: float, n_coils: int) -> Float:
    """A with E[m | A] = target, by bisection on the exact mean."""
    low, high = np.zeros_like(target), np.full_like(target, limit)
    for _ in range(60):
        middle = 0.5 * (low + high)
        above = mean(middle, n_coils) > target
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    signal = 0.5 * (low + high)
    signal[target <= floor] = 0.0
    # Where the mean is flat, rounding blurs the root: E = floor (1 + A^2 / (4 N)) there.
    flat = target - floor < 1e-6 * floor
    signal[flat] = np.sqrt(4.0 * n_coils * (target[flat] / floor - 1.0))
    return signal
