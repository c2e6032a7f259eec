"""Slabs: what one atom of one mode multiplies in one sample.

For mode k, Z_t unfolded at k is A_k P_t with P_t = unfold_k(C_t x_{j != k} A_j), one row for each atom of
mode k. Codes are sparse, so few rows are nonzero: a slab is such a row, named by its sample and its
atom. With the codes fixed the problem is quadratic in A_k and its data are

    H = sum_t P_t P_t^T (r_k x r_k),   G = sum_t unfold_k(X_t) P_t^T (d_k x r_k),

the statistics of the dictionary update (section 5.1) that add up over samples.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numba
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from septum.array import Float
from septum.kronecker import Codes, code_indices, joint_columns, sizes


@dataclass(frozen=True)
class Slabs:
    """Row q belongs to sample `sample[q]` and atom `atom[q]`; `rows[q]` has length prod_{j != k} d_j.

    Rows are sorted by sample, then atom; `starts[t]:starts[t + 1]` are those of sample t; `weight[q]` is the
    l1 norm of the row's codes.
    """

    mode: int
    sample: NDArray[np.int64]
    atom: NDArray[np.int64]
    rows: Float
    weight: Float
    starts: NDArray[np.int64]


def slabs(codes: Codes, dictionaries: Sequence[Float], mode: int) -> Slabs:
    """The slabs of one mode."""
    r = sizes(dictionaries)
    others = [A for j, A in enumerate(dictionaries) if j != mode]
    sample, index = code_indices(codes, r)
    rest = np.zeros(codes.nnz, dtype=np.int64)
    for j, i in enumerate(index):
        if j != mode:
            rest = rest * r[j] + i
    keys, row = np.unique(sample * r[mode] + index[mode], return_inverse=True)
    if len(others) == 1:
        columns, used = others[0], rest
    else:
        distinct, used = np.unique(rest, return_inverse=True)
        columns = joint_columns(others, distinct) if others else np.ones((1, distinct.size))
    table = sparse.csr_array(
        (codes.data.astype(np.float64), (row, used)), shape=(keys.size, columns.shape[1])
    )
    owner, atom = np.divmod(keys, r[mode])
    return Slabs(
        mode,
        owner,
        atom,
        np.ascontiguousarray(table @ columns.T.astype(np.float64, copy=False)),
        np.bincount(row, weights=np.abs(codes.data), minlength=keys.size),
        np.searchsorted(owner, np.arange(codes.shape[0] + 1)),
    )


@dataclass
class Statistics:
    """G, H and the l1 norm of every atom's codes; sums over any samples with the same dictionaries."""

    G: Float
    H: Float
    weight: Float

    def __add__(self, other: "Statistics") -> "Statistics":
        return Statistics(self.G + other.G, self.H + other.H, self.weight + other.weight)

    def __mul__(self, factor: float) -> "Statistics":
        return Statistics(factor * self.G, factor * self.H, factor * self.weight)


def statistics(X: Float, codes: Codes, dictionaries: Sequence[Float], mode: int) -> Statistics:
    """G, H and code norms of one mode over the samples X (squared loss, everything observed)."""
    part = slabs(codes, dictionaries, mode)
    r = dictionaries[mode].shape[1]
    G, H = np.zeros((r, X.shape[mode + 1])), np.zeros((r, r))
    if part.sample.size:
        gathered = contract_rest(X, part)
        _add_rows(part.atom, gathered, G)
        _add_grams(part.starts, part.atom, part.rows, H)
    weight = np.bincount(part.atom, weights=part.weight, minlength=r)
    return Statistics(np.ascontiguousarray(G.T), H, weight)


def contract_rest(X: Float, part: Slabs) -> Float:
    """unfold_k(X_t) P_q for every slab q: an array (n_slabs, d_k)."""
    before = prod(X.shape[1 : part.mode + 1])
    after = prod(X.shape[part.mode + 2 :])
    folded = np.ascontiguousarray(X).reshape(X.shape[0], before, X.shape[part.mode + 1], after)
    out = np.zeros((part.sample.size, X.shape[part.mode + 1]))
    _contract(folded, part.sample, part.rows.reshape(-1, before, after), out)
    return out


@numba.njit(nogil=True, cache=True)
def _contract(X, sample, rows, out):
    """out[q, v] = sum_{b, a} X[sample[q], b, v, a] rows[q, b, a]."""
    before, after = rows.shape[1], rows.shape[2]
    size = X.shape[2]
    for q in range(sample.size):
        t = sample[q]
        for b in range(before):
            if after == 1:
                weight = rows[q, b, 0]
                if weight != 0.0:
                    for v in range(size):
                        out[q, v] += weight * X[t, b, v, 0]
            else:
                for v in range(size):
                    total = 0.0
                    for a in range(after):
                        total += X[t, b, v, a] * rows[q, b, a]
                    out[q, v] += total


@numba.njit(nogil=True, cache=True)
def _add_rows(atom, gathered, G):
    for q in range(atom.size):
        for v in range(gathered.shape[1]):
            G[atom[q], v] += gathered[q, v]


@numba.njit(nogil=True, cache=True)
def _add_grams(starts, atom, rows, H):
    """H[i, l] += <P_i, P_l> over pairs of slabs of one sample."""
    for t in range(starts.size - 1):
        for p in range(starts[t], starts[t + 1]):
            for q in range(starts[t], p + 1):
                total = 0.0
                for v in range(rows.shape[1]):
                    total += rows[p, v] * rows[q, v]
                H[atom[p], atom[q]] += total
                if p != q:
                    H[atom[q], atom[p]] += total
