"""Least squares on the support that the lasso chose, which takes away the lasso's shrinkage.

    min over codes supported where C_t is:  1/2 ||M o (X_t - C_t x_1 A_1 ... x_n A_n)||^2

With everything observed the support's Gram is made of the modes' Grams; with missing entries the joint atoms of
the support are formed and masked. Dependent atoms give the solution of least norm. Non-negative codes are
refitted by non-negative least squares.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from scipy.optimize import nnls

from septum.array import Float
from septum.coding.thread import each
from septum.kronecker import gram, sizes


def refit_codes(
    X: Float,
    dictionaries: Sequence[Float],
    codes: sparse.csr_array,
    *,
    mask: NDArray[np.bool_] | None,
    positive: bool,
    n_jobs: int | None,
) -> sparse.csr_array:
    """CSR codes with the same support and the least-squares values."""
    matrices = [A.astype(np.float64, copy=False) for A in dictionaries]
    grams = gram(matrices)

    def refit_one(t: int) -> Float:
        support = np.unravel_index(
            codes.indices[codes.indptr[t] : codes.indptr[t + 1]].astype(np.intp), sizes(matrices)
        )
        if support[0].size == 0:
            return np.zeros(0)
        sample = np.asarray(X[t], dtype=np.float64)
        if mask is None and not positive:
            return _normal_equations(sample, matrices, grams, support)
        atoms = _joint_atoms(matrices, support)
        seen = slice(None) if mask is None else mask[t].ravel()
        if positive:
            return nnls(atoms[seen], sample.ravel()[seen])[0]
        return linalg.lstsq(atoms[seen], sample.ravel()[seen])[0]

    values = list(each(refit_one, range(len(X)), n_jobs))
    data = np.concatenate(values).astype(codes.dtype) if values else codes.data
    refitted = sparse.csr_array((data, codes.indices.copy(), codes.indptr.copy()), shape=codes.shape)
    refitted.eliminate_zeros()
    return refitted


def _normal_equations(
    sample: Float, dictionaries: Sequence[Float], grams: Sequence[Float], support: Sequence[NDArray]
) -> Float:
    joint = np.ones((support[0].size, support[0].size))
    for G, i in zip(grams, support, strict=True):
        joint *= G[np.ix_(i, i)]
    signal = _correlate_support(sample, dictionaries, support)
    with np.errstate(all="ignore"):
        try:
            factor = linalg.cho_factor(joint)
        except linalg.LinAlgError:
            return linalg.pinvh(joint) @ signal
    if np.diag(factor[0]).min() ** 2 < 1e-10 * np.diag(joint).max():
        return linalg.pinvh(joint) @ signal
    return linalg.cho_solve(factor, signal)


def _correlate_support(sample: Float, dictionaries: Sequence[Float], support: Sequence[NDArray]) -> Float:
    """<X, a_i1 o ... o a_in> on the support: the last mode whole, the others atom by atom."""
    partial = np.tensordot(dictionaries[0][:, support[0]].T, sample, axes=1)
    for A, i in zip(dictionaries[1:], support[1:], strict=True):
        partial = np.einsum("sd...,ds->s...", partial, A[:, i])
    return partial


def _joint_atoms(dictionaries: Sequence[Float], support: Sequence[NDArray]) -> Float:
    """The support's joint atoms as columns, (d_1 ... d_n, support)."""
    joint = dictionaries[0][:, support[0]]
    for A, i in zip(dictionaries[1:], support[1:], strict=True):
        joint = (joint[:, None, :] * A[None, :, i]).reshape(-1, i.size)
    return joint
