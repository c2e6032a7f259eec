"""Higher-order SVD of patches: PCA in angle times PCA in space.

The angular basis holds the leading left singular vectors of the unfolding [X_1, ..., X_T], the
eigenvectors of sum_t X_t X_t^T, and the spatial one those of sum_t X_t^T X_t. Both are orthonormal, so the
codes of the separable lasso are soft-thresholded coefficients. Unlike the singular vectors of one patch
they must serve all patches at once.

De Lathauwer, De Moor and Vandewalle, "A multilinear singular value decomposition", SIAM Journal on Matrix
Analysis and Applications 21(4), 2000.
"""

import numpy as np

from septum.array import Float


def principal_axes(patches: Float, n_atoms: tuple[int | None, int | None] = (None, None)) -> list[Float]:
    """The bases (G, r_1) and (V, r_2) of patches (T, G, V), by decreasing energy; None keeps them all."""
    sides = []
    for mode, count in zip((1, 2), n_atoms, strict=True):
        other = 3 - mode
        scatter = np.tensordot(patches, patches, axes=([0, other], [0, other]))
        vectors = np.linalg.eigh(scatter)[1][:, ::-1]
        sides.append(np.ascontiguousarray(vectors[:, :count]))
    return sides
