"""The paper's regulariser: theta(a_1, ..., a_n, c) = ||a_1||_2 ... ||a_n||_2 ||c||_1 (section 4).

With atoms in the unit ball it is the l1 norm of the codes. Omega is the sum over samples of the
tensor nuclear norm: of the nuclear norm for n = 2 (proposition 2), of the l2 norm for n = 1. Its polar
is the largest spectral norm of a sample (corollary 2).

For n = 1 this is section 2's theta(u, v) = ||u||_2 ||v||_1 of plain dictionary learning, and everything is
exact: with the samples as columns, Omega is the sum of the column norms, the polar their maximum.
Codes that must be non-negative change nothing: a sign moves into an atom, whose norm is free of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from septum.array import Float
from septum.kronecker import Codes, atom_norms, sizes
from septum.regularizer import l1_code
from septum.regularizer.atom_norm import project_l2
from septum.regularizer.nuclear import NuclearNorm
from septum.regularizer.protocol import MayExceed, PolarBounds
from septum.regularizer.tensor_norm import matrix_rows, power_iteration, unit_response, upper_bound
from septum.spectral import bipartitions, largest_singular_values, unfold


@dataclass(frozen=True)
class Separable:
    """theta = product of the atoms' l2 norms times the l1 norm of the codes."""

    name = "separable"
    couples_samples = False

    def check(self, n_modes: int) -> None:
        """Any number of modes will do."""

    def atom_weights(self, dictionaries: Sequence[Float]) -> list[Float]:
        return atom_norms(dictionaries)

    def value(self, dictionaries: Sequence[Float], codes: Codes) -> Float:
        return l1_code.weighted_l1(codes, self.atom_weights(dictionaries), sizes(dictionaries))

    def polar(self, residual: Float) -> PolarBounds:
        upper = self.polar_upper(residual)
        if matrix_rows(residual.shape[1:]) is not None:
            return PolarBounds(upper, upper)
        lower, _ = power_iteration(residual)
        return PolarBounds(lower, np.maximum(upper, lower))

    def polar_upper(self, residual: Float) -> Float:
        rows = matrix_rows(residual.shape[1:])
        return upper_bound(residual) if rows is None else largest_singular_values(unfold(residual, rows))

    def worst_atom(self, residual: Float, sample: int) -> list[Float]:
        one = residual[sample : sample + 1].astype(np.float64)
        if one.ndim == 2:
            return [unit_response(one)[1][0]]
        if one.ndim == 3:
            left, _, right = np.linalg.svd(one[0], full_matrices=False)
            return [left[:, 0], right[0]]
        _, vectors = power_iteration(one)
        return [v[0] for v in vectors]

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

    def relaxations(self, shape: tuple[int, ...]) -> Sequence[NuclearNorm]:
        rows = matrix_rows(shape)
        if rows is not None:
            return [NuclearNorm(rows, is_exact=True)]
        return [NuclearNorm(rows, is_exact=False) for rows in bipartitions(len(shape))]

    def project_atoms(self, atoms: Float, mode: int) -> Float:
        return project_l2(atoms)

    def prox_codes(self, codes: Float, threshold: float, weights: Sequence[Float]) -> Float:
        return l1_code.soft_threshold(codes, threshold, weights)
