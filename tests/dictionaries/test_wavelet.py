"""Wavelet atoms: the adjoint and the inverse are PyWavelets' transforms."""

import warnings

import numpy as np
import pytest
import pywt

from septum.dictionaries import wavelet
from septum.errors import InvalidInputError


@pytest.mark.parametrize("name", ["haar", "db2", "sym4"])
@pytest.mark.parametrize("shape", [16, (12, 12), (4, 8, 4)])
def test_orthogonal_wavelets_are_an_orthonormal_basis_and_analyse_as_pywavelets(name, shape):
    atoms = wavelet(shape, name, level=2)
    size = int(np.prod(shape))
    np.testing.assert_allclose(atoms.T @ atoms, np.eye(size), atol=1e-10)
    image = np.random.default_rng(0).standard_normal(shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # small images: every coefficient meets the border
        bands = pywt.wavedecn(image, name, mode="periodization", level=2)
    packed, _ = pywt.coeffs_to_array(bands)
    np.testing.assert_allclose(atoms.T @ image.ravel(), packed.ravel(), atol=1e-10)


def test_biorthogonal_wavelets_are_a_basis_of_unit_columns():
    atoms = wavelet((8, 8), "bior2.2")
    np.testing.assert_allclose(np.linalg.norm(atoms, axis=0), 1, atol=1e-12)
    assert np.linalg.matrix_rank(atoms) == 64


def test_the_default_level_is_the_most_that_all_axes_allow():
    np.testing.assert_array_equal(wavelet((12, 8)), wavelet((12, 8), level=2))


@pytest.mark.parametrize(
    ("shape", "options"),
    [(11, {}), (12, {"level": 3}), (12, {"level": 0}), (12, {"name": "morl"}), (12, {"name": "none"})],
)
def test_bad_input_is_named(shape, options):
    with pytest.raises(InvalidInputError):
        wavelet(shape, **options)
