"""What a rank-1 regulariser theta(a_1, ..., a_n, c) must offer (definition 3 of the paper).

theta is a product of one norm for each mode's atom and a norm of the code vector c (over samples).
With it come Theta (its sum over joint atoms), the polar of Omega (largest correlation with any joint
atom of norm one), and relaxations: computable norms below Omega, from which lower bounds of the
problem follow. Omega itself may be NP-hard to know, so the polar is a pair of bounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from septum.array import Float
from septum.kronecker import Codes


@dataclass(frozen=True)
class PolarBounds:
    """For every sample, lower <= polar <= upper."""

    lower: Float
    upper: Float


class Relaxation(Protocol):
    """A norm Omega_S <= Omega, sample by sample, whose proximal map is known exactly."""

    @property
    def is_exact(self) -> bool:
        """Whether Omega_S = Omega."""
        ...

    def value(self, Z: Float) -> Float:
        """Omega_S(Z_t) for every sample."""
        ...

    def shrink(self, X: Float, threshold: float) -> Float:
        """argmin_Z 1/2 ||X_t - Z||^2 + threshold Omega_S(Z); X minus it is dual feasible."""
        ...

    def dual_norm(self, R: Float) -> Float:
        """The dual norm of Omega_S for every sample: at least the polar of Omega."""
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

    def worst_atom(self, residual: Float, sample: int) -> list[Float]:
        """Atoms of norm one whose correlation with that sample attains the polar's lower bound."""
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
