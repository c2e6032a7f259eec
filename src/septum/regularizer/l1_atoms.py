"""l1 on the atoms of one mode: theta = ||a_m||_1 (product of the other atoms' l2 norms) ||c||_1.

The extreme points of the l1 ball are the coordinate vectors, so everything splits into slices along
the mode: Omega is the sum over slices of the paper's Omega, and the polar its maximum over slices. For
n = 2 the slices are rows or columns: the polar is max_{t,i} ||row_i(W_t)||_2 and f* is reached by
shrinking rows. Exact for n <= 3. The optimal atoms of the mode are coordinate vectors: this regulariser
is a reference case more than a way to learn.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from septum.array import Float
from septum.errors import InvalidInputError
from septum.kronecker import Codes, atom_norms, sizes
from septum.regularizer import l1_code
from septum.regularizer.atom_norm import project_l1, project_l2
from septum.regularizer.protocol import MayExceed, PolarBounds
from septum.regularizer.relaxation import SliceNorm, slices
from septum.regularizer.separable import Separable


@dataclass(frozen=True)
class L1Atoms:
    """theta = ||a_mode||_1 times the other atoms' l2 norms times the l1 norm of the codes."""

    mode: int = 0
    name = "l1_atoms"
    couples_samples = False

    def __post_init__(self) -> None:
        check_mode(self.mode)

    def check(self, n_modes: int) -> None:
        check_mode(self.mode, n_modes)

    def atom_weights(self, dictionaries: Sequence[Float]) -> list[Float]:
        weights = atom_norms(dictionaries)
        weights[self.mode] = np.abs(dictionaries[self.mode].astype(np.float64)).sum(axis=0)
        return weights

    def value(self, dictionaries: Sequence[Float], codes: Codes) -> Float:
        return l1_code.weighted_l1(codes, self.atom_weights(dictionaries), sizes(dictionaries))

    def polar(self, residual: Float) -> PolarBounds:
        bounds = Separable().polar(slices(residual, self.mode))
        by_sample = (len(residual), -1)
        return PolarBounds(
            bounds.lower.reshape(by_sample).max(axis=1), bounds.upper.reshape(by_sample).max(axis=1)
        )

    def polar_upper(self, residual: Float) -> Float:
        return Separable().polar_upper(slices(residual, self.mode)).reshape(len(residual), -1).max(axis=1)

    def worst_atom(self, residual: Float, sample: int) -> list[Float]:
        parts = slices(residual[sample : sample + 1].astype(np.float64), self.mode)
        best = int(np.argmax(Separable().polar(parts).lower))
        others = Separable().worst_atom(parts, best)
        coordinate = np.zeros(len(parts))
        coordinate[best] = 1.0
        if residual.ndim == 2:
            return [coordinate * others[0][0]]
        return [*others[: self.mode], coordinate, *others[self.mode :]]

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
        weights = self.atom_weights(dictionaries)
        return l1_code.stationarity(
            residual, dictionaries, weights, codes, alpha, may_exceed=may_exceed, at_least=at_least
        )

    def relaxations(self, shape: tuple[int, ...]) -> Sequence[SliceNorm]:
        others = tuple(d for k, d in enumerate(shape) if k != self.mode) or (1,)
        return [SliceNorm(self.mode, inner) for inner in Separable().relaxations(others)]

    def project_atoms(self, atoms: Float, mode: int) -> Float:
        return project_l1(atoms) if mode == self.mode else project_l2(atoms)

    def prox_codes(self, codes: Float, threshold: float, weights: Sequence[Float]) -> Float:
        return l1_code.soft_threshold(codes, threshold, weights)


def check_mode(mode: int, n_modes: int | None = None) -> None:
    """A mode counted from 0, below the number of modes once that is known."""
    if isinstance(mode, bool) or not isinstance(mode, (int, np.integer)) or mode < 0:
        raise InvalidInputError(f"mode must be an integer counted from 0, not {mode!r}")
    if n_modes is not None and mode >= n_modes:
        raise InvalidInputError(f"mode {mode} asked for, but samples have {n_modes} mode(s), counted from 0")
