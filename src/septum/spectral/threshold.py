"""Soft thresholding of the singular values of every sample (section 4.2 of the paper).

D_alpha(X) = U diag((sigma - alpha)_+) V^T minimises 1/2 ||X - Z||_F^2 + alpha ||Z||_*. Only the pairs
above alpha are needed: with U from the Gram matrix of the smaller side,
D_alpha(X) = U diag((1 - alpha / sigma)_+) U^T X. Samples in which alpha is below a ten-thousandth of
sigma_max, where the Gram loses digits, take a full decomposition.
"""

import numpy as np

from septum.array import Float, chunks
from septum.spectral.gramian import as_wide, gram_of_rows, unit_scaled

GRAM_RANGE = 1e-4


def singular_values(matrices: Float, *, resolve: bool = True) -> Float:
    """All singular values of every sample, descending, in float64: `(n_samples, min(m, n))`.

    Without `resolve`, values below a ten-thousandth of the largest keep the Gram's error, which is
    1e-16 of sigma_max^2 in their squares: good enough for sums of squares, and faster.
    """
    count = min(matrices.shape[1:])
    out = np.zeros((matrices.shape[0], count))
    for part in chunks(matrices.shape[0], 8 * matrices[:1].size):
        block, scale = unit_scaled(as_wide(matrices[part]))
        squares = np.linalg.eigvalsh(gram_of_rows(block))[:, ::-1]
        values = np.sqrt(np.maximum(squares, 0.0))
        blurred = np.flatnonzero(values[:, -1] < GRAM_RANGE * values[:, 0]) if resolve else np.zeros(0, np.intp)
        if blurred.size:
            values[blurred] = np.linalg.svd(block[blurred], compute_uv=False)
        out[part] = scale[:, None] * values
    return out


def shrink_singular_values(matrices: Float, alpha: float) -> tuple[Float, Float]:
    """D_alpha(X_t) for every sample, in float64, and the singular values it was made from.

    Values that do not exceed alpha are returned as they came, which is accurate enough to count.
    """
    shrunk = np.zeros(matrices.shape, dtype=np.float64)
    values = np.zeros((matrices.shape[0], min(matrices.shape[1:])))
    flipped = matrices.shape[1] > matrices.shape[2]
    for part in chunks(matrices.shape[0], 8 * matrices[:1].size):
        block, scale = unit_scaled(as_wide(matrices[part]))
        result, spectrum = _shrink_wide(block, alpha / scale)
        result *= scale[:, None, None]
        shrunk[part] = result.transpose(0, 2, 1) if flipped else result
        values[part] = scale[:, None] * spectrum
    return shrunk, values


def _shrink_wide(block: Float, alpha: Float) -> tuple[Float, Float]:
    result = np.zeros_like(block)
    spectrum = np.zeros(block.shape[:2])
    energy = np.einsum("tij,tij->t", block, block)
    alive = np.flatnonzero(energy > alpha**2)
    spectrum[:, 0] = np.sqrt(energy)
    if alive.size == 0:
        return result, spectrum
    left, sigma = _left_vectors(block[alive], alpha[alive])
    spectrum[alive] = sigma
    kept = np.maximum(sigma - alpha[alive, None], 0.0)
    rank = int((kept > 0).sum(axis=1).max(initial=0))
    if rank:
        top = left[:, :, :rank]
        gain = kept[:, :rank] / np.where(sigma[:, :rank] > 0, sigma[:, :rank], 1.0)
        inner = np.matmul(top.transpose(0, 2, 1), block[alive])
        result[alive] = np.matmul(top * gain[:, None, :], inner)
    return result, spectrum


def _left_vectors(block: Float, alpha: Float) -> tuple[Float, Float]:
    """Left singular vectors and values, descending, of wide samples scaled to magnitude one."""
    squares, vectors = np.linalg.eigh(gram_of_rows(block))
    sigma = np.sqrt(np.maximum(squares[:, ::-1], 0.0))
    left = np.ascontiguousarray(vectors[:, :, ::-1])
    blurred = np.flatnonzero(alpha < GRAM_RANGE * sigma[:, 0])
    if blurred.size:
        left[blurred], sigma[blurred], _ = np.linalg.svd(block[blurred], full_matrices=False)
    return left, sigma
