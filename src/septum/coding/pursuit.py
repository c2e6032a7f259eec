"""Separable orthogonal matching pursuit: at most so many atoms a sample, chosen greedily.

Each step takes the joint atom best aligned with the residual, |<R, a>| / ||a||, and refits all chosen codes by
least squares: a Cholesky factor of the chosen atoms' Gram grows by one row, and the correlations with the residual
come from q - G c over the nonzero rows of C, so nothing of the size of the joint dictionary is made (batch OMP on
the Kronecker Gram). An atom that depends on those already chosen (a duplicate) is passed over.
"""

from collections.abc import Sequence
from math import prod
from operator import index

import numpy as np
from numpy.typing import ArrayLike

from septum.array import as_dictionaries, as_samples, chunks
from septum.coding.cholesky import DEPENDENT
from septum.coding.compiled import compiled
from septum.coding.engine import RUN_BYTES, as_block, join_runs
from septum.coding.lasso import as_tolerance
from septum.coding.mode import (
    correlate,
    extend_gram,
    gram_diagonal,
    make_grid,
    multiply,
    partial_size,
    product,
    sparse_image,
)
from septum.coding.result import CodingResult
from septum.coding.thread import each, single_blas_thread
from septum.errors import InvalidInputError
from septum.kronecker import sizes, unflatten_codes

NOTHING_LEFT = 1e-12  # stop when no atom's cosine with the residual exceeds this share of the sample's norm


def omp(
    X: ArrayLike,
    dictionaries: Sequence[ArrayLike],
    n_nonzero: int,
    *,
    tol: float | None = None,
    n_jobs: int | None = None,
) -> CodingResult:
    """Separable orthogonal matching pursuit: at most `n_nonzero` codes in each sample.

    Parameters
    ----------
    X : (n_samples, d_1, ..., d_n), n >= 1.
    dictionaries : one (d_k, r_k) array for each mode; atoms need not be of unit norm.
    n_nonzero : the largest number of nonzero codes in a sample, at least 1.
    tol : stop a sample sooner, once its squared residual ||X_t - Z_t||^2 is at most this (scikit-learn's meaning).
    n_jobs : threads, as in scikit-learn.

    Returns
    -------
    CodingResult : `gap` is half the squared residual; `n_iter` the atoms chosen; `converged` says that the residual
        reached `tol`, or without `tol` that `n_nonzero` atoms were chosen or nothing was left to explain.
    """
    samples = as_samples(X)
    matrices = as_dictionaries(dictionaries, samples.shape)
    ranks = sizes(matrices)
    stop = -1.0 if tol is None else as_tolerance(tol)
    capacity = min(_as_count(n_nonzero), prod(ranks), prod(samples.shape))
    data = samples.data
    with single_blas_thread():
        grid = make_grid(matrices)

    def run(part: slice) -> tuple:
        block = as_block(data[part])
        return pursue_run(grid, block, capacity, stop, data.dtype == np.float32)

    pieces = list(each(run, chunks(len(data), 8 * prod(samples.shape), RUN_BYTES), n_jobs))
    codes = join_runs(pieces, (len(data), prod(ranks)), data.dtype, None)
    gap, n_iter, converged = (np.concatenate([piece[k] for piece in pieces]) for k in (3, 4, 5))
    return CodingResult(unflatten_codes(codes, ranks), gap, n_iter, converged)


def _as_count(n_nonzero: object) -> int:
    try:
        count = index(n_nonzero)  # type: ignore[arg-type]
    except TypeError as error:
        raise InvalidInputError(f"n_nonzero must be a whole number, not {n_nonzero!r}") from error
    if isinstance(n_nonzero, bool) or count < 1:
        raise InvalidInputError(f"n_nonzero must be at least 1, not {n_nonzero!r}")
    return count


@compiled
def pursue_run(grid, samples, capacity, tol, single):
    """OMP codes of a run of samples: row pointers, flat indices, values, half squared residuals, atoms, success."""
    n_samples = len(samples)
    n = len(grid.ranks)
    length = product(grid.ranks, 0, n)
    height = product(grid.ranks, 0, n - 1)
    room = max(partial_size(grid), height * height if n == 2 else 0)
    first, second = np.empty(room), np.empty(room)
    signal, gradient, dense = np.empty(length), np.empty(length), np.zeros(length)
    slot = np.full(height, -1)
    barred = np.zeros(length, np.bool_)
    shrink = np.zeros(length)  # 1 / norm of each joint atom, 0 for a zero atom
    for a in range(length):
        square = gram_diagonal(grid, a)
        if square > 0.0:
            shrink[a] = 1.0 / square**0.5
    modes = np.zeros((n, capacity), np.int64)
    gram = np.empty((capacity, capacity))
    lower = np.empty((capacity, capacity))
    chosen, codes = np.empty(capacity, np.int64), np.empty(capacity)
    pointer = np.zeros(n_samples + 1, np.int64)
    index, value = np.empty(n_samples * capacity, np.int64), np.empty(n_samples * capacity)
    half, steps = np.empty(n_samples), np.zeros(n_samples, np.int64)
    converged = np.zeros(n_samples, np.bool_)
    fitted = np.empty(samples.shape[1])
    for t in range(n_samples):
        sample = samples[t]
        energy = 0.0
        for entry in sample:
            energy += entry * entry
        correlate(grid, sample, first, second, signal)
        gradient[:] = signal
        barred[:] = False
        count = 0
        exhausted = False
        residual = energy
        while count < capacity and residual > tol:
            best, height_of_best = -1, NOTHING_LEFT * energy**0.5
            for a in range(length):
                size = abs(gradient[a]) * shrink[a]
                if size > height_of_best and not barred[a]:
                    best, height_of_best = a, size
            if best < 0:
                exhausted = True
                break
            barred[best] = True
            _name(grid, modes, count, best)
            extend_gram(grid, modes, count, count + 1, gram)
            if not _extend_cholesky(gram, lower, count):
                continue
            chosen[count] = best
            count += 1
            _solve_chosen(lower, signal, chosen, count, codes)
            sparse_image(grid, chosen, codes, count, slot, first, second, gradient)
            residual = energy
            for a in range(length):
                gradient[a] = signal[a] - gradient[a]
            for a in range(count):
                residual -= codes[a] * signal[chosen[a]]
        if single:
            for a in range(count):
                codes[a] = np.float64(np.float32(codes[a]))
        for a in range(count):
            dense[chosen[a]] = codes[a]
        multiply(grid, dense, first, second, fitted)
        residual = 0.0
        for b in range(len(sample)):
            residual += (sample[b] - fitted[b]) ** 2
        order = np.argsort(chosen[:count])
        for a in range(count):
            dense[chosen[a]] = 0.0
            index[pointer[t] + a] = chosen[order[a]]
            value[pointer[t] + a] = codes[order[a]]
        pointer[t + 1] = pointer[t] + count
        half[t], steps[t] = 0.5 * residual, count
        converged[t] = residual <= tol if tol >= 0.0 else (exhausted or count == capacity)
    total = pointer[n_samples]
    return pointer, index[:total].copy(), value[:total].copy(), half, steps, converged


@compiled
def _name(grid, modes, place, atom):
    for step in range(len(grid.ranks)):
        k = len(grid.ranks) - 1 - step
        modes[k, place] = atom % grid.ranks[k]
        atom //= grid.ranks[k]


@compiled
def _extend_cholesky(gram, lower, size):
    """Append row `size` to the factor L of the Gram; False, leaving it out, if the atom depends on the others."""
    pivot = gram[size, size]
    for j in range(size):
        entry = gram[size, j]
        for p in range(j):
            entry -= lower[j, p] * lower[size, p]
        entry /= lower[j, j]
        lower[size, j] = entry
        pivot -= entry * entry
    if pivot <= DEPENDENT * gram[size, size]:
        return False
    lower[size, size] = pivot**0.5
    return True


@compiled
def _solve_chosen(lower, signal, chosen, count, codes):
    """L L^T codes = signal at the chosen atoms."""
    for a in range(count):
        entry = signal[chosen[a]]
        for p in range(a):
            entry -= lower[a, p] * codes[p]
        codes[a] = entry / lower[a, a]
    for step in range(count):
        a = count - 1 - step
        codes[a] /= lower[a, a]
        for p in range(a):
            codes[p] -= codes[a] * lower[a, p]
