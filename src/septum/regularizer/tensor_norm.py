"""The spectral norm of a tensor, max <R, a_1 o ... o a_n> over unit vectors, from both sides.

With at most two modes longer than one it is the largest singular value, exactly. For n >= 3 it is
NP-hard: the least spectral norm over all unfoldings bounds it above, and the higher-order power
iteration, started from the leading singular vectors of every mode's unfolding, bounds it below with
vectors that attain it.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from math import prod

import numpy as np

from septum.array import Float
from septum.spectral import bipartitions, largest_singular_values, unfold

# Free vectors of one mode, (n_samples, d), to the best values and the vectors that attain them.
Response = Callable[[Float], tuple[Float, Float]]


def matrix_rows(shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The row modes that make a sample of this shape a matrix, or None if it is truly a tensor."""
    long = [k for k, d in enumerate(shape) if d > 1]
    return None if len(long) > 2 else tuple(long[:1]) or (0,)


def upper_bound(R: Float) -> Float:
    """min over unfoldings of their largest singular value, for every sample."""
    values = [largest_singular_values(unfold(R, rows)) for rows in bipartitions(R.ndim - 1)]
    return reduce(np.minimum, values)


def power_iteration(R: Float, *, max_iter: int = 100, tol: float = 1e-12) -> tuple[Float, list[Float]]:
    """A lower bound for every sample and unit vectors `(n_samples, d_k)` that attain it."""
    R = R.astype(np.float64, copy=False)
    n_modes = R.ndim - 1
    starts = [nested_leading_vectors(R, first) for first in range(n_modes)]
    return best_ascent(R, starts, [unit_response] * n_modes, max_iter=max_iter, tol=tol)


def unit_response(free: Float) -> tuple[Float, Float]:
    """max <free, a> over ||a||_2 <= 1 and its a, for every sample; the first axis where free is zero."""
    norm = np.linalg.norm(free, axis=1)
    first = np.zeros_like(free)
    first[:, 0] = 1.0
    return norm, np.where(norm[:, None] > 0, free / np.where(norm > 0, norm, 1.0)[:, None], first)


def best_ascent(
    R: Float, starts: Sequence[list[Float]], responses: Sequence[Response], *, max_iter: int, tol: float
) -> tuple[Float, list[Float]]:
    """The best of several alternating ascents, sample by sample."""
    best, vectors = ascend(R, starts[0], responses, max_iter, tol)
    for start in starts[1:]:
        value, found = ascend(R, start, responses, max_iter, tol)
        better = (value > best)[:, None]
        vectors = [np.where(better, new, old) for new, old in zip(found, vectors, strict=True)]
        best = np.maximum(best, value)
    return best, vectors


def ascend(
    R: Float, start: list[Float], responses: Sequence[Response], max_iter: int, tol: float
) -> tuple[Float, list[Float]]:
    """Each mode's vector in turn set to the best response to the others, until the value settles.

    A sample leaves when its own value settles, so that its result does not depend on its neighbours.
    """
    vectors = [v.copy() for v in start]
    value = np.zeros(R.shape[0])
    active = np.arange(R.shape[0])
    for _ in range(max_iter):
        rest, current = R[active], [v[active] for v in vectors]
        for mode, respond in enumerate(responses):
            found, current[mode] = respond(contract(rest, current, mode))
        for vector, new in zip(vectors, current, strict=True):
            vector[active] = new
        settled = found - value[active] <= tol * found
        value[active] = found
        active = active[~settled]
        if active.size == 0:
            break
    return value, vectors


def nested_leading_vectors(R: Float, first: int) -> list[Float]:
    """Leading singular vector of one mode, contracted away, then of the next, and so on."""
    n_modes = R.ndim - 1
    order = [first, *[k for k in range(n_modes) if k != first]]
    vectors: dict[int, Float] = {}
    rest, remaining = R, list(range(n_modes))
    for mode in order:
        ahead = np.moveaxis(rest, remaining.index(mode) + 1, 1)
        vectors[mode] = _leading_left(ahead.reshape(*ahead.shape[:2], prod(ahead.shape[2:])))
        rest = np.einsum("td,td...->t...", vectors[mode], ahead)
        remaining.remove(mode)
    return [vectors[mode] for mode in range(n_modes)]


def _leading_left(matrices: Float) -> Float:
    """The leading left singular vector of every sample."""
    if matrices.shape[2] == 1:
        return unit_response(matrices[:, :, 0])[1]
    if matrices.shape[1] <= matrices.shape[2]:
        _, basis = np.linalg.eigh(np.matmul(matrices, matrices.transpose(0, 2, 1)))
        return np.ascontiguousarray(basis[:, :, -1])
    _, basis = np.linalg.eigh(np.matmul(matrices.transpose(0, 2, 1), matrices))
    return unit_response(np.einsum("tde,te->td", matrices, basis[:, :, -1]))[1]


def contract(R: Float, vectors: Sequence[Float], free: int) -> Float:
    """R_t contracted with every vector but that of mode `free`: (n_samples, d_free)."""
    out = R
    for mode in reversed(range(R.ndim - 1)):
        if mode != free:
            out = np.einsum("t...d,td->t...", np.moveaxis(out, mode + 1, -1), vectors[mode])
    return out
