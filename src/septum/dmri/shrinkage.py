"""The first estimate of a patch: its singular components above the noise edge.

The contrasts of a patch, voxels x volumes, are signal of low rank plus unit noise. Components whose singular
value is above the edge (`noise.edge`, for the voxels that are inside) are kept as they are, the rest is
dropped: with a second pass to come, that is better than to shrink, which takes contrast from the fibres.
Estimates of overlapping patches are averaged with weight 1 / (1 + rank), the variance that each has.
"""

import numpy as np

from septum.coding.compiled import compiled
from septum.dmri.patch import count_inside, gather

LEAST_INSIDE = 2


@compiled
def edge_squared(n_rows, n_columns):
    """The square of `noise.edge` at 1%, compiled."""
    a, b = np.sqrt(max(n_rows, 1) - 0.5), np.sqrt(max(n_columns, 1) - 0.5)
    return (a + b) ** 2 + (a + b) * (1 / a + 1 / b) ** (1.0 / 3.0) * 2.02


@compiled
def leading(patch, limit, most):
    """An orthonormal basis, as columns, of the rows' components with squared singular value above `limit`."""
    rows, columns = patch.shape
    if rows < columns:
        squares, left = np.linalg.eigh(np.dot(patch, patch.T))
        n = rows
    else:
        squares, left = np.linalg.eigh(np.dot(patch.T, patch))
        n = columns
    rank = 0
    while rank < min(n, most) and squares[n - 1 - rank] > limit:
        rank += 1
    kept = np.ascontiguousarray(left[:, n - rank :])
    if rows >= columns:
        return kept
    basis = np.dot(patch.T, kept)
    for k in range(rank):
        scale = np.float32(1.0 / np.sqrt(squares[n - rank + k]))
        for v in range(columns):
            basis[v, k] *= scale
    return basis


@compiled
def shrink_layer(contrast, inside, xs, ys, z, shape, n_free, share, total, weight, extra, rank):
    """Threshold every patch of one layer, adding share times the estimate; rank (n_x, n_y) is -1 where all is outside."""
    n_voxels, n = shape[0] * shape[1] * shape[2], contrast.shape[3]
    patch = np.empty((n_voxels, n), np.float32)
    for i in range(len(xs)):
        for j in range(len(ys)):
            x, y = xs[i], ys[j]
            count = count_inside(inside, x, y, z, shape)
            rank[i, j] = -1
            if count == 0:
                continue
            gather(contrast, x, y, z, shape, patch)
            basis = leading(patch, edge_squared(count, n_free), n)
            rank[i, j] = basis.shape[1]
            w = np.float32(1.0 / (1.0 + rank[i, j]))
            estimate = np.dot(np.dot(patch, basis), basis.T)
            row = 0
            for p in range(x, x + shape[0]):
                for q in range(y, y + shape[1]):
                    for r in range(z, z + shape[2]):
                        for v in range(n):
                            total[p, q, r, v] += share * w * estimate[row, v]
                        weight[p, q, r] += w
                        extra[p, q, r] += w * rank[i, j]
                        row += 1
