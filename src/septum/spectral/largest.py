"""The largest singular value of every sample, and the largest of them all.

Condition 2 of corollary 2 asks for max_t sigma_max(W_t). One value for each sample costs the
eigenvalues of a small Gram matrix. For the maximum alone, two cheap bounds spare most samples:
the Frobenius norm, then (trace of the Gram squared)^(1/4), both at least sigma_max; only samples
whose bound exceeds the best value found so far go on.
"""

import numpy as np

from septum.array import Float, chunks
from septum.spectral.gramian import as_wide, gram_of_rows, unit_scaled


def largest_singular_values(matrices: Float) -> Float:
    """sigma_max of every sample of `(n_samples, m, n)`, in float64."""
    out = np.zeros(matrices.shape[0])
    for part in chunks(matrices.shape[0], 8 * matrices[:1].size):
        block, scale = unit_scaled(as_wide(matrices[part]))
        if block.shape[1] == 1:
            largest = np.einsum("tij,tij->t", block, block)
        else:
            largest = np.linalg.eigvalsh(gram_of_rows(block))[:, -1]
        out[part] = scale * np.sqrt(np.maximum(largest, 0.0))
    return out


def max_singular_value(matrices: Float, *, above: float = 0.0) -> tuple[float, int]:
    """max(above, max_t sigma_max(X_t)) and its sample, or -1 when no sample exceeds `above`."""
    best, where = above, -1
    for part in chunks(matrices.shape[0], 8 * matrices[:1].size):
        block, scale = unit_scaled(as_wide(matrices[part]))
        frobenius = scale * np.sqrt(np.einsum("tij,tij->t", block, block))
        alive = np.flatnonzero(frobenius > best)
        if alive.size == 0:
            continue
        gram = gram_of_rows(block[alive])
        fourth = np.einsum("tij,tij->t", gram, gram)
        bound = scale[alive] * fourth**0.25
        order = np.argsort(-bound, kind="stable")
        step = 1
        start = 0
        while start < order.size and bound[order[start]] > best:
            group = order[start : start + step]
            values = scale[alive[group]] * np.sqrt(np.maximum(np.linalg.eigvalsh(gram[group])[:, -1], 0.0))
            winner = int(np.argmax(values))
            if values[winner] > best:
                best, where = float(values[winner]), int(part.start + alive[group[winner]])
            start += group.size
            step = min(4 * step, 256)
    return best, where
