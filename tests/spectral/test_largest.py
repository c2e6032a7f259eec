"""Largest singular values against NumPy's decomposition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from septum.spectral import exceeds, largest_singular_values, max_singular_value
from strategies import make_samples, samples

SCALES = (1.0, 1e-6, 1e6, 1e-200, 1e150)


def plain(X):
    return np.linalg.svd(X, compute_uv=False)[:, 0]


@given(samples(2, 2, max_side=8, scales=SCALES))
def test_values_agree_with_the_decomposition(X):
    np.testing.assert_allclose(largest_singular_values(X), plain(X), rtol=1e-13, atol=0)


@given(samples(2, 2, max_side=8, scales=SCALES))
def test_the_maximum_and_its_sample(X):
    best, where = max_singular_value(X)
    expected = plain(X)
    np.testing.assert_allclose(best, expected.max(), rtol=1e-13)
    if where == -1:
        assert expected.max() == 0
    else:
        np.testing.assert_allclose(expected[where], expected.max(), rtol=1e-13)


@given(samples(2, 2, max_side=8), st.sampled_from((0.0, 0.5, 1.5, 3.0, 100.0)))
def test_the_maximum_above_a_known_value(X, above):
    best, where = max_singular_value(X, above=above)
    np.testing.assert_allclose(best, max(above, plain(X).max()), rtol=1e-13)
    assert (where == -1) == (best == above)


@given(samples(2, 2, max_side=8, scales=SCALES), st.floats(0.05, 2.0))
def test_exceeds_is_the_plain_comparison(X, share):
    expected = plain(X)
    level = share * float(expected.max()) + 1e-300
    clear = np.abs(expected - level) > 1e-12 * level
    np.testing.assert_array_equal(exceeds(X, level)[clear], (expected > level)[clear])


def test_one_dominant_sample_among_many():
    X = make_samples((300, 6, 9), "gaussian", 0)
    X[137] *= 5
    assert max_singular_value(X)[1] == 137
    np.testing.assert_allclose(max_singular_value(X)[0], plain(X).max(), rtol=1e-13)


@pytest.mark.parametrize("shape", [(5, 3, 40), (5, 40, 3), (3, 30, 31)])
def test_single_precision_is_computed_in_double(shape):
    X = make_samples(shape, "gaussian", 1).astype(np.float32)
    np.testing.assert_allclose(largest_singular_values(X), plain(X.astype(np.float64)), rtol=1e-13)
    assert largest_singular_values(X).dtype == np.float64


def test_chunks_leave_no_trace(monkeypatch):
    X = make_samples((50, 4, 7), "gaussian", 2)
    whole = largest_singular_values(X), max_singular_value(X), exceeds(X, 4.0)
    monkeypatch.setattr("septum.spectral.largest.chunks", lambda n, size: (slice(t, t + 1) for t in range(n)))
    np.testing.assert_array_equal(largest_singular_values(X), whole[0])
    assert max_singular_value(X) == whole[1]
    np.testing.assert_array_equal(exceeds(X, 4.0), whole[2])


@pytest.mark.parametrize("kind", ["gaussian", "rank one", "ties", "equal singular values", "graded"])
@pytest.mark.parametrize("shape", [(6, 1, 5), (6, 4, 5), (6, 9, 3)])
def test_levels_just_below_and_just_above(kind, shape):
    """The screens must let through what exceeds the level by a hair, and nothing else."""
    X = make_samples(shape, kind, 4)
    for t, sigma in enumerate(plain(X)):
        assert exceeds(X[t : t + 1], sigma * (1 - 1e-9)).all()
        assert not exceeds(X[t : t + 1], sigma * (1 + 1e-9)).any()
        assert max_singular_value(X[t : t + 1], above=sigma * (1 - 1e-9))[1] == 0
        assert max_singular_value(X[t : t + 1], above=sigma * (1 + 1e-9))[1] == -1
