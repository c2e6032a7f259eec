"""The synthetic set of section 6."""

import numpy as np
import pytest
from sklearn.utils import check_random_state

from septum.datasets import make_separable
from septum.errors import InvalidInputError
from septum.kronecker import multiply


def test_shapes_and_composition():
    made = make_separable(50, noise=0.0, random_state=0)
    assert made.X.shape == (50, 10, 100)
    assert [A.shape for A in made.dictionaries] == [(10, 3), (100, 6)]
    assert made.codes.shape == (50, 3, 6)
    np.testing.assert_allclose(made.X, multiply(made.codes.toarray(), made.dictionaries), atol=1e-14)


def test_atoms_are_of_unit_norm():
    for A in make_separable(1, random_state=0).dictionaries:
        np.testing.assert_allclose(np.linalg.norm(A, axis=0), 1.0)


def test_weights_are_shares_over_few_atoms():
    codes = make_separable(300, random_state=1).codes.toarray()
    assert (codes >= 0).all()
    np.testing.assert_allclose(codes.sum(axis=(1, 2)), 1.0)
    rows = (codes.sum(axis=2) > 0).sum(axis=1)
    columns = (codes.sum(axis=1) > 0).sum(axis=1)
    assert set(rows) == {1, 2}
    assert set(columns) == {1, 2, 3}


def test_noise_is_a_standard_deviation():
    clean = make_separable(100, noise=0.0, random_state=2).X
    noisy = make_separable(100, random_state=2).X
    np.testing.assert_allclose(np.std(noisy - clean), 0.003, rtol=0.02)


@pytest.mark.parametrize("seed", [0, np.int64(3)])
def test_the_seed_decides(seed):
    np.testing.assert_array_equal(
        make_separable(5, random_state=seed).X, make_separable(5, random_state=seed).X
    )
    assert (make_separable(5, random_state=seed).X != make_separable(5, random_state=77).X).any()


def test_every_kind_of_random_state():
    for make in (
        lambda: np.random.default_rng(1),
        lambda: np.random.RandomState(1),
        lambda: check_random_state(1),
    ):
        one, two = make_separable(3, random_state=make()).X, make_separable(3, random_state=make()).X
        np.testing.assert_array_equal(one, two)
    assert np.isfinite(make_separable(3).X).all()


@pytest.mark.parametrize("bad", [0, -1, 2.5, True])
def test_bad_sizes(bad):
    with pytest.raises(InvalidInputError, match="n_samples"):
        make_separable(bad)


@pytest.mark.parametrize("bad", [-0.1, np.nan, np.inf])
def test_bad_noise(bad):
    with pytest.raises(InvalidInputError, match="noise"):
        make_separable(5, noise=bad)
