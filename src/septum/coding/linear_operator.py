"""Codes when the last mode's dictionary is a SciPy LinearOperator: FISTA, one sample at a time.

A curvelet frame of a whole slice has far too many atoms for a matrix, but it is quick to apply. The modes before
the last are matrices as usual. The steps are those of FISTA with restart on the codes,

    C+ = soft(Y + B / L, alpha / L),   B = (M o (X - Y x_1 A_1 ... x_n A_n)) x_1 A_1^T ... x_n A_n^T,

with L the product of the squared spectral norms of the modes; the operator's is estimated from below by power
iteration with a fixed start, so L is raised by backtracking whenever a step falls short of it. One joint product and
its adjoint are applied in each step, and the gap is that of the current codes.
"""

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from septum.array import Float
from septum.coding.reference import soft
from septum.coding.thread import each
from septum.kronecker import mode_product

MAX_STEPS = 5000
STALLED = 300
Map = Callable[[Float], Float]


def solve_operator(
    X: Float,
    dictionaries: Sequence[Float],
    operator: LinearOperator,
    alpha: float,
    *,
    tol: float,
    warm: sparse.csr_array | None,
    mask: NDArray[np.bool_] | None,
    positive: bool,
    n_jobs: int | None,
) -> tuple[sparse.csr_array, NDArray[np.float64], NDArray[np.int64], NDArray[np.bool_]]:
    """Codes, gap, iterations and success of every sample; `dictionaries` are the modes before the last."""
    matrices = [A.astype(np.float64, copy=False) for A in dictionaries]
    synthesis, analysis = _maps(matrices, operator)
    shape = (*[A.shape[1] for A in matrices], operator.shape[1])
    bound = prod(np.linalg.norm(A, 2) ** 2 for A in matrices) * _squared_norm(operator)

    def solve_one(t: int) -> tuple:
        seen = None if mask is None else mask[t]
        start = np.zeros(shape) if warm is None else warm[[t]].toarray().reshape(shape).astype(np.float64)
        sample = np.asarray(X[t], dtype=np.float64)
        goal = tol * 0.5 * float(np.vdot(sample, sample))
        codes, steps = _fista(sample, seen, synthesis, analysis, start, bound, alpha, positive, goal)
        codes = codes.astype(X.dtype)
        gap = _gap(sample, seen, synthesis, analysis, codes.astype(np.float64), alpha, positive)[0]
        return sparse.csr_array(codes.reshape(1, -1)), gap, steps, gap <= goal

    pieces = list(each(solve_one, range(len(X)), n_jobs))
    codes = sparse.csr_array(sparse.vstack([piece[0] for piece in pieces], format="csr"))
    gap, n_iter, converged = (np.array([piece[k] for piece in pieces]) for k in (1, 2, 3))
    return codes, gap.astype(np.float64), n_iter.astype(np.int64), converged.astype(bool)


def _maps(matrices: Sequence[Float], operator: LinearOperator) -> tuple[Map, Map]:
    """Codes (r_1, ..., r_n) to a sample, and back; the operator acts on as few columns as the modes allow."""

    def along_last(product: Map, array: Float) -> Float:
        columns = array.reshape(-1, array.shape[-1]).T
        return np.asarray(product(np.ascontiguousarray(columns))).T.reshape(*array.shape[:-1], -1)

    def synthesis(codes: Float) -> Float:
        array = codes[None]
        for mode in (k for k, A in enumerate(matrices) if A.shape[0] < A.shape[1]):
            array = mode_product(array, matrices[mode], mode)
        array = along_last(operator.matmat, array)
        for mode in (k for k, A in enumerate(matrices) if A.shape[0] >= A.shape[1]):
            array = mode_product(array, matrices[mode], mode)
        return array[0]

    def analysis(residual: Float) -> Float:
        array = residual[None]
        for mode in (k for k, A in enumerate(matrices) if A.shape[0] >= A.shape[1]):
            array = mode_product(array, matrices[mode].T, mode)
        array = along_last(operator.rmatmat, array)
        for mode in (k for k, A in enumerate(matrices) if A.shape[0] < A.shape[1]):
            array = mode_product(array, matrices[mode].T, mode)
        return array[0]

    return synthesis, analysis


def _squared_norm(operator: LinearOperator) -> float:
    """The squared spectral norm from below: power iteration from a fixed random vector."""
    vector = np.random.default_rng(0).standard_normal(operator.shape[1])
    value = 0.0
    for _ in range(30):
        size = np.linalg.norm(vector)
        if size == 0:
            break
        vector = np.asarray(operator.rmatvec(operator.matvec(vector / size))).ravel()
        before, value = value, float(np.linalg.norm(vector))
        if abs(value - before) <= 1e-6 * value:
            break
    return max(value, np.finfo(float).tiny)


def _masked(error: Float, seen: NDArray[np.bool_] | None) -> Float:
    return error if seen is None else np.where(seen, error, 0.0)


def _gap(sample, seen, synthesis, analysis, codes, alpha, positive) -> tuple[float, Float, Float]:
    """The duality gap as in `septum.coding.gap`, with the residual and its correlations."""
    residual = _masked(sample - synthesis(codes), seen)
    correlation = analysis(residual)
    largest = correlation.max() if positive else np.abs(correlation).max()
    energy, aligned = float(np.vdot(residual, residual)), float(np.vdot(correlation, codes))
    scale = 1 + aligned / energy if energy > 0 else 1.0
    if largest > 0:
        scale = min(scale, alpha / largest)
    scale = max(scale, 0.0)
    gap = 0.5 * (1 - scale) ** 2 * energy + (alpha * np.abs(codes).sum() - scale * aligned)
    return max(float(gap), 0.0), residual, correlation


def _fista(sample, seen, synthesis, analysis, start, bound, alpha, positive, goal) -> tuple[Float, int]:
    """Codes with a gap of at most `goal`, or as far as the steps allow, and the steps."""
    codes = start
    gap, residual, correlation = _gap(sample, seen, synthesis, analysis, codes, alpha, positive)
    point, point_residual, point_correlation = codes, residual, correlation
    t, best, waited, step = 1.0, gap, 0, 0
    for step in range(1, MAX_STEPS + 1):
        if gap <= goal or waited > STALLED:
            return codes, step - 1
        following = soft(point + point_correlation / bound, alpha / bound, positive)
        gap_next, residual_next, correlation_next = _gap(
            sample, seen, synthesis, analysis, following, alpha, positive
        )
        move, seen_move = following - point, point_residual - residual_next
        if np.vdot(seen_move, seen_move) > bound * np.vdot(move, move) * (1 + 1e-9):
            bound *= 1.1
            continue
        uphill = np.vdot(point - following, following - codes) > 0
        t = 1.0 if uphill else t
        t_next = 0.5 * (1 + np.sqrt(1 + 4 * t * t))
        beta = (t - 1) / t_next
        point = following + beta * (following - codes)
        point_residual = residual_next + beta * (residual_next - residual)
        point_correlation = correlation_next + beta * (correlation_next - correlation)
        codes, residual, correlation, gap, t = following, residual_next, correlation_next, gap_next, t_next
        waited = 0 if gap < 0.9 * best else waited + 1
        best = min(best, gap)
    return codes, step
