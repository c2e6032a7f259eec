"""Multilinear products with one dictionary for each mode; no Kronecker product is ever formed.

For codes C_t of shape (r_1, ..., r_n) and dictionaries A_k of shape (d_k, r_k):

    multiply:   Z_t = C_t x_1 A_1 ... x_n A_n            (n = 2: A_1 C_t A_2^T, equation 5 of the paper)
    correlate:  B_t = R_t x_1 A_1^T ... x_n A_n^T        (the adjoint of multiply)

Codes are either dense `(n_samples, r_1, ..., r_n)` or, inside the library, a SciPy CSR array of shape
`(n_samples, r_1 * ... * r_n)` whose columns are the row-major flattening of `(r_1, ..., r_n)`.
"""

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from septum.array import Float

# SciPy ships no types: a csr_array to a reader, anything to a type checker.
if TYPE_CHECKING:
    Codes: TypeAlias = Any
else:
    Codes = sparse.csr_array


def mode_product(X: Float, matrix: Float, mode: int) -> Float:
    """X x_mode matrix: contract axis `mode + 1` of samples X with the columns of `matrix`."""
    axis = mode + 1
    before, after = X.shape[:axis], X.shape[axis + 1 :]
    if not after:
        return X @ matrix.T
    folded = X.reshape(prod(before), X.shape[axis], prod(after))
    return np.matmul(matrix, folded).reshape(*before, matrix.shape[0], *after)


def multiply(codes: Float, dictionaries: Sequence[Float]) -> Float:
    """Reconstructions Z_t from dense codes `(n_samples, r_1, ..., r_n)`."""
    for mode in _cheapest_order([A.shape for A in dictionaries]):
        codes = mode_product(codes, dictionaries[mode], mode)
    return codes


def correlate(residual: Float, dictionaries: Sequence[Float]) -> Float:
    """Correlations <R_t, a_i1 o ... o a_in> of samples with every joint atom."""
    for mode in _cheapest_order([A.T.shape for A in dictionaries]):
        residual = mode_product(residual, dictionaries[mode].T, mode)
    return residual


def _cheapest_order(shapes: Sequence[tuple[int, ...]]) -> list[int]:
    """Modes that shrink the array most come first; ties keep their order."""
    return sorted(range(len(shapes)), key=lambda k: shapes[k][0] / max(1, shapes[k][1]))


def atom_norms(dictionaries: Sequence[Float]) -> list[Float]:
    """The l2 norm of every atom, in float64."""
    return [np.linalg.norm(A.astype(np.float64, copy=False), axis=0) for A in dictionaries]


def gram(dictionaries: Sequence[Float]) -> list[Float]:
    """A_k^T A_k for each mode; the Gram of the joint atoms is their Kronecker product."""
    return [A.T @ A for A in dictionaries]


def sizes(dictionaries: Sequence[Float]) -> tuple[int, ...]:
    """(r_1, ..., r_n)."""
    return tuple(A.shape[1] for A in dictionaries)


def explicit(dictionaries: Sequence[Float]) -> Float:
    """The joint dictionary (d_1 ... d_n, r_1 ... r_n) itself: for small checks only."""
    joint: Float = np.ones((1, 1))
    for A in dictionaries:
        joint = np.kron(joint, A)
    return joint


# --- sparse codes -------------------------------------------------------------------------------


def flatten_codes(codes: Any, shape: tuple[int, ...], dtype: np.dtype) -> Codes:
    """Dense or sparse codes of shape `(n_samples, r_1, ..., r_n)` as the internal CSR array."""
    flat = (shape[0], prod(shape[1:]))
    if sparse.issparse(codes):
        csr = sparse.coo_array(codes).reshape(flat).tocsr()
    else:
        csr = sparse.csr_array(np.asarray(codes).reshape(flat))
    csr = csr.astype(dtype, copy=False)
    csr.sum_duplicates()
    if (csr.data == 0).any():
        csr = csr.copy()
        csr.eliminate_zeros()
    return csr


def unflatten_codes(codes: Codes, r: tuple[int, ...]) -> sparse.coo_array:
    """The public form: a COO array of shape `(n_samples, r_1, ..., r_n)`."""
    return codes.tocoo().reshape((codes.shape[0], *r))


def code_indices(codes: Codes, r: tuple[int, ...]) -> tuple[NDArray[np.intp], list[NDArray[np.intp]]]:
    """The sample of every stored code and its index along each mode."""
    sample = np.repeat(np.arange(codes.shape[0]), np.diff(codes.indptr))
    return sample, [np.asarray(i) for i in np.unravel_index(codes.indices.astype(np.intp), r)]


def multiply_sparse(codes: Codes, dictionaries: Sequence[Float], *, dtype: np.dtype | None = None) -> Float:
    """Reconstructions Z_t from CSR codes, touching only the rows of C_t that hold a nonzero.

    With the codes seen as a matrix of rows (t, i_1, ..., i_{n-1}), each nonzero row times A_n^T is
    one row of a partial product; the other modes act on these rows sample by sample.
    """
    kind = np.result_type(codes.dtype, *[A.dtype for A in dictionaries]) if dtype is None else dtype
    dictionaries = [A.astype(kind, copy=False) for A in dictionaries]
    r = sizes(dictionaries)
    n_samples, last = codes.shape[0], dictionaries[-1]
    out = np.zeros((n_samples, *[A.shape[0] for A in dictionaries]), dtype=kind)
    if codes.nnz == 0:
        return out
    if len(dictionaries) == 1:
        return np.ascontiguousarray(codes.astype(kind, copy=False) @ last.T)
    sample = np.repeat(np.arange(n_samples, dtype=np.int64), np.diff(codes.indptr))
    head, tail = np.divmod(codes.indices.astype(np.int64), r[-1])
    keys, row = np.unique(sample * prod(r[:-1]) + head, return_inverse=True)
    rows = sparse.csr_array((codes.data.astype(kind, copy=False), (row, tail)), shape=(keys.size, r[-1]))
    partial = rows @ last.T
    owner, head = np.divmod(keys, prod(r[:-1]))
    columns = joint_columns(dictionaries[:-1], head)
    starts = np.searchsorted(owner, np.arange(n_samples + 1))
    flat = out.reshape(n_samples, columns.shape[0], last.shape[0])
    for t in np.unique(owner):
        rows_of_t = slice(starts[t], starts[t + 1])
        np.matmul(columns[:, rows_of_t], partial[rows_of_t], out=flat[t])
    return out


def joint_columns(dictionaries: Sequence[Float], index: NDArray[np.integer]) -> Float:
    """The joint atoms of the given modes named by flat indices: (d_1 ... d_m, len(index))."""
    parts = np.unravel_index(index, sizes(dictionaries))
    joint = dictionaries[0][:, parts[0]]
    for A, part in zip(dictionaries[1:], parts[1:], strict=True):
        joint = (joint[:, None, :] * A[None, :, part]).reshape(joint.shape[0] * A.shape[0], index.size)
    return joint


def correlate_at(
    residual: Float, dictionaries: Sequence[Float], sample: NDArray[np.integer], index: Sequence[NDArray]
) -> Float:
    """<R_t, a_i1 o ... o a_in> at the named (t, i_1, ..., i_n) only."""
    out = np.empty(len(sample), dtype=np.float64)
    step = max(1, int(2**22 // max(1, prod(residual.shape[1:]))))
    for start in range(0, len(sample), step):
        part = slice(start, start + step)
        value = residual[sample[part]].astype(np.float64, copy=False)
        for A, i in zip(dictionaries, index, strict=True):
            atoms = A[:, i[part]].T.astype(np.float64, copy=False)
            value = np.einsum("sd...,sd->s...", value, atoms)
        out[part] = value
    return out
