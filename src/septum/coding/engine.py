"""Sparse codes of checked samples: the door between NumPy and the compiled kernels.

`solve` is what the public functions and the learning rooms call. It cuts the samples into chunks, hands each to
`solve_run` (squared loss, everything observed), and joins the codes as one CSR array whose columns are the
row-major flattening of (r_1, ..., r_n).
"""

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from septum.array import Float, chunks
from septum.coding.mode import Grid, make_grid
from septum.coding.sample import solve_run
from septum.coding.thread import each, single_blas_thread

RUN_BYTES = 4 * 2**20
CAPACITY = 512


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
    positive: bool = False,
    n_jobs: int | None = None,
) -> Coded:
    """min 1/2 ||X_t - C_t x_1 A_1 ... x_n A_n||^2 + alpha ||C_t||_1 for every sample, to a gap of tol * 1/2 ||X_t||^2.

    `X` is (n_samples, d_1, ..., d_n), `warm` CSR codes to start from.
    """
    with single_blas_thread():
        grid = make_grid(dictionaries)
    start, index, value = _warm_arrays(warm, len(X))
    single = X.dtype == np.float32
    half_energy = _half_energy(X)
    share = np.full(len(X), float(tol))

    def run(part: slice) -> tuple:
        rows = start[part.start : part.stop + 1]
        inside = slice(rows[0], rows[-1])
        samples = np.ascontiguousarray(X[part], dtype=np.float64).reshape(part.stop - part.start, -1)
        return solve_run(
            grid, samples, float(alpha), positive, single, share[part], rows - rows[0], index[inside],
            value[inside], _capacity(grid),
        )  # fmt: skip

    pieces = list(each(run, chunks(len(X), 8 * prod(X.shape[1:]), RUN_BYTES), n_jobs))
    gap = np.concatenate([piece[3] for piece in pieces])
    n_iter = np.concatenate([piece[4] for piece in pieces])
    codes = _join(pieces, (len(X), prod(grid.ranks.tolist())), X.dtype)
    return Coded(codes, gap, n_iter, gap <= tol * half_energy)


def _capacity(grid: Grid) -> int:
    return min(CAPACITY, prod(grid.ranks.tolist()))


def _half_energy(X: Float) -> NDArray[np.float64]:
    energy = np.empty(len(X))
    for t in range(len(X)):
        flat = X[t].astype(np.float64).ravel()
        energy[t] = 0.5 * (flat @ flat)
    return energy


def _warm_arrays(warm: sparse.csr_array | None, n_samples: int) -> tuple:
    if warm is None:
        return np.zeros(n_samples + 1, np.int64), np.zeros(0, np.int64), np.zeros(0)
    return (
        warm.indptr.astype(np.int64),
        warm.indices.astype(np.int64),
        warm.data.astype(np.float64),
    )


def _join(pieces: Sequence[tuple], shape: tuple[int, int], dtype: np.dtype) -> sparse.csr_array:
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
        value[place : place + length] = piece[2]
        row, place = row + rows, place + length
    return sparse.csr_array((value, index, pointer), shape=shape)
