"""A sum of a few Kronecker terms: between one separable dictionary and none.

    X_t ~ sum_s A_s C_t B_s^T,  the joint dictionary  D = (sum_s A_s (x) B_s) N^-1,

with N diagonal so that every joint atom has unit norm. One term is separable learning; S terms allow joint
atoms of rank up to S at S times the entries. Learning alternates: sparse codes at alpha on D, then the
least-squares A = [A_1 ... A_S] with the rest fixed, then B likewise. The first term starts from given
dictionaries, the others from small random ones.

After Dantas, da Costa and Lopes, "Learning dictionaries as a sum of Kronecker products", IEEE Signal
Processing Letters 24(5), 2017; coding by septum's lasso and updates by least squares are our choices.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator
from sklearn.utils import check_random_state

from septum.array import Float
from septum.coding import sparse_code
from septum.errors import InvalidInputError

_LARGEST_MATRIX = 2**25  # entries
_OTHER_TERMS = 0.1  # norm of a starting atom of the later terms beside the first's


class KroneckerSum(LinearOperator):
    """D as an operator on row-major codes: (G V, r_1 r_2), unit columns."""

    def __init__(self, left: Sequence[Float], right: Sequence[Float]) -> None:
        if len(left) != len(right) or not len(left):
            raise InvalidInputError("left and right must hold one dictionary for each term, the same number")
        self.left, self.right = list(left), list(right)
        dtype = np.result_type(*self.left, *self.right)
        self.sizes = self.left[0].shape[1], self.right[0].shape[1]
        self.lengths = self.left[0].shape[0], self.right[0].shape[0]
        norms = np.sqrt(np.maximum(self._squared_norms(), 0))
        self.scale = np.divide(1, norms, out=np.zeros_like(norms), where=norms > 1e-10 * norms.max())
        super().__init__(dtype, (self.lengths[0] * self.lengths[1], self.sizes[0] * self.sizes[1]))

    def coding_form(self) -> "Float | KroneckerSum":
        """The matrix itself while it is small, which codes fastest, and the operator beyond."""
        if self.shape[0] * self.shape[1] > _LARGEST_MATRIX:
            return self
        joint = (
            np.einsum("sgi,svj->gvij", np.stack(self.left), np.stack(self.right), optimize=True) * self.scale
        )
        return np.ascontiguousarray(joint.reshape(self.shape))

    def _squared_norms(self) -> Float:
        """||sum_s a_si (x) b_sj||^2 = sum_su <a_si, a_ui> <b_sj, b_uj>."""
        pairs = [(s, u) for s in range(len(self.left)) for u in range(len(self.left))]
        parts = [
            np.outer(np.sum(self.left[s] * self.left[u], 0), np.sum(self.right[s] * self.right[u], 0))
            for s, u in pairs
        ]
        return np.sum(parts, axis=0)

    def _matvec(self, codes: Float) -> Float:
        return self._matmat(codes.reshape(-1, 1)).ravel()

    def _rmatvec(self, sample: Float) -> Float:
        return self._rmatmat(sample.reshape(-1, 1)).ravel()

    def _matmat(self, codes: Float) -> Float:
        scaled = codes.T.reshape(-1, *self.sizes) * self.scale
        whole = sum(A @ scaled @ B.T for A, B in zip(self.left, self.right, strict=True))
        return np.ascontiguousarray(whole.reshape(codes.shape[1], -1).T)

    def _rmatmat(self, samples: Float) -> Float:
        images = samples.T.reshape(-1, *self.lengths)
        whole = sum(A.T @ images @ B for A, B in zip(self.left, self.right, strict=True)) * self.scale
        return np.ascontiguousarray(whole.reshape(samples.shape[1], -1).T)


def learn_kronecker_sum(
    patches: Float,
    start: Sequence[Float],
    n_terms: int,
    alpha: float,
    *,
    max_iter: int = 10,
    tol: float = 1e-3,
    random_state: Any = 0,
) -> tuple[KroneckerSum, Float]:
    """Learn D from patches (T, G, V), and the objective after each coding; `start` is one pair of dictionaries.

    The last act is the coding that is scored, and the best D of all is returned.
    """
    random = check_random_state(random_state)
    left, right = [start[0].astype(patches.dtype)], [start[1].astype(patches.dtype)]
    for _ in range(n_terms - 1):
        left.append(_small(random, start[0].shape, patches.dtype))
        right.append(_small(random, start[1].shape, patches.dtype))
    flat = patches.reshape(len(patches), -1)
    objectives: list[float] = []
    best, codes = KroneckerSum(left, right), None
    for sweep in range(max_iter + 1):
        operator = KroneckerSum(left, right)
        codes = sparse_code(flat, [operator.coding_form()], alpha, tol=tol, codes_init=codes).codes
        rest = flat - operator._matmat(codes.toarray().T).T
        objectives.append(float(np.sum(rest**2) / 2 + alpha * np.abs(codes.data).sum()))
        if objectives[-1] <= min(objectives):
            best = operator
        if sweep == max_iter or not codes.nnz:
            break
        scaled = codes.toarray().reshape(-1, *operator.sizes) * operator.scale
        left = _least_squares(patches, scaled, right, left)
        right = _least_squares(patches.transpose(0, 2, 1), scaled.transpose(0, 2, 1), left, right)
    return best, np.array(objectives)


def _small(random: np.random.RandomState, shape: tuple[int, ...], dtype: np.dtype) -> Float:
    atoms = random.standard_normal(shape)
    return (_OTHER_TERMS * atoms / np.linalg.norm(atoms, axis=0)).astype(dtype)


def _least_squares(
    samples: Float, codes: Float, others: Sequence[Float], current: Sequence[Float]
) -> list[Float]:
    """min over A_s of sum_t ||X_t - sum_s A_s C_t B_s^T||^2, damped towards the current A where codes say nothing."""
    stacked = np.concatenate([codes @ B.T for B in others], axis=1)
    normal = np.tensordot(stacked, stacked, axes=([0, 2], [0, 2]))
    crossed = np.tensordot(samples, stacked, axes=([0, 2], [0, 2]))
    damping = 1e-6 * np.trace(normal) / len(normal)
    normal[np.diag_indices_from(normal)] += damping
    crossed += damping * np.concatenate(current, axis=1)
    solved = np.linalg.solve(normal, crossed.T).T
    return np.split(np.ascontiguousarray(solved), len(others), axis=1)
