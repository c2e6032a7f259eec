"""Dictionaries as pictures: what is drawn is the atoms, in the order of their use."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from septum import plot
from septum.errors import InvalidInputError
from septum.plot.atom import joint_use


@pytest.fixture
def spatial():
    return np.random.default_rng(0).normal(size=(12, 5))


def shown(figure):
    return [np.asarray(image.get_array()) for image in figure.axes[0].images]


def test_patches_are_the_atoms_most_used_first(spatial):
    use = np.array([1, 9, 0, 4, 2])
    pictures = shown(plot.atoms(spatial, (3, 4), use=use, limit=4))
    assert len(pictures) == 4
    for picture, i in zip(pictures, [1, 3, 4, 0], strict=True):
        atom = spatial[:, i].reshape(3, 4) / np.abs(spatial[:, i]).max()
        assert min(np.abs(picture - atom).max(), np.abs(picture + atom).max()) < 1e-12
        assert (picture**3).sum() >= 0


def test_shares_of_use_are_written(spatial):
    figure = plot.atoms(spatial, (3, 4), use=[6, 3, 1, 0, 0])
    words = [text.get_text() for text in figure.axes[0].texts]
    assert words == ["60.0%", "30.0%", "10.0%", "unused", "unused"]


def test_curves_and_three_dimensional_patches(spatial):
    figure = plot.atoms(spatial)
    assert len(figure.axes[0].lines) == 2 * 5  # a zero line and a curve each
    box = np.random.default_rng(1).normal(size=(27, 2))
    middle = np.abs(shown(plot.atoms(box, (3, 3, 3)))[0])
    atom = box[:, 0].reshape(3, 3, 3)
    np.testing.assert_allclose(middle, np.abs(atom[:, :, 1]) / np.abs(atom).max())


def test_joint_atoms_are_the_pairs_used_most(spatial):
    angular = np.random.default_rng(2).normal(size=(6, 3))
    use = np.zeros((3, 5))
    use[2, 4], use[0, 1] = 3, 1
    figure = plot.joint_atoms(angular, spatial, use, shape=(3, 4))
    assert [text.get_text() for text in figure.axes[0].texts] == ["75.0%", "25.0%"]
    for picture, j in zip(shown(figure), [4, 1], strict=True):
        np.testing.assert_allclose(
            np.abs(picture), np.abs(spatial[:, j]).reshape(3, 4) / np.abs(spatial[:, j]).max()
        )


def test_angular_atoms_leave_b0_out():
    g = np.vstack([np.zeros(3), np.eye(3), -np.eye(3)])
    a = np.ones((7, 1))
    b = a.copy()
    b[0] = 50.0
    first, second = (shown(plot.angular_atoms(d, g))[0] for d in (a, b))
    np.testing.assert_array_equal(first, second)


@given(st.integers(0, 6), st.integers(1, 4), st.integers(1, 4), st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_joint_use_counts_nonzero_codes(n, r1, r2, seed):
    rng = np.random.default_rng(seed)
    codes = rng.normal(size=(n, r1, r2)) * (rng.random((n, r1, r2)) < 0.4)
    expected = sum((np.abs(c) > 0).astype(float) for c in codes) + np.zeros((r1, r2))
    np.testing.assert_array_equal(joint_use(codes), expected)
    np.testing.assert_array_equal(joint_use(sp.coo_array(codes)), expected)
    np.testing.assert_array_equal(joint_use(expected), expected)


def test_stored_zeros_are_not_uses():
    codes = sp.coo_array(
        (np.array([0.0, 2.0]), (np.array([0, 1]), np.array([0, 0]), np.array([1, 0]))), shape=(2, 1, 2)
    )
    np.testing.assert_array_equal(joint_use(codes), [[1.0, 0.0]])


def test_empty_and_zero_atoms_can_be_drawn():
    for dictionary in (np.zeros((4, 0)), np.zeros((4, 2))):
        assert len(plot.png(plot.atoms(dictionary, (2, 2)), dpi=40)) > 200
    assert "no atoms" in plot.svg(plot.joint_atoms(np.eye(2), np.eye(4), np.zeros((2, 4))), text=True)


def test_the_dictionary_is_not_changed(spatial):
    before = spatial.copy()
    plot.atoms(spatial, (3, 4))
    np.testing.assert_array_equal(spatial, before)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: plot.atoms(np.ones(3)), "must have shape"),
        (lambda: plot.atoms(np.ones((6, 2)), (2, 2)), "have 4 values, the atoms 6"),
        (lambda: plot.atoms(np.ones((6, 2)), use=[1]), "2 atoms"),
        (lambda: plot.angular_atoms(np.ones((6, 2)), np.ones((5, 3))), "directions have shape"),
        (lambda: plot.joint_atoms(np.ones((2, 2)), np.ones((3, 3)), np.ones((3, 2))), "ask for"),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(InvalidInputError, match=words):
        call()
