"""The squared loss, rho(e) = e^2 / 2: the paper's choice."""

from dataclasses import dataclass

import numpy as np

from septum.array import Float


@dataclass(frozen=True)
class Squared:
    """rho(e) = e^2 / 2, rho'(e) = e, rho*(q) = q^2 / 2; the Fenchel-Young gap is (e - q)^2 / 2."""

    name = "squared"
    lipschitz = 1.0
    dual_limit = np.inf

    def value(self, error: Float) -> Float:
        return 0.5 * error * error

    def influence(self, error: Float) -> Float:
        return error

    def conjugate(self, q: Float) -> Float:
        return 0.5 * q * q

    def fenchel_young(self, error: Float, q: Float) -> Float:
        difference = error - q
        return 0.5 * difference * difference
