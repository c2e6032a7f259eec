"""The singular pairs above a level."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from septum.spectral import pairs_above
from strategies import make_samples, samples


def check(X, alpha):
    pairs = pairs_above(X, alpha)
    left, sigma, right = np.linalg.svd(X, full_matrices=False)
    clear = np.abs(sigma - alpha) > 1e-10 * max(1.0, sigma.max())
    if clear.all():
        sample, k = np.nonzero(sigma > alpha)
        np.testing.assert_array_equal(pairs.sample, sample)
        np.testing.assert_allclose(pairs.value, sigma[sample, k], rtol=1e-10)
    shrunk = np.zeros_like(X)
    for t, value, u, v in zip(pairs.sample, pairs.value, pairs.left.T, pairs.right.T, strict=True):
        shrunk[t] += (value - alpha) * np.outer(u, v)
    expected = (left * np.maximum(sigma - alpha, 0.0)[:, None, :]) @ right
    np.testing.assert_allclose(shrunk, expected, atol=1e-10 * max(1.0, sigma.max()))
    for vectors in (pairs.left, pairs.right):
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=0), 1.0, rtol=1e-12)
    return pairs


@given(samples(2, 2, max_side=7), st.sampled_from((0.05, 0.7, 1.7, 40.0)))
def test_pairs_rebuild_the_shrunk_samples(X, alpha):
    check(X, alpha)


@pytest.mark.parametrize("shape", [(4, 50, 60), (4, 60, 50)])
def test_large_samples(shape):
    X = make_samples(shape, "gaussian", 0)
    pairs = check(X, 12.0)
    assert len(pairs) > 4


def test_signs_are_fixed():
    X = make_samples((3, 4, 5), "gaussian", 1)
    one, other = pairs_above(X, 1.0), pairs_above(-X, 1.0)
    np.testing.assert_allclose(one.left, other.left, atol=1e-12)
    np.testing.assert_allclose(one.right, -other.right, atol=1e-12)
    top = np.abs(one.left).argmax(axis=0)
    assert (one.left[top, np.arange(len(one))] > 0).all()


def test_nothing_above():
    pairs = pairs_above(np.ones((2, 3, 4)), 100.0)
    assert len(pairs) == 0
    assert pairs.left.shape == (3, 0)
    assert pairs.right.shape == (4, 0)
