"""How good an image is, and whether one method is better than another.

    PSNR = 10 log10(MAX^2 / MSE),  MAX the largest value of the reference slice          (section 7)
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from septum.array import Float

CONFIDENCE = 0.95


def psnr(image: Float, reference: Float) -> NDArray[np.float64]:
    """The PSNR of every slice of images (X, Y, n, G), in dB; infinite where they are equal."""
    error = np.mean((image - reference) ** 2, axis=(0, 1, 3), dtype=np.float64)
    peak = reference.max(axis=(0, 1, 3)).astype(np.float64)
    with np.errstate(divide="ignore"):
        return np.asarray(10.0 * np.log10(peak**2 / error))


@dataclass(frozen=True)
class Difference:
    """A mean difference and the half-width of its 95% interval (Student's), None from a single pair."""

    mean: float
    half_width: float | None

    @property
    def verdict(self) -> str:
        """Which side the interval speaks for."""
        if self.half_width is None:
            return "one pair"
        if abs(self.mean) <= self.half_width:
            return "undecided"
        return "higher" if self.mean > 0 else "lower"


def paired(a: Sequence[float], b: Sequence[float]) -> Difference:
    """How much higher a is than b, pair by pair."""
    differences = np.subtract(a, b, dtype=np.float64)
    mean, n = float(differences.mean()), len(differences)
    if n < 2:
        return Difference(mean, None)
    spread = float(differences.std(ddof=1))
    return Difference(mean, float(stats.t.ppf(0.5 + CONFIDENCE / 2, n - 1)) * spread / float(np.sqrt(n)))


def spread(values: Sequence[float]) -> float | None:
    """The standard deviation, None for a single value."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else None


def angles(found: Float, true: Float) -> NDArray[np.float64]:
    """Degrees between unit vectors (n, 3) whose sign has no meaning."""
    cosine = np.abs(np.sum(np.asarray(found, np.float64) * np.asarray(true, np.float64), axis=-1))
    return np.asarray(np.degrees(np.arccos(np.clip(cosine, 0.0, 1.0))))
