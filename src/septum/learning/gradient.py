"""The three gradients of section 5.1, for any number of modes, as matrix products.

For Z = C x_1 A_1 ... x_n A_n and the residual R = rho'(M o (X - Z)), minus the gradient in Z,

    grad in A_k:   - sum_t R_t(k) P_t(k)^T,     P_t = C_t x_j A_j over every j but k, unfolded along mode k
    grad in C_t:   - R_t x_1 A_1^T ... x_n A_n^T

and Lipschitz constants of them, with rho' Lipschitz by `loss.lipschitz` (a mask only lowers them):

    L_k = lipschitz * || sum_t P_t(k) P_t(k)^T ||,     L_C = lipschitz * prod_k || A_k^T A_k ||

with || || the spectral norm, where the paper takes the larger Frobenius norm. The constant of mode k
sums over samples, for both modes of the paper.

As a function of one block the smooth part is a `Block`: its Lipschitz constant, gradient and value. There are
two smooth parts. `Residual` serves every loss and mask. `Quadratic`, the squared loss with everything observed,
expands the square, so that no array of the size of Z is made: in A_k the value is
-<A, N> + 1/2 <A, A H> with H = sum_t P_t(k) P_t(k)^T and N = sum_t X_t(k) P_t(k)^T, in C it is
-<C, K> + 1/2 <C, C x_k A_k^T A_k> with K = X x_k A_k^T.

Values are relative to zero codes, so that what is gained keeps its digits where f(0) is large.

Layout: the sample axis comes second, `(d_1, n_samples, d_2, ..., d_n)`, codes likewise. Then the first
and the last mode, all there are when n <= 2, act through one matrix product on a reshaped array each.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from septum.array import Float
from septum.loss import Loss


@dataclass(frozen=True)
class Point:
    """Dictionaries A_k `(d_k, r_k)` and dense codes `(r_1, n_samples, r_2, ..., r_n)`."""

    dictionaries: Sequence[Float]
    codes: Float

    @property
    def n_modes(self) -> int:
        return len(self.dictionaries)

    @property
    def sizes(self) -> tuple[int, ...]:
        """(r_1, ..., r_n)."""
        return tuple(A.shape[1] for A in self.dictionaries)

    def others(self, mode: int) -> list[int]:
        """Every mode but one."""
        return [k for k in range(self.n_modes) if k != mode]

    def with_dictionary(self, mode: int, dictionary: Float) -> "Point":
        """The same point but for one dictionary."""
        changed = list(self.dictionaries)
        changed[mode] = dictionary
        return Point(changed, self.codes)


@dataclass(frozen=True)
class Block:
    """The smooth part as a function of one block, the others fixed."""

    lipschitz: float
    gradient: Callable[[Float], Float]
    value: Callable[[Float], float]


class Smooth(Protocol):
    """sum rho(M o (X - Z)) - sum rho(M o X) on data `(d_1, n_samples, d_2, ..., d_n)`."""

    @property
    def data(self) -> Float: ...

    @property
    def lipschitz(self) -> float:
        """The Lipschitz constant of rho'."""
        ...

    def residual(self, point: Point) -> Float:
        """R = rho'(M o (X - Z)), minus the gradient in Z."""
        ...

    def in_dictionary(self, point: Point, mode: int) -> Block:
        """As a function of A_mode."""
        ...

    def in_codes(self, point: Point) -> Block:
        """As a function of the codes."""
        ...


class Residual:
    """The smooth part for any loss, with or without a mask, through the residual."""

    def __init__(self, data: Float, mask: NDArray[np.bool_] | None, loss: Loss) -> None:
        self.data, self.mask, self.loss = data, mask, loss
        self.lipschitz = loss.lipschitz
        self.zero = float(loss.value(data).sum())

    def error(self, point: Point) -> Float:
        """M o (X - Z)."""
        error = self.data - reconstruct(point)
        if self.mask is not None:
            error *= self.mask
        return error

    def residual(self, point: Point) -> Float:
        return self.loss.influence(self.error(point))

    def value(self, point: Point) -> float:
        return float(self.loss.value(self.error(point)).sum()) - self.zero

    def in_dictionary(self, point: Point, mode: int) -> Block:
        def gradient(A: Float) -> Float:
            return -against_codes(self.residual(point.with_dictionary(mode, A)), point, mode)

        return Block(
            self.lipschitz * largest_eigenvalue(curvature(point, mode)),
            gradient,
            lambda A: self.value(point.with_dictionary(mode, A)),
        )

    def in_codes(self, point: Point) -> Block:
        transposed = [A.T for A in point.dictionaries]

        def gradient(codes: Float) -> Float:
            return -along_all(self.residual(Point(point.dictionaries, codes)), transposed, range(point.n_modes))

        return Block(
            self.lipschitz * prod(squared_norm(A) for A in point.dictionaries),
            gradient,
            lambda codes: self.value(Point(point.dictionaries, codes)),
        )


class Quadratic:
    """The smooth part for the squared loss with everything observed, its square expanded."""

    lipschitz = 1.0

    def __init__(self, data: Float) -> None:
        self.data = data
        self._known: tuple[int, list[Float], Float] | None = None

    def residual(self, point: Point) -> Float:
        return self.data - reconstruct(point)

    def in_dictionary(self, point: Point, mode: int) -> Block:
        H = curvature(point, mode)
        N = contract(self._correlated(point, mode), point.codes, mode)
        return Block(
            largest_eigenvalue(H),
            lambda A: A @ H - N,
            lambda A: float(np.vdot(A, 0.5 * (A @ H) - N)),
        )

    def in_codes(self, point: Point) -> Block:
        if self._known is not None and _same(self._known, point):
            mode, _, partial = self._known
            K = along(partial, point.dictionaries[mode].T, mode)
        else:
            K = along_all(self.data, [A.T for A in point.dictionaries], range(point.n_modes))
        return Block(
            prod(squared_norm(A) for A in point.dictionaries),
            lambda codes: joint_gram(point.dictionaries, codes) - K,
            lambda codes: float(np.vdot(codes, 0.5 * joint_gram(point.dictionaries, codes) - K)),
        )

    def _correlated(self, point: Point, mode: int) -> Float:
        """X x_j A_j^T over every j but `mode`; the last one is kept, for the codes often need it next."""
        if self._known is None or self._known[0] != mode or not _same(self._known, point):
            partial = along_all(self.data, [A.T for A in point.dictionaries], point.others(mode))
            self._known = mode, [point.dictionaries[k] for k in point.others(mode)], partial
        return self._known[2]


def _same(known: tuple[int, list[Float], Float], point: Point) -> bool:
    mode, others, _ = known
    return all(A is point.dictionaries[k] for A, k in zip(others, point.others(mode), strict=True))


# --- products, samples second -------------------------------------------------------------------


def samples_second(X: Float) -> Float:
    """`(n_samples, d_1, ..., d_n)` as a contiguous `(d_1, n_samples, d_2, ..., d_n)`."""
    return np.ascontiguousarray(X.swapaxes(0, 1))


def samples_first(X: Float) -> Float:
    """The inverse of `samples_second`, as a view."""
    return X.swapaxes(0, 1)


def axis_of(mode: int) -> int:
    """Where a mode is, with the samples second."""
    return 0 if mode == 0 else mode + 1


def along(X: Float, matrix: Float, mode: int) -> Float:
    """X x_mode matrix."""
    axis = axis_of(mode)
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
    axis = axis_of(mode)
    if axis == 0:
        return left.reshape(left.shape[0], -1) @ right.reshape(right.shape[0], -1).T
    if axis == left.ndim - 1:
        return left.reshape(-1, left.shape[-1]).T @ right.reshape(-1, right.shape[-1])
    others = [a for a in range(left.ndim) if a != axis]
    return np.tensordot(left, right, axes=(others, others))


def reconstruct(point: Point) -> Float:
    """Z_t for every sample."""
    return along_all(point.codes, point.dictionaries, range(point.n_modes))


def against_codes(R: Float, point: Point, mode: int) -> Float:
    """sum_t R_t(k) P_t(k)^T, through P or through R x_j A_j^T, whichever is less work."""
    others = point.others(mode)
    spread = prod(point.dictionaries[k].shape[0] for k in others)
    folded = prod(point.sizes[k] for k in others)
    if point.sizes[mode] * spread <= point.dictionaries[mode].shape[0] * folded:
        return contract(R, along_all(point.codes, point.dictionaries, others), mode)
    return contract(along_all(R, [A.T for A in point.dictionaries], others), point.codes, mode)


def curvature(point: Point, mode: int) -> Float:
    """H = sum_t P_t(k) P_t(k)^T, through the other modes' atoms or, where these are few, their Grams."""
    others = point.others(mode)
    few = [k for k in others if point.sizes[k] <= point.dictionaries[k].shape[0]]
    half = along_all(point.codes, point.dictionaries, [k for k in others if k not in few])
    full = half
    for k in few:
        full = along(full, point.dictionaries[k].T @ point.dictionaries[k], k)
    return contract(full, half, mode)


def joint_gram(dictionaries: Sequence[Float], codes: Float) -> Float:
    """C x_k A_k^T A_k over every mode: through A_k^T A_k where r_k < 2 d_k, else through A_k, then A_k^T."""
    many = [k for k, A in enumerate(dictionaries) if A.shape[1] >= 2 * A.shape[0]]
    out = along_all(codes, dictionaries, many)
    for k, A in enumerate(dictionaries):
        if k not in many:
            out = along(out, A.T @ A, k)
    return along_all(out, [A.T for A in dictionaries], many)


def squared_norm(matrix: Float) -> float:
    """||A^T A||, from the smaller of the two Grams."""
    return largest_eigenvalue(matrix.T @ matrix if matrix.shape[1] <= matrix.shape[0] else matrix @ matrix.T)


def largest_eigenvalue(gram: Float) -> float:
    """Of a positive semi-definite matrix; zero when it is empty."""
    return max(0.0, float(np.linalg.eigvalsh(gram)[-1])) if gram.size else 0.0
