"""The largest singular value of every sample, the largest of them all, and which exceed a level.

Condition 2 of corollary 2 asks for max_t sigma_max(W_t). One value for each sample costs the
eigenvalues of a small Gram matrix. For the maximum alone, or for a comparison with a level, two cheap
bounds spare most samples: the Frobenius norm, then (trace of the Gram squared)^(1/4), both at least
sigma_max; only samples that these leave in doubt go on.
"""

import numpy as np
from numpy.typing import NDArray

from septum.array import Float, chunks
from septum.spectral.gramian import energy, gram_of_rows, scaled_wide


def largest_singular_values(matrices: Float) -> Float:
    """sigma_max of every sample of `(n_samples, m, n)`, in float64."""
    out = np.zeros(matrices.shape[0])
    for part in chunks(matrices.shape[0], 8 * matrices[:1].size):
        block, scale = scaled_wide(matrices[part])
        out[part] = scale * (
            np.sqrt(energy(block)) if block.shape[1] == 1 else _root_of_largest(gram_of_rows(block))
        )
    return out


def max_singular_value(matrices: Float, *, above: float = 0.0) -> tuple[float, int]:
    """max(above, max_t sigma_max(X_t)) and its sample, or -1 when no sample exceeds `above`."""
    best, where = above, -1
    for part in chunks(matrices.shape[0], 8 * matrices[:1].size):
        block, scale = scaled_wide(matrices[part])
        alive = np.flatnonzero(scale * np.sqrt(energy(block)) > best)
        if alive.size == 0:
            continue
        gram = gram_of_rows(_rows(block, alive))
        bound = scale[alive] * energy(gram) ** 0.25
        order = np.argsort(-bound, kind="stable")
        start, step = 0, 1
        while start < order.size and bound[order[start]] > best:
            group = order[start : start + step]
            values = scale[alive[group]] * _root_of_largest(gram[group])
            winner = int(np.argmax(values))
            if values[winner] > best:
                best, where = float(values[winner]), int(part.start + alive[group[winner]])
            start += group.size
            step *= 8
    return best, where


def exceeds(matrices: Float, level: float) -> NDArray[np.bool_]:
    """Whether sigma_max(X_t) > level, for every sample."""
    out = np.zeros(matrices.shape[0], dtype=bool)
    for part in chunks(matrices.shape[0], 8 * matrices[:1].size):
        block, scale = scaled_wide(matrices[part])
        alive = np.flatnonzero(scale * np.sqrt(energy(block)) > level)
        if alive.size == 0:
            continue
        gram = gram_of_rows(_rows(block, alive))
        doubt = scale[alive] * energy(gram) ** 0.25 > level
        alive, gram = alive[doubt], gram[doubt]
        out[part.start + alive] = scale[alive] * _root_of_largest(gram) > level
    return out


def _rows(block: Float, rows: NDArray[np.intp]) -> Float:
    return block if rows.size == len(block) else block[rows]


def _root_of_largest(gram: Float) -> Float:
    """The root of the largest eigenvalue of every Gram matrix."""
    return np.sqrt(np.maximum(np.linalg.eigvalsh(gram)[:, -1], 0.0))
