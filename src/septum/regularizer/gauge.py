"""Omega of an array (definition 4, proposition 2): what its cheapest factorisation of any size costs.

Exact where a relaxation is Omega itself: for the paper's regulariser that is sum_t ||Z_t||_2 for n = 1 and
sum_t ||Z_t||_* for n = 2. Elsewhere it is bounded from both sides: below by the largest relaxation,
above by what explicit factorisations cost. Those are, for every mode,

    Z_t = sum_i sigma_i u_i o M_i     (singular vectors of that mode's unfolding), or
    Z_t = sum_i e_i o slice_i         (coordinates of that mode),

with every M_i or slice factored further in the same way.
"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from septum.array import Float, as_samples, chunks
from septum.kronecker import Codes
from septum.regularizer.protocol import Regularizer
from septum.regularizer.separable import Separable


def omega(Z: ArrayLike, regularizer: Regularizer | None = None) -> tuple[float, float]:
    """Lower and upper bounds of Omega(Z); equal where Omega is known.

    Parameters
    ----------
    Z : array (n_samples, d_1, ..., d_n)
    regularizer : regulariser object; None is the paper's.

    Examples
    --------
    >>> import numpy as np
    >>> from septum.regularizer import omega
    >>> omega(np.array([[[3.0, 0.0], [0.0, 1.0]]]))
    (4.0, 4.0)
    """
    samples = as_samples(Z, name="Z")
    penalty = Separable() if regularizer is None else regularizer
    penalty.check(len(samples.shape))
    if penalty.couples_samples:
        return _bounds(samples.data.astype(np.float64), penalty)
    lower = upper = 0.0
    for part in chunks(samples.n_samples, 8 * int(np.prod(samples.shape))):
        low, high = _bounds(samples.data[part].astype(np.float64), penalty)
        lower, upper = lower + low, upper + high
    return lower, upper


def _bounds(data: Float, penalty: Regularizer) -> tuple[float, float]:
    relaxations = penalty.relaxations(data.shape[1:])
    values = np.stack([relaxation.value(data) for relaxation in relaxations])
    for relaxation, value in zip(relaxations, values, strict=True):
        if relaxation.is_exact:
            return float(value.sum()), float(value.sum())
    if penalty.couples_samples:
        upper = min(penalty.value(*found).sum() for found in joint_factorizations(data))
        return float(min(values.sum(axis=1).max(), upper)), float(upper)
    costs = np.array([min(penalty.value(*found)[0] for found in factorizations(one)) for one in data])
    return float(np.minimum(values.max(axis=0), costs).sum()), float(costs.sum())


def joint_factorizations(data: Float) -> Iterator[tuple[list[Float], Codes]]:
    """Explicit dictionaries and codes of samples of one mode: singular vectors, and the samples themselves."""
    left, sigma, right = np.linalg.svd(data, full_matrices=False)
    yield [right.T], sparse.csr_array(left * sigma)
    yield [data.T], sparse.csr_array(np.eye(len(data)))


def factorizations(one: Float) -> Iterator[tuple[list[Float], Codes]]:
    """Explicit dictionaries and codes `(1, p * ... * p)` of one sample, two for each of its modes."""
    for mode in range(one.ndim):
        for split in (_singular, _coordinate):
            atoms = _nested(np.moveaxis(one, mode, 0), split)
            first, rest = atoms[0], list(atoms[1:])
            yield _with_codes([*rest[:mode], first, *rest[mode:]])


def _nested(one: Float, split: Callable[[Float], tuple[Float, Float]]) -> list[Float]:
    """Rank-one terms of a sample: one (d_k, p) array for each mode, the first carrying the weights."""
    if one.ndim == 1:
        return [one[:, None]]
    vectors, pieces = split(one.reshape(one.shape[0], -1))
    parts = [_nested(piece.reshape(one.shape[1:]), _singular) for piece in pieces]
    counts = [part[0].shape[1] for part in parts]
    if not counts:
        return [np.zeros((d, 0)) for d in one.shape]
    joined = [np.concatenate(columns, axis=1) for columns in zip(*parts, strict=True)]
    return [np.repeat(vectors, counts, axis=1), *joined]


def _singular(matrix: Float) -> tuple[Float, Float]:
    left, sigma, right = np.linalg.svd(matrix, full_matrices=False)
    kept = sigma > 0
    return left[:, kept], (sigma[:, None] * right)[kept]


def _coordinate(matrix: Float) -> tuple[Float, Float]:
    kept = matrix.any(axis=1)
    return np.eye(len(matrix))[:, kept], matrix[kept]


def _with_codes(atoms: list[Float]) -> tuple[list[Float], Codes]:
    """A code of one for every term, on the diagonal of `(p, ..., p)`."""
    count, n_modes = atoms[0].shape[1], len(atoms)
    flat = np.arange(count, dtype=np.int64) * sum(count**k for k in range(n_modes))
    codes = sparse.csr_array((np.ones(count), (np.zeros(count, np.int64), flat)), shape=(1, max(1, count**n_modes)))
    return atoms, codes
