"""The dictionaries as the compiled kernels want them, and the multilinear maps of one sample.

A `Grid` holds, for every mode, A_k transposed, A_k and the Gram A_k^T A_k in three flat float64 buffers, so
that one compiled kernel serves any number of modes. A joint atom is named by its flat index, the row-major
flattening of (i_1, ..., i_n); an entry of the joint Gram is the product of the modes' Gram entries, so the
(r_1 ... r_n)^2 matrix is never made.

Every product here is one sample's own (a BLAS call of a fixed shape), so a result depends on its sample
alone: not on the neighbours, nor on how samples are shared among chunks and threads.
"""

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from septum.array import Float
from septum.coding.compiled import compiled

F64 = NDArray[np.float64]
Index = NDArray[np.int64]


class Grid(NamedTuple):
    """Dictionaries of n modes: sizes d_k, ranks r_k and the flat buffers with the start of each mode."""

    sizes: Index
    ranks: Index
    atoms: F64  # A_k, (d_k, r_k)
    turned: F64  # A_k^T, (r_k, d_k)
    atom_start: Index
    grams: F64  # A_k^T A_k, (r_k, r_k)
    gram_start: Index
    forward: Index  # the cheapest order of the modes when correlating
    lipschitz: float  # the largest eigenvalue of the joint Gram
    coherence: float  # the largest |cosine| between two joint atoms


def make_grid(dictionaries: Sequence[Float]) -> Grid:
    """The grid of (d_k, r_k) dictionaries."""
    matrices = [np.ascontiguousarray(A, dtype=np.float64) for A in dictionaries]
    grams = [A.T @ A for A in matrices]
    top = [np.linalg.eigvalsh(G)[-1] if G.size else 0.0 for G in grams]
    return Grid(
        sizes=np.array([A.shape[0] for A in matrices], dtype=np.int64),
        ranks=np.array([A.shape[1] for A in matrices], dtype=np.int64),
        atoms=np.concatenate([A.ravel() for A in matrices]),
        turned=np.concatenate([A.T.ravel() for A in matrices]),
        atom_start=_starts([A.size for A in matrices]),
        grams=np.concatenate([G.ravel() for G in grams]),
        gram_start=_starts([G.size for G in grams]),
        forward=np.argsort([A.shape[1] / A.shape[0] for A in matrices], kind="stable").astype(np.int64),
        lipschitz=float(prod(top)) * (1 + 1e-12),
        coherence=max(_coherence(G) for G in grams),
    )


def _coherence(gram: F64) -> float:
    norm = np.sqrt(np.diag(gram))
    used = norm > 0
    cosine = np.abs(gram[np.ix_(used, used)]) / np.multiply.outer(norm[used], norm[used])
    np.fill_diagonal(cosine, 0.0)
    return float(cosine.max(initial=0.0))


def _starts(lengths: Sequence[int]) -> Index:
    return np.cumsum([0, *lengths[:-1]]).astype(np.int64)


@compiled
def apply(matrix, tensor, lead, trail, out):
    """out[p] = matrix @ tensor[p] for p < lead, on flat (lead, columns, trail) and (lead, rows, trail)."""
    rows, columns = matrix.shape
    if trail == 1:
        np.dot(
            tensor[: lead * columns].reshape(lead, columns), matrix.T, out[: lead * rows].reshape(lead, rows)
        )
        return
    for p in range(lead):
        source = tensor[p * columns * trail : (p + 1) * columns * trail].reshape(columns, trail)
        np.dot(matrix, source, out[p * rows * trail : (p + 1) * rows * trail].reshape(rows, trail))


@compiled
def product(shape, first, last):
    """shape[first] * ... * shape[last - 1]."""
    total = 1
    for k in range(first, last):
        total *= shape[k]
    return total


@compiled
def partial_size(grid):
    """The largest array met on the way between a sample and its codes, in either direction."""
    n = len(grid.sizes)
    shape = grid.sizes.copy()
    largest = max(product(grid.sizes, 0, n), product(grid.ranks, 0, n))
    for k in grid.forward:
        shape[k] = grid.ranks[k]
        largest = max(largest, product(shape, 0, n))
    return largest


@compiled
def correlate(grid, sample, first, second, out):
    """out = sample x_1 A_1^T ... x_n A_n^T, through two buffers of `partial_size(grid)`."""
    n = len(grid.sizes)
    shape = grid.sizes.copy()
    source = sample
    for step in range(n):
        k = grid.forward[step]
        d, r = grid.sizes[k], grid.ranks[k]
        start = grid.atom_start[k]
        target = out if step == n - 1 else (first if step % 2 == 0 else second)
        matrix = grid.turned[start : start + r * d].reshape(r, d)
        apply(matrix, source, product(shape, 0, k), product(shape, k + 1, n), target)
        shape[k] = r
        source = target


@compiled
def multiply(grid, codes, first, second, out):
    """out = codes x_1 A_1 ... x_n A_n for the dense codes of one sample."""
    n = len(grid.sizes)
    shape = grid.ranks.copy()
    source = codes
    for step in range(n):
        k = grid.forward[n - 1 - step]
        d, r = grid.sizes[k], grid.ranks[k]
        start = grid.atom_start[k]
        target = out if step == n - 1 else (first if step % 2 == 0 else second)
        matrix = grid.atoms[start : start + r * d].reshape(d, r)
        apply(matrix, source, product(shape, 0, k), product(shape, k + 1, n), target)
        shape[k] = d
        source = target


@compiled
def dense_image(grid, codes, first, second, out):
    """out = codes x_1 G_1 ... x_n G_n, the joint Gram applied to the dense codes of one sample."""
    n = len(grid.ranks)
    source = codes
    for step in range(n):
        k = n - 1 - step
        r = grid.ranks[k]
        start = grid.gram_start[k]
        target = out if step == n - 1 else (first if step % 2 == 0 else second)
        matrix = grid.grams[start : start + r * r].reshape(r, r)
        apply(matrix, source, product(grid.ranks, 0, k), product(grid.ranks, k + 1, n), target)
        source = target


@compiled
def step_cost(grid):
    """Multiply-adds of `dense_image`."""
    n = len(grid.ranks)
    total = 0
    for k in range(n):
        total += grid.ranks[k]
    return float(total) * product(grid.ranks, 0, n)


@compiled
def sparse_image(grid, index, value, count, slot, first, second, out):
    """The joint Gram applied to `count` nonzero codes: only the nonzero rows of C meet the last mode's Gram.

    `slot` has one entry, -1, for each row (i_1, ..., i_{n-1}) of the codes; it is left as it was found.
    For n = 2 only the nonzero rows of C enter the first mode's product too.
    """
    n = len(grid.ranks)
    width = grid.ranks[n - 1]
    height = product(grid.ranks, 0, n - 1)
    last = grid.grams[grid.gram_start[n - 1] : grid.gram_start[n - 1] + width * width].reshape(width, width)
    if n != 2:
        first[: height * width] = 0.0
    used = 0
    for a in range(count):
        row = index[a] // width
        if n != 2:
            slot[row] = row
        elif slot[row] < 0:
            slot[row] = used
            first[used * width : (used + 1) * width] = 0.0
            used += 1
        target = first[slot[row] * width : (slot[row] + 1) * width]
        source = last[index[a] % width]
        scale = value[a]
        for j in range(width):
            target[j] += scale * source[j]
    if n == 1:
        out[:width] = first[:width]
    elif n == 2:
        gram = grid.grams[: height * height].reshape(height, height)
        for a in range(count):
            row = index[a] // width
            if slot[row] >= 0:
                second[slot[row] * height : (slot[row] + 1) * height] = gram[row]
                slot[row] = -1
        left = second[: used * height].reshape(used, height)
        np.dot(left.T, first[: used * width].reshape(used, width), out.reshape(height, width))
    else:
        _leading_grams(grid, first, second, out)
    for a in range(count):
        slot[index[a] // width] = -1


@compiled
def _leading_grams(grid, first, second, out):
    n = len(grid.ranks)
    source = first
    for step in range(n - 1):
        k = n - 2 - step
        r = grid.ranks[k]
        start = grid.gram_start[k]
        target = out if step == n - 2 else (second if step % 2 == 0 else first)
        matrix = grid.grams[start : start + r * r].reshape(r, r)
        apply(matrix, source, product(grid.ranks, 0, k), product(grid.ranks, k + 1, n), target)
        source = target


@compiled
def gram_diagonal(grid, index):
    """The squared norm of a joint atom."""
    total = 1.0
    rest = index
    for step in range(len(grid.ranks)):
        k = len(grid.ranks) - 1 - step
        r = grid.ranks[k]
        i = rest % r
        rest //= r
        total *= grid.grams[grid.gram_start[k] + i * r + i]
    return total


@compiled
def extend_gram(grid, modes, old, size, out):
    """Rows and columns old .. size - 1 of out[a, b], the joint Gram of atoms with indices `modes` along each mode."""
    n = len(grid.ranks)
    if n == 2:
        _pair_gram(grid.grams, grid.ranks, grid.gram_start, modes, old, size, out)
        return
    for a in range(size):
        first = old if a < old else 0
        out[a, first:size] = 1.0
        for k in range(n):
            before = grid.gram_start[k] + modes[k, a] * grid.ranks[k]
            for b in range(first, size):
                out[a, b] *= grid.grams[before + modes[k, b]]


@compiled
def _pair_gram(grams, ranks, starts, modes, old, size, out):
    for a in range(size):
        above = modes[0, a] * ranks[0]
        beside = starts[1] + modes[1, a] * ranks[1]
        for b in range(old if a < old else 0, size):
            out[a, b] = grams[above + modes[0, b]] * grams[beside + modes[1, b]]


@compiled
def cosine(grid, a, b):
    """|<atom a, atom b>| over the product of their norms, for flat indices of nonzero joint atoms."""
    inner, first, second = 1.0, 1.0, 1.0
    for step in range(len(grid.ranks)):
        k = len(grid.ranks) - 1 - step
        r, start = grid.ranks[k], grid.gram_start[k]
        i, j = a % r, b % r
        a //= r
        b //= r
        inner *= grid.grams[start + i * r + j]
        first *= grid.grams[start + i * r + i]
        second *= grid.grams[start + j * r + j]
    return abs(inner) / (first * second) ** 0.5
