"""Singular values through the Gram matrix of the smaller side: the one place where it is formed.

For X_t of shape m x n with m <= n, the eigenvalues of X_t X_t^T are the squares of the singular
values. Forming them costs an m x m symmetric eigenproblem in place of an m x n decomposition. A
singular value s comes out with an error of about eps s_max^2 / s, so values far below the largest
are not resolved; `septum.spectral.threshold` goes back to a full decomposition where that matters.

Everything is computed in float64. Samples of extreme magnitude are scaled first, so that squares
neither overflow nor vanish; others are used as they are, without a copy.
"""

import numpy as np

from septum.array import Float

SAFE_RANGE = (1e-60, 1e60)


def scaled_wide(matrices: Float) -> tuple[Float, Float]:
    """Samples with no more rows than columns, in float64, and the factor each was divided by.

    The result may share memory with the input and is only to be read.
    """
    flat = matrices.reshape(matrices.shape[0], -1)
    largest = np.maximum(flat.max(axis=1, initial=0.0), -flat.min(axis=1, initial=0.0)).astype(np.float64)
    scale = np.where((largest > SAFE_RANGE[0]) & (largest < SAFE_RANGE[1]) | (largest == 0), 1.0, largest)
    block = matrices.astype(np.float64, copy=False)
    if (scale != 1.0).any():
        block = block / scale[:, None, None]
    return (block if block.shape[1] <= block.shape[2] else block.transpose(0, 2, 1)), scale


def gram_of_rows(wide: Float) -> Float:
    """X_t X_t^T for every sample."""
    return np.matmul(wide, wide.transpose(0, 2, 1))


def energy(matrices: Float) -> Float:
    """||X_t||_F^2 for every sample."""
    if matrices.transpose(0, 2, 1).flags.c_contiguous:
        matrices = matrices.transpose(0, 2, 1)
    flat = matrices.reshape(matrices.shape[0], -1)
    return np.einsum("ti,ti->t", flat, flat)
