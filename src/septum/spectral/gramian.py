"""Singular values through the Gram matrix of the smaller side: the one place where it is formed.

For X_t of shape m x n with m <= n, the eigenvalues of X_t X_t^T are the squares of the singular
values. Forming them costs an m x m symmetric eigenproblem in place of an m x n decomposition. A
singular value s comes out with an error of about eps s_max^2 / s, so values far below the largest
are not resolved; `septum.spectral.threshold` goes back to a full decomposition where that matters.

Samples are scaled by their largest magnitude first, so that squares neither overflow nor vanish.
"""

import numpy as np

from septum.array import Float


def as_wide(matrices: Float) -> Float:
    """The samples transposed if needed, so that each has no more rows than columns."""
    return matrices if matrices.shape[1] <= matrices.shape[2] else matrices.transpose(0, 2, 1)


def unit_scaled(matrices: Float) -> tuple[Float, Float]:
    """Samples divided by their largest magnitude, in float64, and these magnitudes (1 where zero)."""
    scale = np.abs(matrices).max(axis=(1, 2), initial=0.0).astype(np.float64)
    scale[scale == 0] = 1.0
    return matrices / scale[:, None, None], scale


def gram_of_rows(wide: Float) -> Float:
    """X_t X_t^T for every sample."""
    return np.matmul(wide, wide.transpose(0, 2, 1))
