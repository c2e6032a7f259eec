"""Sparse atoms on one mode: theta = N(a_m) (product of the other atoms' l2 norms) ||c||_1,

    N(g) = ||g||_2 + beta ||g||_1.

From ||W^T g||_2 <= sigma_max(W) ||g||_2 and <= (max row norm) ||g||_1 the polar for n = 2 is at most
1 / (1 / sigma_max + beta / max row norm); alternating best responses bound it below with atoms that attain
it. Omega is at least the nuclear norm plus beta times the sum of the row norms, which gives lower bounds
of the problem. For n = 1 all is exact. At beta = 0 this is the paper's regulariser.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real

import numpy as np

from septum.array import Float
from septum.errors import InvalidInputError
from septum.kronecker import Codes, atom_norms, sizes
from septum.regularizer import l1_code
from septum.regularizer.atom_norm import (
    project_l2,
    project_sparse,
    sparse_dual_norm,
    sparse_maximizer,
    sparse_norm,
)
from septum.regularizer.l1_atoms import L1Atoms, check_mode
from septum.regularizer.protocol import MayExceed, PolarBounds, Relaxation
from septum.regularizer.relaxation import SparseVectorNorm, harmonic, pairs
from septum.regularizer.separable import Separable
from septum.regularizer.tensor_norm import best_ascent, nested_leading_vectors, unit_response


@dataclass(frozen=True)
class SparseAtoms:
    """theta = (||a_mode||_2 + beta ||a_mode||_1) times the other atoms' l2 norms times the l1 norm of the codes."""

    beta: float
    mode: int = 0
    name = "sparse_atoms"
    couples_samples = False

    def __post_init__(self) -> None:
        check_beta(self.beta)
        check_mode(self.mode)

    def check(self, n_modes: int) -> None:
        check_mode(self.mode, n_modes)

    def atom_weights(self, dictionaries: Sequence[Float]) -> list[Float]:
        weights = atom_norms(dictionaries)
        weights[self.mode] = sparse_norm(dictionaries[self.mode], self.beta)
        return weights

    def value(self, dictionaries: Sequence[Float], codes: Codes) -> Float:
        return l1_code.weighted_l1(codes, self.atom_weights(dictionaries), sizes(dictionaries))

    def polar(self, residual: Float) -> PolarBounds:
        upper = self.polar_upper(residual)
        if residual.ndim == 2:
            return PolarBounds(upper, upper)
        lower, _ = self._ascend(residual)
        return PolarBounds(lower, np.maximum(upper, lower))

    def polar_upper(self, residual: Float) -> Float:
        if residual.ndim == 2:
            return sparse_dual_norm(residual.T, self.beta)
        dense = Separable().polar_upper(residual)
        return harmonic(dense, L1Atoms(self.mode).polar_upper(residual), self.beta)

    def worst_atom(self, residual: Float, sample: int) -> list[Float]:
        one = residual[sample : sample + 1]
        _, vectors = self._ascend(one)
        return [v[0] for v in vectors]

    def _ascend(self, residual: Float) -> tuple[Float, list[Float]]:
        """Alternating best responses from the leading singular vectors and from the best coordinates."""
        residual = residual.astype(np.float64, copy=False)
        n_modes = residual.ndim - 1

        def respond(free: Float) -> tuple[Float, Float]:
            value, vectors = sparse_maximizer(free.T, self.beta)
            return value, vectors.T

        responses = [respond if mode == self.mode else unit_response for mode in range(n_modes)]
        starts = [nested_leading_vectors(residual, first) for first in range(n_modes)]
        coordinates = [L1Atoms(self.mode).worst_atom(residual, t) for t in range(len(residual))]
        starts.append([np.stack(vectors) for vectors in zip(*coordinates, strict=True)])
        return best_ascent(residual, starts, responses, max_iter=200, tol=1e-12)

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

    def relaxations(self, shape: tuple[int, ...]) -> Sequence[Relaxation]:
        if len(shape) == 1:
            return [SparseVectorNorm(self.beta)]
        if self.beta == 0:
            return Separable().relaxations(shape)
        return pairs(Separable().relaxations(shape), L1Atoms(self.mode).relaxations(shape), self.beta)

    def project_atoms(self, atoms: Float, mode: int) -> Float:
        return project_sparse(atoms, self.beta) if mode == self.mode else project_l2(atoms)

    def prox_codes(self, codes: Float, threshold: float, weights: Sequence[Float]) -> Float:
        return l1_code.soft_threshold(codes, threshold, weights)


def check_beta(beta: float) -> None:
    """The weight of the l1 part: finite and not negative."""
    if isinstance(beta, bool) or not isinstance(beta, Real) or not 0 <= float(beta) < np.inf:
        raise InvalidInputError(f"beta must be a finite number, at least 0, not {beta!r}")
