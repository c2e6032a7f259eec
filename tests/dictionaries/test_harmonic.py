"""Even spherical harmonics against SciPy's."""

import numpy as np
import pytest
from scipy.special import sph_harm_y

from septum.dictionaries import spherical_harmonics
from septum.errors import InvalidInputError


def directions(n):
    u = np.random.default_rng(0).standard_normal((n, 3))
    return u / np.linalg.norm(u, axis=1, keepdims=True)


@pytest.mark.parametrize("basis", ["descoteaux", "tournier"])
def test_columns_are_scipys_harmonics_up_to_order_and_sign(basis):
    u = directions(60)
    theta, phi = np.arccos(u[:, 2]), np.arctan2(u[:, 1], u[:, 0])
    expected = []
    for n in range(0, 7, 2):
        expected.append(sph_harm_y(n, 0, theta, phi).real)
        for m in range(1, n + 1):
            expected += [sph_harm_y(n, m, theta, phi).real, sph_harm_y(n, m, theta, phi).imag]
    expected = np.array(expected).T
    expected /= np.linalg.norm(expected, axis=0)
    found = spherical_harmonics(u, order=6, basis=basis)
    assert found.shape == (60, 28)
    matches = np.abs(expected.T @ found).max(axis=1)
    np.testing.assert_allclose(matches, 1, atol=1e-12)


def test_unit_columns_and_even_functions():
    u = directions(50)
    atoms = spherical_harmonics(u)
    assert atoms.shape == (50, 45)
    np.testing.assert_allclose(np.linalg.norm(atoms, axis=0), 1, atol=1e-12)
    np.testing.assert_allclose(spherical_harmonics(-u), atoms, atol=1e-12)


@pytest.mark.parametrize("options", [{"order": 3}, {"order": -2}, {"order": 2.0}, {"basis": "fourier"}])
def test_bad_input_is_named(options):
    with pytest.raises(InvalidInputError):
        spherical_harmonics(directions(10), **options)
