"""What a rank-1 regulariser theta(a_1, ..., a_n, c) must offer (definition 3 of the paper).

theta is a product of one norm N_k for each mode's atom and a norm of the code vector c (over samples).
With it come Theta (its sum over joint atoms), the polar of Omega (largest correlation with any joint
atom of norm one), and relaxations: computable norms below Omega, from which lower bounds of the
problem follow. Omega itself may be NP-hard to know, so the polar is a pair of bounds.

Most regularisers here share the l1 norm of the codes, and with it the functions of
`septum.regularizer.l1_code`; their atoms' norms are those of `septum.regularizer.atom_norm`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from septum.array import Float
from septum.kronecker import Codes

MayExceed = Callable[[float], NDArray[np.bool_]]


@dataclass(frozen=True)
class PolarBounds:
    """For every sample, lower <= polar <= upper."""

    lower: Float
    upper: Float


class Relaxation(Protocol):
    """A norm Omega_S <= Omega, sample by sample, and its proximal map.

    For a regulariser that couples the samples, the arrays are the whole data and the values for each
    sample are shares of the norm that sum to it.
    """

    @property
    def is_exact(self) -> bool:
        """Whether Omega_S = Omega and `shrink` is its proximal map, not only near to it."""
        ...

    def value(self, Z: Float) -> Float:
        """Omega_S(Z_t) for every sample."""
        ...

    def shrink(self, X: Float, threshold: float) -> Float:
        """argmin_Z 1/2 ||X_t - Z||^2 + threshold Omega_S(Z).

        The dual norm of X minus the result is at most `threshold`, to rounding, in every case.
        """
        ...

    def dual_norm(self, R: Float) -> Float:
        """An upper bound, for every sample, of the polar of Omega: the dual norm of Omega_S where known."""
        ...


@runtime_checkable
class Regularizer(Protocol):
    """A rank-1 regulariser."""

    @property
    def name(self) -> str: ...

    @property
    def couples_samples(self) -> bool:
        """Whether theta mixes samples; then polar and relaxations act on the whole data at once."""
        ...

    def check(self, n_modes: int) -> None:
        """Raise InvalidInputError when samples of that many modes cannot be handled."""
        ...

    def atom_weights(self, dictionaries: Sequence[Float]) -> list[Float]:
        """The norm N_k of every atom, one array for each mode."""
        ...

    def value(self, dictionaries: Sequence[Float], codes: Codes) -> Float:
        """Theta for every sample (for coupled samples: shares that sum to it)."""
        ...

    def polar(self, residual: Float) -> PolarBounds:
        """Bounds of the polar of Omega at every sample of the residual."""
        ...

    def polar_upper(self, residual: Float) -> Float:
        """The upper bound alone, which is all that certifies and screens, and costs less."""
        ...

    def worst_atom(self, residual: Float, sample: int) -> list[Float]:
        """Atoms of norm one whose correlation with that sample attains the polar's lower bound.

        For coupled samples: with the whole residual and the best code vector.
        """
        ...

    def stationarity(
        self,
        residual: Float,
        dictionaries: Sequence[Float],
        codes: Codes,
        alpha: float,
        *,
        may_exceed: MayExceed,
        at_least: float = 0.0,
    ) -> float:
        """The largest relative violation of first-order optimality in the codes, or `at_least` if less.

        `may_exceed(level)` tells which samples may have a polar above level * alpha; at the others
        nothing off the support of the codes needs to be looked at.
        """
        ...

    def relaxations(self, shape: tuple[int, ...]) -> Sequence[Relaxation]:
        """Norms below Omega for samples of that shape."""
        ...

    def project_atoms(self, atoms: Float, mode: int) -> Float:
        """The nearest atoms with N_k <= 1, column by column."""
        ...

    def prox_codes(self, codes: Float, threshold: float, weights: Sequence[Float]) -> Float:
        """prox of threshold * (code norm), dense codes `(n_samples, r_1, ..., r_n)`, given the atoms' norms."""
        ...
