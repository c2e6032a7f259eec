"""The spectral norm of a tensor, max <R, a_1 o ... o a_n> over unit vectors, from both sides.

For n <= 2 it is the largest singular value, exactly. For n >= 3 it is NP-hard: the least spectral
norm over all unfoldings bounds it above, and the higher-order power iteration, started from the
leading singular vectors of every mode's unfolding, bounds it below with vectors that attain it.
"""

from functools import reduce

import numpy as np

from septum.array import Float
from septum.spectral import bipartitions, largest_singular_values, unfold


def upper_bound(R: Float) -> Float:
    """min over unfoldings of their largest singular value, for every sample."""
    values = [largest_singular_values(unfold(R, rows)) for rows in bipartitions(R.ndim - 1)]
    return reduce(np.minimum, values)


def power_iteration(R: Float, *, max_iter: int = 100, tol: float = 1e-12) -> tuple[Float, list[Float]]:
    """A lower bound for every sample and unit vectors `(n_samples, d_k)` that attain it."""
    R = R.astype(np.float64, copy=False)
    n_modes = R.ndim - 1
    best = np.full(R.shape[0], -1.0)
    vectors: list[Float] = []
    for start_mode in range(n_modes):
        value, found = _ascend(R, start_mode, max_iter, tol)
        better = value > best
        if not vectors:
            vectors = found
        else:
            vectors = [np.where(better[:, None], new, old) for new, old in zip(found, vectors, strict=True)]
        best = np.maximum(best, value)
    return best, vectors


def _ascend(R: Float, start_mode: int, max_iter: int, tol: float) -> tuple[Float, list[Float]]:
    vectors = _nested_leading_vectors(R, start_mode)
    value = np.abs(_contract(R, vectors, None))
    for _ in range(max_iter):
        for mode in range(R.ndim - 1):
            free = _contract(R, vectors, mode)
            norm = np.linalg.norm(free, axis=1)
            vectors[mode] = np.where(norm[:, None] > 0, free / np.where(norm > 0, norm, 1.0)[:, None], vectors[mode])
        change = norm - value
        value = norm
        if (change <= tol * np.maximum(value, np.finfo(float).tiny)).all():
            break
    return value, vectors


def _nested_leading_vectors(R: Float, first: int) -> list[Float]:
    """Leading singular vector of one mode, contracted away, then of the next, and so on."""
    n_modes = R.ndim - 1
    order = [first, *[k for k in range(n_modes) if k != first]]
    vectors: dict[int, Float] = {}
    rest, remaining = R, list(range(n_modes))
    for mode in order:
        axis = remaining.index(mode)
        matrix = np.moveaxis(rest, axis + 1, 1).reshape(R.shape[0], R.shape[mode + 1], -1)
        _, basis = np.linalg.eigh(np.matmul(matrix, matrix.transpose(0, 2, 1)))
        vectors[mode] = np.ascontiguousarray(basis[:, :, -1])
        contracted = np.einsum("td,td...->t...", vectors[mode], np.moveaxis(rest, axis + 1, 1))
        rest = contracted
        remaining.remove(mode)
        if not remaining:
            break
    return [vectors[mode] for mode in range(n_modes)]


def _contract(R: Float, vectors: list[Float], free: int | None) -> Float:
    """R_t contracted with every vector but that of mode `free`."""
    out = R
    for mode in reversed(range(R.ndim - 1)):
        if mode != free:
            out = np.einsum("t...d,td->t...", np.moveaxis(out, mode + 1, -1), vectors[mode])
    return out
