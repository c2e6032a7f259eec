"""Batch orthogonal matching pursuit: the pursuit of K-SVD, on a Gram matrix, compiled.

For each signal x the atoms I are picked one by one, each the most correlated with the residual, and
the codes are the least-squares fit on I. Nothing of the signals' length is touched: with the Gram
matrix G = D^T D and p = D^T x, the residual's correlations are p - G_I c, and c solves G_II c = p_I by
a Cholesky factor that grows by one row per atom. The squared residual is ||x||^2 - p_I^T c.

K-SVD calls it once a sweep on one small dictionary. `septum.omp` gives the same codes for any number of modes,
without the joint Gram, at several times the cost on one mode.

Rubinstein, Zibulevsky and Elad, "Efficient implementation of the K-SVD algorithm using batch
orthogonal matching pursuit", CS Technion, 2008.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from septum.array import Float


@njit(cache=True, nogil=True)
def batch_omp(
    gram: Float, correlations: Float, energies: Float, n_nonzero: int, tolerance: float
) -> tuple[NDArray[np.int32], Float]:
    """OMP of every row: atoms `(n_signals, n_nonzero)`, -1 where unused, and their values, 0 there.

    `correlations` is X D, `energies` the squared norms of the rows of X. A row stops after `n_nonzero`
    atoms, when its squared residual is at most `tolerance`, or when no atom adds to those it has.
    """
    n_signals, n_atoms = correlations.shape
    atoms = np.full((n_signals, n_nonzero), -1, dtype=np.int32)
    values = np.zeros((n_signals, n_nonzero), dtype=correlations.dtype)
    floor = 16 * np.finfo(correlations.dtype).eps
    factor = np.empty((n_nonzero, n_nonzero), dtype=correlations.dtype)
    forward = np.empty(n_nonzero, dtype=correlations.dtype)
    code = np.empty(n_nonzero, dtype=correlations.dtype)
    residual = np.empty(n_atoms, dtype=correlations.dtype)
    for t in range(n_signals):
        energy = energies[t]
        stop = max(tolerance, floor * energy)
        residual[:] = correlations[t]
        for k in range(n_nonzero):
            if energy <= stop:
                break
            pick = 0
            best = -1.0
            for j in range(n_atoms):
                if abs(residual[j]) > best:
                    best, pick = abs(residual[j]), j
            # One more row of the factor: L w = G_I,pick, and the new pivot is what w leaves of G_pick,pick.
            pivot = gram[pick, pick]
            for i in range(k):
                entry = gram[atoms[t, i], pick]
                for m in range(i):
                    entry -= factor[i, m] * factor[k, m]
                factor[k, i] = entry / factor[i, i]
                pivot -= factor[k, i] * factor[k, i]
            if best <= 0 or pivot <= floor * gram[pick, pick]:
                break
            factor[k, k] = np.sqrt(pivot)
            atoms[t, k] = pick
            entry = correlations[t, pick]
            for m in range(k):
                entry -= factor[k, m] * forward[m]
            forward[k] = entry / factor[k, k]
            energy -= forward[k] * forward[k]
            for i in range(k, -1, -1):
                entry = forward[i]
                for m in range(i + 1, k + 1):
                    entry -= factor[m, i] * code[m]
                code[i] = entry / factor[i, i]
            if k + 1 < n_nonzero:
                residual[:] = correlations[t]
                for i in range(k + 1):
                    row = gram[atoms[t, i]]
                    for j in range(n_atoms):
                        residual[j] -= code[i] * row[j]
            values[t, : k + 1] = code[: k + 1]
    return atoms, values
