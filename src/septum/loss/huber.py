"""Huber's loss: squared up to `delta`, linear beyond, so that outliers pull with a bounded force."""

from dataclasses import dataclass

import numpy as np

from septum.array import Float
from septum.errors import InvalidInputError


@dataclass(frozen=True)
class Huber:
    """rho(e) = e^2 / 2 for |e| <= delta, delta |e| - delta^2 / 2 beyond.

    rho'(e) = clip(e, -delta, delta), and rho*(q) = q^2 / 2 for |q| <= delta, infinite beyond. `delta`
    is in the units of the data: about 1.345 standard deviations of the noise is the usual choice.
    """

    delta: float = 1.345
    name = "huber"
    lipschitz = 1.0

    def __post_init__(self) -> None:
        if not np.isfinite(self.delta) or self.delta <= 0:
            raise InvalidInputError(f"delta must be positive and finite, not {self.delta!r}")

    @property
    def dual_limit(self) -> float:
        return self.delta

    def value(self, error: Float) -> Float:
        size = np.abs(error)
        inner = np.minimum(size, self.delta)
        return inner * (size - 0.5 * inner)

    def influence(self, error: Float) -> Float:
        return np.clip(error, -self.delta, self.delta)

    def conjugate(self, q: Float) -> Float:
        return 0.5 * q * q

    def fenchel_young(self, error: Float, q: Float) -> Float:
        size = np.abs(error)
        aligned = np.where(error < 0, -q, q)
        inside = 0.5 * (size - aligned) ** 2
        outside = (self.delta - aligned) * (size - 0.5 * (self.delta + aligned))
        return np.where(size <= self.delta, inside, outside)
