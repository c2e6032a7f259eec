"""Section 2's second example, for samples of one mode: theta(u, v) = ||u||_2 (||v||_2 + beta ||v||_1).

v is an atom's code vector over all samples, so the samples are coupled: the l2 part favours few atoms, the
l1 part sparse codes. The data `(n_samples, d)` is one matrix whose rows carry v, and the polar, its bounds
and the relaxation are those of `SparseAtoms` on that matrix with its sample axis as the sparse mode:

    sup <W^T v, u> over N(v), ||u||_2 <= 1   is at most   1 / (1 / sigma_max(W) + beta / max_t ||W_t||_2).

One scale serves all samples in every dual point.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from septum.array import Float
from septum.errors import InvalidInputError
from septum.kronecker import Codes, atom_norms
from septum.regularizer.atom_norm import project_l2
from septum.regularizer.protocol import MayExceed, PolarBounds
from septum.regularizer.relaxation import WholeData
from septum.regularizer.sparse_atoms import SparseAtoms, check_beta


@dataclass(frozen=True)
class SparseCodes:
    """theta = ||a||_2 (||c||_2 + beta ||c||_1), for samples of one mode."""

    beta: float
    name = "sparse_codes"
    couples_samples = True

    def __post_init__(self) -> None:
        check_beta(self.beta)

    def check(self, n_modes: int) -> None:
        if n_modes != 1:
            raise InvalidInputError(f"SparseCodes is for samples of one mode, not {n_modes}: reshape X to 2-D")

    def atom_weights(self, dictionaries: Sequence[Float]) -> list[Float]:
        return atom_norms(dictionaries)

    def value(self, dictionaries: Sequence[Float], codes: Codes) -> Float:
        """Shares: of ||c||_2 in proportion to the squares of its entries, of ||c||_1 as they come."""
        weight = self.atom_weights(dictionaries)[0]
        size = np.abs(codes.data.astype(np.float64))
        atom = codes.indices
        norm = np.sqrt(np.bincount(atom, weights=size**2, minlength=weight.size))
        share = size**2 / np.where(norm[atom] > 0, norm[atom], 1.0) + self.beta * size
        sample = np.repeat(np.arange(codes.shape[0]), np.diff(codes.indptr))
        return np.bincount(sample, weights=weight[atom] * share, minlength=codes.shape[0])

    def polar(self, residual: Float) -> PolarBounds:
        bounds = SparseAtoms(self.beta).polar(residual[None])
        count = len(residual)
        return PolarBounds(np.full(count, bounds.lower[0]), np.full(count, bounds.upper[0]))

    def polar_upper(self, residual: Float) -> Float:
        return np.full(len(residual), SparseAtoms(self.beta).polar_upper(residual[None])[0])

    def worst_atom(self, residual: Float, sample: int) -> list[Float]:
        _, atom = SparseAtoms(self.beta).worst_atom(residual[None], 0)
        return [atom]

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
        """With g_i = R a_i / (alpha ||a_i||) over all samples, and v_i the codes of atom i:

        g_i = v / ||v_i||_2 + beta sign(v) where v is nonzero, |g_i| <= beta at the other entries of such an atom;
        an unused atom asks for ||soft(g_i, beta)||_2 <= 1.
        """
        weight = self.atom_weights(dictionaries)[0]
        pull = (residual @ (dictionaries[0][:, weight > 0] / weight[weight > 0])) / alpha
        v = codes[:, np.flatnonzero(weight > 0)].toarray()
        norm = np.linalg.norm(v, axis=0)
        used = norm > 0
        excess = np.maximum(np.abs(pull) - self.beta, 0.0)
        off = np.abs(pull - v / np.where(used, norm, 1.0) - self.beta * np.sign(v))
        inside = np.where(v != 0, off, excess)[:, used]
        unused = np.linalg.norm(excess[:, ~used], axis=0) - 1.0
        return max(at_least, float(inside.max(initial=0.0)), float(unused.max(initial=0.0)))

    def relaxations(self, shape: tuple[int, ...]) -> Sequence[WholeData]:
        return [WholeData(norm) for norm in SparseAtoms(self.beta).relaxations((2, *shape))]

    def project_atoms(self, atoms: Float, mode: int) -> Float:
        return project_l2(atoms)

    def prox_codes(self, codes: Float, threshold: float, weights: Sequence[Float]) -> Float:
        """A soft threshold at beta, then each atom's code vector shrunk as a whole."""
        level = threshold * weights[0]
        soft = np.sign(codes) * np.maximum(np.abs(codes) - self.beta * level, 0.0)
        norm = np.linalg.norm(soft, axis=0)
        return (soft * np.maximum(1.0 - level / np.where(norm > 0, norm, np.inf), 0.0)).astype(codes.dtype)
