"""The three gradients of section 5.1, for any number of modes, as matrix products.

For Z = C x_1 A_1 ... x_n A_n and the residual R = rho'(M o (X - Z)), minus the gradient in Z,

    grad in A_k:   - sum_t R_t(k) P_t(k)^T,     P_t = C_t x_j A_j over every j but k, unfolded along mode k
    grad in C_t:   - R_t x_1 A_1^T ... x_n A_n^T

and Lipschitz constants of them, with rho' Lipschitz by `loss.lipschitz` (a mask only lowers them):

    L_k = lipschitz * || sum_t P_t(k) P_t(k)^T ||,     L_C = lipschitz * prod_k || A_k^T A_k ||

with || || the spectral norm, where the paper takes the larger Frobenius norm. The constant of mode k
sums over samples, for both modes of the paper.

Layout: the sample axis comes second, `(d_1, n_samples, d_2, ..., d_n)`, codes likewise. Then the first
and the last mode, all there are when n <= 2, act through one matrix product on a reshaped array each.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from septum.array import Float
from septum.loss import Loss, Squared


@dataclass(frozen=True)
class Point:
    """Dictionaries A_k `(d_k, r_k)` and dense codes `(r_1, n_samples, r_2, ..., r_n)`."""

    dictionaries: Sequence[Float]
    codes: Float

    @property
    def sizes(self) -> tuple[int, ...]:
        """(r_1, ..., r_n)."""
        return tuple(A.shape[1] for A in self.dictionaries)

    def with_dictionary(self, mode: int, dictionary: Float) -> "Point":
        """The same point but for one dictionary."""
        changed = list(self.dictionaries)
        changed[mode] = dictionary
        return Point(changed, self.codes)


def samples_second(X: Float) -> Float:
    """`(n_samples, d_1, ..., d_n)` as a contiguous `(d_1, n_samples, d_2, ..., d_n)`."""
    return np.ascontiguousarray(X.swapaxes(0, 1))


def samples_first(X: Float) -> Float:
    """The inverse of `samples_second`, as a view."""
    return X.swapaxes(0, 1)


def _axis(mode: int) -> int:
    return 0 if mode == 0 else mode + 1


def along(X: Float, matrix: Float, mode: int) -> Float:
    """X x_mode matrix, samples second."""
    axis = _axis(mode)
    before, after = X.shape[:axis], X.shape[axis + 1 :]
    if axis == 0:
        return (matrix @ X.reshape(X.shape[0], prod(after))).reshape(matrix.shape[0], *after)
    if not after:
        return (X.reshape(prod(before), X.shape[-1]) @ matrix.T).reshape(*before, matrix.shape[0])
    folded = X.reshape(prod(before), X.shape[axis], prod(after))
    return np.matmul(matrix, folded).reshape(*before, matrix.shape[0], *after)


def along_all(X: Float, matrices: Sequence[Float], modes: Iterable[int]) -> Float:
    """X times the matrices of the named modes, those that shrink it the most first."""
    for mode in sorted(modes, key=lambda k: matrices[k].shape[0] / max(1, matrices[k].shape[1])):
        X = along(X, matrices[mode], mode)
    return X


def contract(left: Float, right: Float, mode: int) -> Float:
    """sum over samples and every mode but one: left(k) right(k)^T, `(left's size, right's size)`."""
    axis = _axis(mode)
    if axis == 0:
        return left.reshape(left.shape[0], -1) @ right.reshape(right.shape[0], -1).T
    if axis == left.ndim - 1:
        return left.reshape(-1, left.shape[-1]).T @ right.reshape(-1, right.shape[-1])
    others = [a for a in range(left.ndim) if a != axis]
    return np.tensordot(left, right, axes=(others, others))


def reconstruct(point: Point) -> Float:
    """Z_t for every sample."""
    return along_all(point.codes, point.dictionaries, range(len(point.dictionaries)))


def spectral_norm(matrix: Float) -> float:
    """The largest eigenvalue of A^T A, from the smaller of the two Grams."""
    if matrix.size == 0:
        return 0.0
    small = matrix.T @ matrix if matrix.shape[1] <= matrix.shape[0] else matrix @ matrix.T
    return largest_eigenvalue(small)


def largest_eigenvalue(gram: Float) -> float:
    """Of a positive semi-definite matrix, in float64."""
    if gram.size == 0:
        return 0.0
    return max(0.0, float(np.linalg.eigvalsh(gram.astype(np.float64, copy=False))[-1]))


@dataclass(frozen=True)
class Smooth:
    """The smooth part sum rho(M o (X - Z)) on data `(d_1, n_samples, ...)`, and its block gradients."""

    data: Float
    mask: NDArray[np.bool_] | None
    loss: Loss

    def error(self, reconstruction: Float) -> Float:
        """M o (X - Z)."""
        error = self.data - reconstruction
        if self.mask is not None:
            error *= self.mask
        return error

    def value(self, error: Float) -> float:
        """sum rho(error), added up in float64."""
        if isinstance(self.loss, Squared):
            return 0.5 * float(np.einsum("i,i->", error.ravel(), error.ravel(), dtype=np.float64))
        return float(self.loss.value(error).sum(dtype=np.float64))

    def residual(self, point: Point) -> Float:
        """R = rho'(M o (X - Z)), minus the gradient in Z."""
        return self.loss.influence(self.error(reconstruct(point)))

    def dictionary_gradient(self, point: Point, mode: int, residual: Float) -> Float:
        """The gradient in A_mode, at the point whose residual is given."""
        n_modes = len(point.dictionaries)
        others = [k for k in range(n_modes) if k != mode]
        spread = prod(point.dictionaries[k].shape[0] for k in others)
        folded = prod(point.dictionaries[k].shape[1] for k in others)
        if point.sizes[mode] * spread <= point.dictionaries[mode].shape[0] * folded:
            return -contract(residual, along_all(point.codes, point.dictionaries, others), mode)
        transposed = [A.T for A in point.dictionaries]
        return -contract(along_all(residual, transposed, others), point.codes, mode)

    def dictionary_lipschitz(self, point: Point, mode: int) -> float:
        """L_mode, through the other modes' atoms or, where these are few, their Grams."""
        others = [k for k in range(len(point.dictionaries)) if k != mode]
        few = [k for k in others if point.sizes[k] <= point.dictionaries[k].shape[0]]
        many = [k for k in others if k not in few]
        # <C x H_few x A_many, C x A_many> = <P, P>, H_k = A_k^T A_k
        half = along_all(point.codes, point.dictionaries, many)
        grams = {k: point.dictionaries[k].T @ point.dictionaries[k] for k in few}
        full = half
        for k, gram in grams.items():
            full = along(full, gram, k)
        return self.loss.lipschitz * largest_eigenvalue(contract(full, half, mode))

    def code_gradient(self, point: Point, residual: Float) -> Float:
        """The gradient in the codes, at the point whose residual is given."""
        transposed = [A.T for A in point.dictionaries]
        return -along_all(residual, transposed, range(len(transposed)))

    def code_lipschitz(self, point: Point) -> float:
        """L_C, the same for every sample."""
        return self.loss.lipschitz * prod(spectral_norm(A) for A in point.dictionaries)
