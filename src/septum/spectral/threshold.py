"""Soft thresholding of the singular values of every sample (section 4.2 of the paper).

D_alpha(X) = U diag((sigma - alpha)_+) V^T minimises 1/2 ||X - Z||_F^2 + alpha ||Z||_*. Only the pairs
above alpha are needed: with U from the Gram matrix of the smaller side,
D_alpha(X) = U diag((1 - alpha / sigma)_+) U^T X. Ways to U:

* samples of few rows: all eigenvectors of all Gram matrices at once;
* larger samples, one by one: the inertia of X X^T - alpha^2 I tells how many values exceed alpha (Sylvester's
  law, one cheap factorisation); none, and the sample is done; few, and only their
  vectors are computed; else all;
* samples in which alpha is below a ten-thousandth of ||X||, where the Gram loses digits: a singular
  value decomposition.

Which one a sample takes depends on that sample alone.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from septum.array import Float, chunks
from septum.spectral.gramian import energy, gram_of_rows, scaled_wide

GRAM_RANGE = 1e-4
LARGE = 48
FEW = 1 / 12


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
    blurred = alpha[alive] < GRAM_RANGE * np.sqrt(size[alive])
    groups = [_decomposed(block, alive[blurred])] if blurred.any() else []
    clear = alive[~blurred]
    if clear.size and block.shape[1] >= LARGE:
        grams = gram_of_rows(block[clear])
        found = [_one_sample(t, gram, alpha[t]) for t, gram in zip(clear, grams, strict=True)]
        groups += [group for group in found if group[2].size]
    elif clear.size:
        groups.append(_all_vectors(clear, gram_of_rows(block[clear])))
    return groups


def count_above(gram: Float, alpha: float) -> int:
    """How many eigenvalues exceed alpha^2: the positive ones of L D L^T = X X^T - alpha^2 I."""
    shifted = gram - alpha**2 * np.eye(len(gram))
    factor, pivots, _ = linalg.lapack.dsytrf(shifted, overwrite_a=True)
    single = pivots > 0  # a pair of equal negative pivots is a 2 x 2 block with one eigenvalue of each sign
    return int(np.count_nonzero(np.diag(factor)[single] > 0) + np.count_nonzero(~single) // 2)


def _one_sample(t: int, gram: Float, alpha: float) -> tuple[NDArray[np.intp], Float, Float]:
    rows, count = np.array([t]), count_above(gram, alpha)
    if count == 0:
        return rows, np.zeros((1, len(gram), 0)), np.zeros((1, 0))
    if count <= FEW * len(gram):
        try:
            squares, vectors = linalg.eigh(
                gram, subset_by_value=(alpha**2, np.inf), driver="evx", check_finite=False
            )
            return rows, np.ascontiguousarray(vectors[None, :, ::-1]), np.sqrt(squares[None, ::-1])
        except linalg.LinAlgError:  # inverse iteration can fail on a cluster: then take all vectors
            count = len(gram)
    _, left, sigma = _all_vectors(rows, gram[None])
    kept = min(count + 1, len(gram))  # one more, should rounding have hidden a value at alpha
    return rows, np.ascontiguousarray(left[:, :, :kept]), sigma[:, :kept]


def _all_vectors(rows: NDArray[np.intp], grams: Float) -> tuple[NDArray[np.intp], Float, Float]:
    squares, vectors = np.linalg.eigh(grams)
    sigma = np.sqrt(np.maximum(squares[:, ::-1], 0.0))
    return rows, np.ascontiguousarray(vectors[:, :, ::-1]), sigma


def _decomposed(block: Float, rows: NDArray[np.intp]) -> tuple[NDArray[np.intp], Float, Float]:
    left, sigma, _ = np.linalg.svd(block[rows], full_matrices=False)
    return rows, left, sigma
