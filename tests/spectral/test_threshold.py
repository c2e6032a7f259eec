"""Singular value thresholding against the plain formula U diag((sigma - alpha)_+) V^T."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import linalg

from septum.spectral import shrink_singular_values, singular_values, threshold
from strategies import make_samples, samples

SCALES = (1.0, 1e-6, 1e6, 1e-200, 1e150)


def plain(X, alpha):
    left, sigma, right = np.linalg.svd(X, full_matrices=False)
    return (left * np.maximum(sigma - alpha, 0.0)[:, None, :]) @ right


def size(X):
    return np.linalg.svd(X, compute_uv=False)[:, 0].max()


@given(samples(2, 2, max_side=8, scales=SCALES), st.sampled_from((1e-9, 1e-5, 0.01, 0.3, 0.9, 0.999999, 2.0)))
def test_shrinking_is_the_plain_formula(X, share):
    alpha = share * max(size(X), 1e-250)
    shrunk, _ = shrink_singular_values(X, alpha)
    np.testing.assert_allclose(shrunk, plain(X, alpha), rtol=0, atol=3e-13 * max(size(X), 1e-250))


@given(samples(2, 2, max_side=8), st.sampled_from((1e-9, 1e-5, 0.01, 0.3, 0.9)))
def test_what_is_taken_away_is_dual_feasible(X, share):
    alpha = share * max(size(X), 1e-3)
    rest = X - shrink_singular_values(X, alpha)[0]
    assert size(rest) <= alpha + 1e-13 * max(1.0, size(X))


@pytest.mark.parametrize("shape", [(4, 50, 70), (4, 70, 50), (2, 64, 144)])
@pytest.mark.parametrize("share", [0.2, 0.6, 0.8, 0.97])
@pytest.mark.parametrize("kind", ["gaussian", "equal singular values", "graded", "rank one"])
def test_large_samples_take_only_the_pairs_above_alpha(shape, share, kind):
    X = make_samples(shape, kind, 3)
    alpha = share * size(X)
    shrunk, values = shrink_singular_values(X, alpha)
    np.testing.assert_allclose(shrunk, plain(X, alpha), rtol=0, atol=1e-12 * size(X))
    expected = np.linalg.svd(X, compute_uv=False)
    np.testing.assert_allclose(values, np.where(expected > alpha, expected, 0.0), atol=1e-12 * size(X))


def test_relative_error_of_a_typical_sample():
    X = make_samples((20, 64, 144), "gaussian", 4)
    expected = plain(X, 16.0)
    error = np.linalg.norm(shrink_singular_values(X, 16.0)[0] - expected) / np.linalg.norm(expected)
    assert error < 5e-14


@pytest.mark.parametrize("kind", ["gaussian", "ties", "rank one", "equal singular values"])
@pytest.mark.parametrize("share", [0.05, 0.4, 0.9, 1.1])
def test_inertia_counts_the_values_above(kind, share):
    for x in make_samples((4, 9, 14), kind, 8):
        sigma = np.linalg.svd(x, compute_uv=False)
        alpha = share * sigma[0]
        assert threshold.count_above(x @ x.T, alpha) == (sigma > alpha).sum()


def test_a_failed_partial_decomposition_falls_back_on_the_whole(monkeypatch):
    X = make_samples((3, 50, 60), "gaussian", 5)
    alpha = 0.98 * size(X)
    failures = []

    def failing(gram, **options):
        failures.append(1)
        raise linalg.LinAlgError("no convergence")

    monkeypatch.setattr(threshold.linalg, "eigh", failing)
    np.testing.assert_allclose(shrink_singular_values(X, alpha)[0], plain(X, alpha), atol=1e-12 * size(X))
    assert failures


@pytest.mark.parametrize("shape", [(40, 5, 9), (40, 9, 5), (12, 52, 50), (6, 1, 8), (6, 8, 1)])
def test_a_sample_does_not_see_its_neighbours(shape):
    X = make_samples(shape, "gaussian", 6)
    alpha = 0.8 * size(X)
    whole, _ = shrink_singular_values(X, alpha)
    for t in (0, 3, shape[0] - 1):
        np.testing.assert_array_equal(shrink_singular_values(X[t : t + 1], alpha)[0][0], whole[t])
    np.testing.assert_array_equal(shrink_singular_values(X[::-1], alpha)[0], whole[::-1])


@given(samples(2, 2, max_side=8, scales=SCALES))
def test_all_singular_values_are_resolved(X):
    expected = np.linalg.svd(X, compute_uv=False)
    tiny = 1e-12 * expected[:, :1] + 1e-300
    assert (np.abs(singular_values(X) - expected) <= tiny).all()


@given(samples(2, 2, max_side=8))
def test_unresolved_values_keep_their_sum_of_squares(X):
    got = (singular_values(X, resolve=False) ** 2).sum(axis=1)
    np.testing.assert_allclose(got, (X**2).sum(axis=(1, 2)), rtol=1e-12, atol=1e-300)


def test_input_is_only_read():
    X = make_samples((5, 4, 6), "gaussian", 7)
    X.setflags(write=False)
    shrink_singular_values(X, 1.0)
    singular_values(X)
