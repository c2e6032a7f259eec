"""The paper's regulariser: theta(a_1, ..., a_n, c) = ||a_1||_2 ... ||a_n||_2 ||c||_1 (section 4).

With atoms in the unit ball it is the l1 norm of the codes. Omega is the sum over samples of the
tensor nuclear norm: of the nuclear norm for n = 2 (proposition 2), of the l2 norm for n = 1. Its polar
is the largest spectral norm of a sample (corollary 2).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from septum.array import Float
from septum.kronecker import Codes, atom_norms, code_indices, sizes
from septum.regularizer.nuclear import NuclearNorm
from septum.regularizer.protocol import PolarBounds
from septum.regularizer.tensor_norm import power_iteration, upper_bound
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
        return weighted_l1(codes, self.atom_weights(dictionaries), sizes(dictionaries))

    def polar(self, residual: Float) -> PolarBounds:
        if residual.ndim <= 3:
            exact = largest_singular_values(unfold(residual, (0,)))
            return PolarBounds(exact, exact)
        lower, _ = power_iteration(residual)
        return PolarBounds(lower, np.maximum(upper_bound(residual), lower))

    def worst_atom(self, residual: Float, sample: int) -> list[Float]:
        one = residual[sample : sample + 1]
        if one.ndim == 3:
            left, _, right = np.linalg.svd(one[0].astype(np.float64), full_matrices=False)
            return [left[:, 0], right[0]]
        _, vectors = power_iteration(one)
        return [v[0] for v in vectors]

    def relaxations(self, shape: tuple[int, ...]) -> Sequence[NuclearNorm]:
        n_modes = len(shape)
        return [NuclearNorm(rows, is_exact=n_modes <= 2) for rows in bipartitions(n_modes)]

    def project_atoms(self, atoms: Float, mode: int) -> Float:
        norms = np.linalg.norm(atoms, axis=0)
        return atoms / np.maximum(norms, 1.0).astype(atoms.dtype)

    def prox_codes(self, codes: Float, threshold: float, weights: Sequence[Float]) -> Float:
        level = (threshold * joint_weights(weights)).astype(codes.dtype)
        return np.sign(codes) * np.maximum(np.abs(codes) - level, 0)


def joint_weights(weights: Sequence[Float]) -> Float:
    """The product of the modes' atom norms for every joint atom: shape (r_1, ..., r_n)."""
    return reduce(np.multiply.outer, weights)


def weighted_l1(codes: Codes, weights: Sequence[Float], r: tuple[int, ...]) -> Float:
    """sum over a sample's codes of |c| times the joint atom's weight, in float64."""
    sample, index = code_indices(codes, r)
    terms = np.abs(codes.data.astype(np.float64, copy=False))
    for weight, i in zip(weights, index, strict=True):
        terms = terms * weight[i]
    return np.bincount(sample, weights=terms, minlength=codes.shape[0])
