"""A tensor sample as matrices: one for each way to split its modes into rows and columns.

The nuclear norm of any unfolding is at most the tensor nuclear norm, and its spectral norm is at
least the tensor's, so each bipartition of the modes bounds what is NP-hard to know when n >= 3. A
vector sample (n = 1) is one column; a matrix sample (n = 2) has itself as its only unfolding.
"""

from itertools import combinations
from math import prod

from septum.array import Float


def bipartitions(n_modes: int) -> list[tuple[int, ...]]:
    """The row modes of every unfolding, each unordered split listed once: 2^(n-1) - 1 of them."""
    if n_modes <= 2:
        return [(0,)]
    found = []
    for size in range(1, n_modes):
        for rows in combinations(range(n_modes), size):
            if 0 in rows:
                found.append(rows)
    return found


def unfold(X: Float, rows: tuple[int, ...]) -> Float:
    """Samples `(n_samples, d_1, ..., d_n)` as matrices `(n_samples, prod d_rows, prod of the rest)`."""
    n_modes = X.ndim - 1
    columns = [k for k in range(n_modes) if k not in rows]
    order = [0, *[k + 1 for k in rows], *[k + 1 for k in columns]]
    height = prod(X.shape[k + 1] for k in rows)
    width = prod(X.shape[k + 1] for k in columns)
    return X.transpose(order).reshape(X.shape[0], height, width)


def fold(matrices: Float, rows: tuple[int, ...], shape: tuple[int, ...]) -> Float:
    """The inverse of `unfold` for samples of the given shape (d_1, ..., d_n)."""
    columns = [k for k in range(len(shape)) if k not in rows]
    order = [*rows, *columns]
    stacked = matrices.reshape(matrices.shape[0], *[shape[k] for k in order])
    inverse = [0] * len(order)
    for position, k in enumerate(order):
        inverse[k] = position + 1
    return stacked.transpose([0, *inverse])
