"""Spherical ridgelets against their defining series, and the frame they form on the even functions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import eval_legendre, sph_harm_y

from septum.dictionaries import ridgelet_frame_bounds, spherical_ridgelets
from septum.dictionaries.ridgelet import half_sphere_spiral, ridgelet_counts, ridgelet_profiles
from septum.errors import InvalidInputError

RHO = 1 / 3.125


def directions(n, seed=0):
    u = np.random.default_rng(seed).standard_normal((n, 3))
    return u / np.linalg.norm(u, axis=1, keepdims=True)


def series(u, v, level, top, rho):
    """psi_{level, v}(u), term by term as it is defined, with nothing shared with the implementation."""
    terms, energy, eigenvalue, n = 0.0, 0.0, 1.0, 0
    while True:
        h = [np.exp(-rho * (n / 2**j) * (n / 2**j + 1)) for j in range(top + 1)]
        if h[top] < 1e-6:
            break
        band = h[0] if level == 0 else h[level] - h[level - 1]
        weight = (2 * n + 1) / (4 * np.pi)
        terms += weight * band * eigenvalue * eval_legendre(n, u @ v)
        energy += weight * (band * eigenvalue) ** 2
        n += 2
        eigenvalue *= -(n - 1) / n
    return terms / np.sqrt(energy)


@settings(deadline=None, max_examples=15)
@given(
    levels=st.integers(0, 3),
    rho=st.floats(0.15, 0.6),
    n=st.integers(1, 12),
    seed=st.integers(0, 2**32 - 1),
)
def test_atoms_match_their_defining_series(levels, rho, n, seed):
    u = directions(n, seed)
    m0 = int(np.floor((-1 + np.sqrt(1 + 4 * 4 * np.log(10) / rho)) / 2))
    expected = []
    for j in range(levels + 1):
        count = (2**j * m0 + 1) ** 2
        for k in range(count):
            z = 1 - 1 / (2 * count) - k * 2 / (2 * count)
            phi = k * np.pi * (3 - np.sqrt(5))
            v = np.array([np.sqrt(1 - z * z) * np.cos(phi), np.sqrt(1 - z * z) * np.sin(phi), z])
            expected.append((j, v))
    found = spherical_ridgelets(u, levels=levels, spread=rho)
    assert found.shape == (n, len(expected))
    for column in np.random.default_rng(seed).choice(len(expected), 5, replace=False):
        j, v = expected[column]
        atom = np.array([series(row, v, j, levels, rho) for row in u])
        norm = np.linalg.norm(atom)
        np.testing.assert_allclose(found[:, column] * norm, atom, atol=1e-10)


def test_the_paper_counts_and_unit_columns():
    atoms = spherical_ridgelets(directions(64))
    assert ridgelet_counts() == [25, 81, 289]
    assert atoms.shape == (64, 395)
    np.testing.assert_allclose(np.linalg.norm(atoms, axis=0), 1, atol=1e-12)


def test_a_direction_and_its_opposite_are_the_same():
    u = directions(20)
    np.testing.assert_allclose(spherical_ridgelets(u), spherical_ridgelets(-u), atol=1e-12)
    np.testing.assert_allclose(spherical_ridgelets(u), spherical_ridgelets(3 * u), atol=1e-12)


def test_a_ridgelet_is_largest_on_the_great_circle_around_its_direction():
    v = half_sphere_spiral(289)[0]
    u = directions(4000)
    finest = spherical_ridgelets(u)[:, 25 + 81]
    assert abs(u[np.argmax(np.abs(finest))] @ v) < 0.1


def test_profiles_have_unit_norm_on_the_sphere_and_stop_where_the_semigroup_does():
    degrees, profiles = ridgelet_profiles()
    weights = (2 * degrees + 1) / (4 * np.pi)
    np.testing.assert_allclose(profiles**2 @ weights, 1, rtol=1e-13)
    last = degrees[-1] / 4
    assert np.exp(-RHO * last * (last + 1)) >= 1e-6 > np.exp(-RHO * (last + 0.5) * (last + 1.5))


def quadrature(n):
    """Points and weights that integrate polynomials of degree below 2n on the sphere."""
    z, w = np.polynomial.legendre.leggauss(n)
    phi = 2 * np.pi * np.arange(2 * n) / (2 * n)
    Z, P = np.meshgrid(z, phi, indexing="ij")
    s = np.sqrt(1 - Z**2)
    points = np.stack([s * np.cos(P), s * np.sin(P), Z], axis=-1).reshape(-1, 3)
    return points, np.repeat(w * np.pi / n, 2 * n)


@pytest.mark.parametrize("order", [2, 8])
def test_frame_bounds_hold_and_are_reached_by_quadrature(order):
    """Atoms and functions are sampled and integrated; no coefficients are used."""
    lower, upper = ridgelet_frame_bounds(order)
    points, weights = quadrature(34)
    degrees, profiles = ridgelet_profiles()
    atoms = []
    for profile, count in zip(profiles, ridgelet_counts(), strict=True):
        cosines = points @ half_sphere_spiral(count).T
        atoms.append(
            sum(
                (2 * n + 1) / (4 * np.pi) * p * eval_legendre(n, cosines)
                for n, p in zip(degrees, profile, strict=True)
            )
        )
    atoms = np.concatenate(atoms, axis=1)
    np.testing.assert_allclose(weights @ atoms**2, 1, rtol=1e-10)
    theta, phi = np.arccos(points[:, 2]), np.arctan2(points[:, 1], points[:, 0])
    basis = []
    for n in range(0, order + 1, 2):
        basis.append(sph_harm_y(n, 0, theta, phi).real)
        for m in range(1, n + 1):
            value = np.sqrt(2) * sph_harm_y(n, m, theta, phi)
            basis += [value.real, value.imag]
    basis = np.array(basis)
    rng = np.random.default_rng(order)
    for c in rng.standard_normal((20, len(basis))):
        f = c @ basis
        energy = weights @ f**2
        analysis = np.sum(((weights * f) @ atoms) ** 2)
        assert lower * energy * (1 - 1e-9) <= analysis <= upper * energy * (1 + 1e-9)
    operator = (basis * weights) @ atoms
    extremes = np.linalg.eigvalsh(operator @ operator.T)[[0, -1]]
    np.testing.assert_allclose([lower, upper], extremes, rtol=1e-8)


def test_the_stated_bounds():
    """docs/baselines.md states these: the default dictionary is a frame on even functions up to order 8."""
    lower, upper = ridgelet_frame_bounds(8)
    assert lower > 1.09
    assert upper < 26.8
    assert ridgelet_frame_bounds(4)[0] > 15.5
    assert ridgelet_frame_bounds(26)[0] == 0.0


def test_the_sampled_atoms_span_all_signals_on_the_scheme():
    assert np.linalg.matrix_rank(spherical_ridgelets(directions(64))) == 64


@pytest.mark.parametrize(
    ("bad", "options"),
    [
        (np.zeros((4, 3)), {}),
        (np.ones((4, 2)), {}),
        (np.ones(3), {}),
        (np.full((4, 3), np.nan), {}),
        (np.eye(3), {"levels": -1}),
        (np.eye(3), {"levels": 1.5}),
        (np.eye(3), {"spread": 0}),
        (np.eye(3), {"spread": np.inf}),
        (np.eye(3), {"spread": "wide"}),
        (np.empty((0, 3)), {}),
    ],
)
def test_bad_input_is_named(bad, options):
    with pytest.raises(InvalidInputError):
        spherical_ridgelets(bad, **options)


def test_the_callers_directions_are_not_changed():
    u = 2 * directions(5)
    before = u.copy()
    spherical_ridgelets(u)
    np.testing.assert_array_equal(u, before)
