"""The disc of directions: constants stay constant, g and -g are one, peaks are where they belong."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from septum.errors import InvalidInputError
from septum.plot.sphere import disc, project


def directions(n: int, seed: int) -> np.ndarray:
    g = np.random.default_rng(seed).normal(size=(n, 3))
    return g / np.linalg.norm(g, axis=1, keepdims=True)


@given(st.integers(1, 80), st.integers(0, 10**6), st.floats(-5, 5))
@settings(max_examples=25, deadline=None)
def test_constant_and_antipodal(n, seed, level):
    g = directions(n, seed)
    v = np.random.default_rng(seed + 1).normal(size=n)
    flat = disc(np.full(n, level), g, size=16)
    np.testing.assert_allclose(flat[~np.isnan(flat)], level, atol=1e-12)
    flips = np.where(np.arange(n) % 2, 1.0, -1.0)[:, None]
    np.testing.assert_allclose(disc(v, g, size=16), disc(v, g * flips, size=16), atol=1e-12)
    picture = disc(v, g, size=16)
    assert np.nanmin(picture) >= v.min() - 1e-12
    assert np.nanmax(picture) <= v.max() + 1e-12


def test_peak_is_where_the_direction_falls():
    g = directions(64, 0)
    at = project(g)
    inner = int(np.argmin(np.abs(np.linalg.norm(at, axis=1) - 0.5)))
    picture = disc(np.eye(64)[inner], g, size=101)
    row, column = np.unravel_index(np.nanargmax(picture), picture.shape)
    found = np.array([(column + 0.5) / 101 * 2 - 1, -((row + 0.5) / 101 * 2 - 1)])
    assert np.argmin(np.linalg.norm(found - at, axis=1)) == inner


def test_projection_keeps_areas():
    # Equal areas of the half sphere: as many uniform directions in the inner half of the disc's area as outside.
    radius = np.linalg.norm(project(directions(20000, 1)), axis=1)
    assert radius.max() <= 1 + 1e-12
    assert abs((radius**2 < 0.5).mean() - 0.5) < 0.02


def test_bad_shapes():
    with pytest.raises(InvalidInputError, match="3 values do not match 2"):
        disc(np.ones(3), np.eye(3)[:2])
    with pytest.raises(InvalidInputError, match="shape"):
        project(np.ones((4, 2)))
