"""Soft thresholding of the singular values of every sample (section 4.2 of the paper).

D_alpha(X) = U diag((sigma - alpha)_+) V^T minimises 1/2 ||X - Z||_F^2 + alpha ||Z||_*. Only the pairs
above alpha are needed: with U from the Gram matrix of the smaller side,
D_alpha(X) = U diag((1 - alpha / sigma)_+) U^T X. Three ways to U:

* all eigenvectors of all Gram matrices at once;
* larger samples in which sum sigma^4 / alpha^4 says that few values exceed alpha: their vectors only,
  which is faster below about an eighth of all;
* samples in which alpha is below a ten-thousandth of sigma_max, where the Gram loses digits: a
  singular value decomposition.

Which one a sample takes depends on that sample alone.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from septum.array import Float, chunks
from septum.spectral.gramian import energy, gram_of_rows, scaled_wide

GRAM_RANGE = 1e-4
FEWEST_ROWS = 48
LARGEST_SHARE = 1 / 3


def singular_values(matrices: Float, *, resolve: bool = True) -> Float:
    """All singular values of every sample, descending, in float64: `(n_samples, min(m, n))`.

    Without `resolve`, values below a ten-thousandth of the largest keep the Gram's error, which is
    1e-16 of sigma_max^2 in their squares: good enough for sums of squares, and faster.
    """
    count = min(matrices.shape[1:])
    out = np.zeros((matrices.shape[0], count))
    for part in chunks(matrices.shape[0], 8 * matrices[:1].size):
        block, scale = scaled_wide(matrices[part])
        if count == 1:
            out[part, 0] = scale * np.sqrt(energy(block))
            continue
        squares = np.linalg.eigvalsh(gram_of_rows(block))[:, ::-1]
        values = np.sqrt(np.maximum(squares, 0.0))
        blurred = np.flatnonzero(values[:, -1] < GRAM_RANGE * values[:, 0]) if resolve else np.zeros(0, np.intp)
        if blurred.size:
            values[blurred] = np.linalg.svd(block[blurred], compute_uv=False)
        out[part] = scale[:, None] * values
    return out


def shrink_singular_values(matrices: Float, alpha: float) -> tuple[Float, Float]:
    """D_alpha(X_t) for every sample, in float64, and the singular values above alpha (zeros after them)."""
    shrunk = np.zeros(matrices.shape, dtype=np.float64)
    values = np.zeros((matrices.shape[0], min(matrices.shape[1:])))
    flipped = matrices.shape[1] > matrices.shape[2]
    for part in chunks(matrices.shape[0], 8 * matrices[:1].size):
        block, scale = scaled_wide(matrices[part])
        target = shrunk[part].transpose(0, 2, 1) if flipped else shrunk[part]
        for rows, left, sigma in leading_vectors(block, alpha / scale):
            gain = np.maximum(1.0 - (alpha / scale[rows])[:, None] / np.where(sigma > 0, sigma, 1.0), 0.0)
            inner = np.matmul(left.transpose(0, 2, 1), block[rows])
            target[rows] = np.matmul(left * (scale[rows, None] * gain)[:, None, :], inner)
            values[part.start + rows, : sigma.shape[1]] = scale[rows, None] * np.where(gain > 0, sigma, 0.0)
    return shrunk, values


def leading_vectors(block: Float, alpha: Float) -> list[tuple[NDArray[np.intp], Float, Float]]:
    """Left singular vectors and values, descending, of wide samples that may exceed their alpha.

    Groups `(rows, left, sigma)`: in each, every value above alpha is there, and some below may be.
    """
    size = energy(block)
    alive = np.flatnonzero(size > alpha**2)
    if alive.size == 0:
        return []
    if block.shape[1] == 1:
        return [(alive, np.ones((alive.size, 1, 1)), np.sqrt(size[alive, None]))]
    gram = gram_of_rows(block[alive])
    few = (energy(gram) < LARGEST_SHARE * len(gram[0]) * alpha[alive] ** 4) & (len(gram[0]) >= FEWEST_ROWS)
    groups = [_some_vectors(block, t, g, alpha[t]) for t, g in zip(alive[few], gram[few], strict=True)]
    if not few.all():
        groups.append(_all_vectors(block, alive[~few], gram[~few], alpha))
    return [group for group in groups if group[2].size]


def _some_vectors(block: Float, t: int, gram: Float, alpha: float) -> tuple[NDArray[np.intp], Float, Float]:
    """The eigenvectors above alpha^2 only; there alpha is never far below sigma_max."""
    try:
        squares, vectors = linalg.eigh(gram, subset_by_value=(alpha**2, np.inf), driver="evx", check_finite=False)
    except linalg.LinAlgError:  # inverse iteration can fail on a cluster: then all of them
        squares, vectors = linalg.eigh(gram, check_finite=False)
        squares = np.maximum(squares, 0.0)
    return np.array([t]), np.ascontiguousarray(vectors[None, :, ::-1]), np.sqrt(squares[None, ::-1])


def _all_vectors(
    block: Float, rows: NDArray[np.intp], gram: Float, alpha: Float
) -> tuple[NDArray[np.intp], Float, Float]:
    squares, vectors = np.linalg.eigh(gram)
    sigma = np.sqrt(np.maximum(squares[:, ::-1], 0.0))
    left = np.ascontiguousarray(vectors[:, :, ::-1])
    blurred = np.flatnonzero(alpha[rows] < GRAM_RANGE * sigma[:, 0])
    if blurred.size:
        left[blurred], sigma[blurred], _ = np.linalg.svd(block[rows[blurred]], full_matrices=False)
    return rows, left, sigma
