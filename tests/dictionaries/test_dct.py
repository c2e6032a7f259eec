"""Cosine dictionaries: SciPy's DCT when complete, a covering with no mean when overcomplete."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.fft import dct as scipy_dct
from scipy.fft import dctn

from septum.dictionaries import dct
from septum.errors import InvalidInputError


@given(length=st.integers(1, 40))
def test_the_complete_dictionary_is_the_orthonormal_dct(length):
    np.testing.assert_allclose(dct(length).T, scipy_dct(np.eye(length), axis=0, norm="ortho"), atol=1e-12)


@pytest.mark.parametrize("shape", [(5, 7), (3, 4, 5)])
def test_images_are_separable_and_flattened_row_by_row(shape):
    image = np.random.default_rng(0).standard_normal(shape)
    np.testing.assert_allclose(dct(shape).T @ image.ravel(), dctn(image, norm="ortho").ravel(), atol=1e-12)


@given(length=st.integers(2, 12), more=st.integers(1, 10))
def test_overcomplete_atoms_have_unit_norm_no_mean_and_span_everything(length, more):
    atoms = dct(length, length + more)
    assert atoms.shape == (length, length + more)
    np.testing.assert_allclose(np.linalg.norm(atoms, axis=0), 1, atol=1e-12)
    np.testing.assert_allclose(atoms[:, 0], 1 / np.sqrt(length), atol=1e-12)
    np.testing.assert_allclose(atoms[:, 1:].sum(axis=0), 0, atol=1e-12)
    assert np.linalg.matrix_rank(atoms) == length


def test_counts_for_each_axis():
    assert dct((4, 6), 8).shape == (24, 64)
    assert dct((4, 6), (4, 9)).shape == (24, 36)


@pytest.mark.parametrize(
    ("shape", "n_atoms"),
    [(0, None), ((), None), ("12", None), (2.5, None), (4, 3), ((4, 4), (4, 4, 4)), (True, None)],
)
def test_bad_input_is_named(shape, n_atoms):
    with pytest.raises(InvalidInputError):
        dct(shape, n_atoms)
