"""Sparse codes of checked samples: the door between NumPy and the compiled kernels.

`solve` is what the public functions and the learning rooms call. It cuts the samples into chunks, hands each to
`solve_run` (squared loss, everything observed) or to `solve_majorised` (missing entries, other losses), and
joins the codes as one CSR array whose columns are the row-major flattening of (r_1, ..., r_n).
"""

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from septum.array import Float, chunks
from septum.coding.majorise import solve_majorised
from septum.coding.mode import Grid, make_grid
from septum.coding.sample import solve_run
from septum.coding.thread import each, single_blas_thread
from septum.loss import Loss, Squared

RUN_BYTES = 4 * 2**20
CAPACITY = 1024


class Coded(NamedTuple):
    """Codes (n_samples, r_1 ... r_n), the gap, iterations and success of each sample."""

    codes: sparse.csr_array
    gap: NDArray[np.float64]
    n_iter: NDArray[np.int64]
    converged: NDArray[np.bool_]


def solve(
    X: Float,
    dictionaries: Sequence[Float],
    alpha: float,
    *,
    tol: float = 1e-4,
    warm: sparse.csr_array | None = None,
    mask: NDArray[np.bool_] | None = None,
    positive: bool = False,
    loss: Loss | None = None,
    weights: Sequence[Float] | None = None,
    n_jobs: int | None = None,
) -> Coded:
    """min loss(M o (X_t - C_t x_1 A_1 ... x_n A_n)) + alpha ||C_t||_1 for every sample, to a gap of tol * loss(M o X_t).

    `X` is (n_samples, d_1, ..., d_n), checked, zero where `mask` is False; `warm` holds CSR codes to start from.
    `loss` is None for the squared loss, 1/2 ||.||^2. `weights`, one positive array (r_k,) a mode, make the penalty
    alpha * (product of the modes' weights) on each code.
    """
    loss = Squared() if loss is None else loss
    scaled, factors = _weighted(dictionaries, weights)
    with single_blas_thread():
        grid = make_grid(scaled)
    shape = (len(X), prod(grid.ranks.tolist()))
    start, index, value = _warm_arrays(warm, len(X))
    if factors is not None:
        value = value * factors[index]
    tol = float(tol)
    plain = mask is None and isinstance(loss, Squared)
    single = X.dtype == np.float32 and factors is None

    def run(part: slice) -> tuple:
        samples = as_block(X[part])
        rows = start[part.start : part.stop + 1]
        inside = slice(rows[0], rows[-1])
        ready = (rows - rows[0], index[inside], value[inside])
        if plain:
            target = np.zeros(len(samples))
            return solve_run(
                grid, samples, float(alpha), positive, single, False, tol, target, *ready, _capacity(grid)
            )
        hidden = None if mask is None else mask[part].reshape(samples.shape)
        target = tol * loss.value(samples).sum(axis=1)
        found = solve_majorised(
            grid, samples, hidden, loss, float(alpha), positive, single, target, ready, _capacity(grid)
        )
        return (*found, found.gap <= target)

    pieces = list(each(run, chunks(len(X), 8 * prod(X.shape[1:]), RUN_BYTES), n_jobs))
    gap, n_iter, converged = (np.concatenate([piece[k] for piece in pieces]) for k in (3, 4, 5))
    return Coded(join_runs(pieces, shape, X.dtype, factors), gap, n_iter, converged)


def as_block(X: Float) -> NDArray[np.float64]:
    """Samples as rows of a writable float64 matrix, the one kind of array the kernels are compiled for."""
    block = np.ascontiguousarray(X, dtype=np.float64).reshape(len(X), -1)
    return block if block.flags.writeable else block.copy()


def _capacity(grid: Grid) -> int:
    return min(CAPACITY, prod(grid.ranks.tolist()))


def _weighted(
    dictionaries: Sequence[Float], weights: Sequence[Float] | None
) -> tuple[Sequence[Float], NDArray[np.float64] | None]:
    """Dictionaries whose plain l1 problem is the weighted one (codes times weights), and the joint weights."""
    if weights is None:
        return dictionaries, None
    joint = np.ones(1)
    for weight in weights:
        joint = np.multiply.outer(joint, np.asarray(weight, dtype=np.float64)).ravel()
    return [A / np.asarray(w, dtype=np.float64) for A, w in zip(dictionaries, weights, strict=True)], joint


def _warm_arrays(warm: sparse.csr_array | None, n_samples: int) -> tuple:
    if warm is None:
        return np.zeros(n_samples + 1, np.int64), np.zeros(0, np.int64), np.zeros(0)
    return (
        warm.indptr.astype(np.int64),
        warm.indices.astype(np.int64),
        warm.data.astype(np.float64),
    )


def join_runs(
    pieces: Sequence[tuple], shape: tuple[int, int], dtype: np.dtype, factors: NDArray[np.float64] | None
) -> sparse.csr_array:
    """One CSR array from the runs' pieces."""
    total = sum(len(piece[1]) for piece in pieces)
    kind = np.int32 if max(total, *shape) < np.iinfo(np.int32).max else np.int64
    pointer = np.zeros(shape[0] + 1, dtype=kind)
    index = np.empty(total, dtype=kind)
    value = np.empty(total, dtype=dtype)
    row = place = 0
    for piece in pieces:
        rows, length = len(piece[0]) - 1, len(piece[1])
        pointer[row + 1 : row + rows + 1] = piece[0][1:] + place
        index[place : place + length] = piece[1]
        value[place : place + length] = piece[2] if factors is None else piece[2] / factors[piece[1]]
        row, place = row + rows, place + length
    return sparse.csr_array((value, index, pointer), shape=shape)
