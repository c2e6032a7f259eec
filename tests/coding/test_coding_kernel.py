"""The compiled building blocks against NumPy: multilinear maps, the joint Gram, Cholesky, the gap, threads."""

import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from septum import kronecker
from septum.coding import mode
from septum.coding.cholesky import factorise, solve
from septum.coding.gap import duality_gap
from septum.coding.thread import count_jobs, each, single_blas_thread
from septum.errors import InvalidInputError

SHAPES = [
    ((4,), (6,)),
    ((4, 5), (6, 3)),
    ((5, 4), (2, 7)),
    ((3, 4, 2), (2, 5, 3)),
    ((2, 3, 2, 2), (3, 2, 1, 4)),
]


@pytest.fixture(params=SHAPES, ids=str)
def setting(request):
    d, r = request.param
    rng = np.random.default_rng(0)
    dictionaries = [rng.standard_normal((a, b)) for a, b in zip(d, r, strict=True)]
    return dictionaries, mode.make_grid(dictionaries), kronecker.explicit(dictionaries), rng


def buffers(grid):
    room = max(mode.partial_size(grid), int(grid.ranks[0]) ** 2)
    return np.full(room, np.nan), np.full(room, np.nan)


def test_correlate_and_multiply_are_the_joint_dictionary(setting):
    _, grid, joint, rng = setting
    sample, codes = rng.standard_normal(joint.shape[0]), rng.standard_normal(joint.shape[1])
    out = np.empty(joint.shape[1])
    mode.correlate(grid, sample, *buffers(grid), out)
    np.testing.assert_allclose(out, joint.T @ sample, atol=1e-12)
    out = np.empty(joint.shape[0])
    mode.multiply(grid, codes, *buffers(grid), out)
    np.testing.assert_allclose(out, joint @ codes, atol=1e-12)


@pytest.mark.parametrize("density", [0.1, 0.6, 1.0])
def test_images_are_the_joint_gram(setting, density):
    _, grid, joint, rng = setting
    codes = rng.standard_normal(joint.shape[1]) * (rng.random(joint.shape[1]) < density)
    codes[-1] = 1.0
    expected = joint.T @ (joint @ codes)
    out = np.empty_like(codes)
    mode.dense_image(grid, codes, *buffers(grid), out)
    np.testing.assert_allclose(out, expected, atol=1e-11)
    support = np.flatnonzero(codes)
    slot = np.full(codes.size // int(grid.ranks[-1]), -1)
    mode.sparse_image(grid, support, codes[support], support.size, slot, *buffers(grid), out)
    np.testing.assert_allclose(out, expected, atol=1e-11)
    assert (slot == -1).all()


def test_entries_of_the_joint_gram(setting):
    _, grid, joint, rng = setting
    gram = joint.T @ joint
    chosen = rng.permutation(joint.shape[1])[:5]
    modes = np.array(np.unravel_index(chosen, tuple(grid.ranks)))
    out = np.full((5, 5), np.nan)
    size = len(chosen)
    mode.extend_gram(grid, modes, 0, min(2, size), out)
    mode.extend_gram(grid, modes, min(2, size), size, out)
    np.testing.assert_allclose(out[:size, :size], gram[np.ix_(chosen, chosen)], atol=1e-12)
    a, b = int(chosen[0]), int(chosen[-1])
    assert mode.gram_diagonal(grid, a) == pytest.approx(gram[a, a])
    assert mode.cosine(grid, a, b) == pytest.approx(abs(gram[a, b]) / np.sqrt(gram[a, a] * gram[b, b]))


def test_the_grids_bounds_are_those_of_the_joint_gram(setting):
    _, grid, joint, _ = setting
    gram = joint.T @ joint
    assert grid.lipschitz == pytest.approx(np.linalg.eigvalsh(gram)[-1])
    norm = np.sqrt(np.diag(gram))
    cosine = np.abs(gram) / np.outer(norm, norm) - np.eye(len(gram))
    assert grid.coherence >= cosine.max() - 1e-12


@pytest.mark.parametrize("size", [1, 3, 4, 5, 8, 17, 60])
def test_cholesky_solves(size):
    rng = np.random.default_rng(size)
    factor = rng.standard_normal((size, size + 3))
    gram, x = factor @ factor.T, rng.standard_normal(size)
    H, skipped, out = gram.copy(), np.full(size, np.nan), x.copy()
    factorise(H, size, skipped)
    solve(H, size, skipped, out)
    np.testing.assert_allclose(gram @ out, x, atol=1e-8)
    np.testing.assert_allclose(np.triu(H).T @ np.triu(H), gram, atol=1e-10)
    assert not skipped.any()


def test_cholesky_steps_over_dependent_columns():
    rng = np.random.default_rng(0)
    atoms = rng.standard_normal((20, 7))
    atoms[:, 3] = atoms[:, 1]
    atoms[:, 5] = atoms[:, 0] - 2 * atoms[:, 2]
    gram, x = atoms.T @ atoms, rng.standard_normal(7)
    H, skipped, out = gram.copy(), np.empty(7), x.copy()
    factorise(H, 7, skipped)
    solve(H, 7, skipped, out)
    np.testing.assert_array_equal(np.flatnonzero(skipped), [3, 5])
    assert not out[[3, 5]].any()
    kept = [0, 1, 2, 4, 6]
    np.testing.assert_allclose(gram[np.ix_(kept, kept)] @ out[kept], x[kept], atol=1e-9)


def test_the_gap_is_primal_minus_dual():
    rng = np.random.default_rng(0)
    A, x, alpha = rng.standard_normal((8, 12)), rng.standard_normal(8), 0.7
    for scale in (0.0, 0.1, 1.0):
        c = scale * rng.standard_normal(12)
        residual = x - A @ c
        b = A.T @ residual
        s = max(min(alpha / np.abs(b).max(), residual @ x / (residual @ residual)), 0)
        primal = 0.5 * residual @ residual + alpha * np.abs(c).sum()
        dual = s * residual @ x - 0.5 * s * s * residual @ residual
        found = duality_gap(np.abs(b).max(), b @ c, residual @ residual, np.abs(c).sum(), alpha)
        assert found == pytest.approx(primal - dual, abs=1e-10)


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_blas_keeps_its_threads_after_nested_and_concurrent_use():
    before = blas_threads()
    inside = threading.Barrier(2)

    def hold():
        with single_blas_thread():
            inside.wait()
            inside.wait()

    other = threading.Thread(target=hold)
    other.start()
    inside.wait()
    with single_blas_thread():
        assert set(blas_threads()) == {1}
    assert set(blas_threads()) == {1}
    inside.wait()
    other.join()
    assert blas_threads() == before


def test_results_come_in_order_and_errors_come_through():
    for jobs in (None, 1, 3, -1):
        assert list(each(lambda i: i * i, range(20), jobs)) == [i * i for i in range(20)]
        with pytest.raises(ZeroDivisionError):
            list(each(lambda i: 1 // i, [1, 0], jobs))


def test_jobs_mean_what_they_mean_in_scikit_learn():
    import os

    assert count_jobs(None) == 1
    assert count_jobs(3) == 3
    assert count_jobs(-1) == os.cpu_count()
    assert count_jobs(-10_000) == 1
    for wrong in (0, 1.5, "two", True):
        with pytest.raises(InvalidInputError, match="n_jobs"):
            count_jobs(wrong)
