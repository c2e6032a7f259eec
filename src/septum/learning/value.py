"""Reconstructions and gains from sparse codes, compiled: what the solver asks for after every step.

The codes of a sample are walked in order; those that share all but their last index make one partial row
P = sum c a_n, which then meets the joint atom of the other modes once. The gain of a sample,
f(0) - f = <X, Z> - 1/2 ||Z||^2 - alpha ||C||_1, is summed without ever subtracting two large numbers.
"""

from collections.abc import Sequence

import numba
import numpy as np

from septum.array import Float
from septum.kronecker import Codes, joint_columns, sizes


def reconstruct(codes: Codes, dictionaries: Sequence[Float]) -> Float:
    """Z_t for every sample, in float64: the same as `kronecker.multiply_sparse`."""
    heads, head, tail, last = _split(codes, dictionaries)
    out = np.zeros((codes.shape[0], heads.shape[1], last.shape[1]))
    _reconstruct(codes.indptr, head, tail, codes.data.astype(np.float64, copy=False), heads, last, out)
    return out.reshape(codes.shape[0], *[A.shape[0] for A in dictionaries])


def plain_gain(X: Float, codes: Codes, dictionaries: Sequence[Float], alpha: float) -> Float:
    """f(0) - f for every sample: squared loss, everything observed, unit atoms."""
    heads, head, tail, last = _split(codes, dictionaries)
    out = np.zeros(codes.shape[0])
    folded = X.reshape(X.shape[0], heads.shape[1], last.shape[1])
    data = codes.data.astype(np.float64, copy=False)
    _gain(folded, codes.indptr, head, tail, data, heads, last, float(alpha), out)
    return out


def _split(codes: Codes, dictionaries: Sequence[Float]) -> tuple[Float, Float, Float, Float]:
    """Joint atoms of all modes but the last as rows, each code's row and last index, the last atoms as rows."""
    if not codes.has_sorted_indices:
        codes.sort_indices()
    r = sizes(dictionaries)
    head, tail = np.divmod(codes.indices.astype(np.int64), r[-1])
    if len(r) == 1:
        heads = np.ones((1, 1))
    elif len(r) == 2:
        heads = dictionaries[0].T
    else:
        distinct, head = np.unique(head, return_inverse=True)
        heads = joint_columns(dictionaries[:-1], distinct).T
    last = np.ascontiguousarray(dictionaries[-1].T, dtype=np.float64)
    return np.ascontiguousarray(heads, dtype=np.float64), head, tail, last


@numba.njit(nogil=True, cache=True)
def _add_sample(begin, end, head, tail, data, heads, last, partial, Z):
    width = last.shape[1]
    a = begin
    while a < end:
        row = head[a]
        partial[:] = 0.0
        while a < end and head[a] == row:
            for v in range(width):
                partial[v] += data[a] * last[tail[a], v]
            a += 1
        for g in range(heads.shape[1]):
            weight = heads[row, g]
            for v in range(width):
                Z[g, v] += weight * partial[v]


@numba.njit(nogil=True, cache=True)
def _reconstruct(pointer, head, tail, data, heads, last, out):
    partial = np.empty(last.shape[1])
    for t in range(out.shape[0]):
        _add_sample(pointer[t], pointer[t + 1], head, tail, data, heads, last, partial, out[t])


@numba.njit(nogil=True, cache=True)
def _gain(X, pointer, head, tail, data, heads, last, alpha, out):
    partial = np.empty(last.shape[1])
    Z = np.empty((heads.shape[1], last.shape[1]))
    for t in range(out.shape[0]):
        if pointer[t] == pointer[t + 1]:
            continue
        Z[:] = 0.0
        _add_sample(pointer[t], pointer[t + 1], head, tail, data, heads, last, partial, Z)
        total = 0.0
        for g in range(Z.shape[0]):
            for v in range(Z.shape[1]):
                total += Z[g, v] * (X[t, g, v] - 0.5 * Z[g, v])
        paid = 0.0
        for a in range(pointer[t], pointer[t + 1]):
            paid += abs(data[a])
        out[t] = total - alpha * paid
