"""The phantom: its formulas one by one, its totals, its noise, and what is known about each voxel."""

import warnings

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import eval_legendre, iv

from septum.dmri import multitensor, phantom
from septum.dmri.gradient import as_gradients
from septum.dmri.harmonic import basis, degrees, funk_hecke, laplace_beltrami
from septum.dmri.phantom import (
    FLUID,
    GREY,
    WHITE,
    add_noise,
    attenuation,
    centreline,
    fibre_density,
    relaxation,
    simulate,
    smooth_field,
)
from septum.errors import InvalidInputError


@pytest.fixture(scope="module")
def slab():
    """Six slices through the middle, without noise."""
    return simulate(slices=(22, 28))


@pytest.fixture(scope="module")
def coarse():
    """The whole sphere at 4 mm."""
    return simulate(size=25)


# --- harmonics -------------------------------------------------------------------------------------------


def sphere_quadrature(n=40):
    """Nodes and weights exact for polynomials of degree 2n - 1; the weights sum to 4 pi."""
    z, wz = np.polynomial.legendre.leggauss(n)
    longitude = np.arange(2 * n) * np.pi / n
    s = np.sqrt(1 - z**2)
    nodes = np.stack(
        [
            s[:, None] * np.cos(longitude),
            s[:, None] * np.sin(longitude),
            np.broadcast_to(z[:, None], (n, 2 * n)),
        ],
        axis=-1,
    )
    return nodes.reshape(-1, 3), np.repeat(wz, 2 * n) * np.pi / n


def test_the_harmonics_are_orthonormal():
    nodes, weights = sphere_quadrature()
    values = basis(nodes, 8)
    np.testing.assert_allclose((values * weights[:, None]).T @ values, np.eye(45), atol=1e-12)


def test_the_harmonics_are_dipys():
    from dipy.core.geometry import cart2sphere
    from dipy.reconst.shm import real_sh_descoteaux

    nodes, _ = sphere_quadrature(7)
    _, polar, longitude = cart2sphere(*nodes.T)
    with warnings.catch_warnings():  # DIPY warns of its own default
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        theirs, _, l = real_sh_descoteaux(8, polar, longitude, legacy=True)
    np.testing.assert_allclose(basis(nodes, 8), theirs, atol=1e-12)
    np.testing.assert_array_equal(degrees(8), l)
    np.testing.assert_array_equal(laplace_beltrami(8), -l * (l + 1.0))


@pytest.mark.parametrize("bvalue", [0.0, 1000.0, 3000.0])
def test_funk_hecke_against_adaptive_quadrature(bvalue):
    found = funk_hecke(lambda t: attenuation(bvalue, t), 8)
    for l, value in zip(degrees(8), found, strict=True):
        expected, _ = quad(lambda t, l=l: eval_legendre(l, t) * attenuation(bvalue, t), 0, 1, epsabs=1e-12)
        assert value == pytest.approx(expected, abs=1e-11)


def test_funk_hecke_is_the_convolution_on_the_sphere():
    nodes, weights = sphere_quadrature()
    random = np.random.default_rng(0)
    coefficients = random.standard_normal(45)
    density = basis(nodes, 8) @ coefficients
    for u in nodes[:: len(nodes) // 7]:
        plain = np.sum(weights * density * attenuation(2000.0, nodes @ u)) / (4 * np.pi)
        quick = basis(u[None], 8) @ (coefficients * funk_hecke(lambda t: attenuation(2000.0, t), 8))
        assert quick[0] == pytest.approx(plain, abs=1e-12)


def test_the_fibre_density_has_mean_one():
    assert quad(fibre_density, 0, 1)[0] == pytest.approx(1, abs=1e-10)
    assert funk_hecke(fibre_density, 8)[0] == pytest.approx(1, abs=1e-12)
    assert fibre_density(np.array([-0.3]))[0] == fibre_density(np.array([0.3]))[0]


def test_a_fibres_response_is_its_density_convolved_with_its_tensor():
    """Against the double integral, with the density cut at order 8 by projection on the harmonics."""
    table = phantom.default_scheme()
    axis = np.array([[0.36, 0.48, 0.8]])
    nodes, weights = sphere_quadrature()
    density = fibre_density(nodes @ axis[0])
    cut = basis(nodes, 8) @ (basis(nodes, 8).T @ (weights * density))
    response = phantom._responses(table, axis)[0]
    assert response[0] == pytest.approx(1, abs=1e-12)
    for k in (1, 20, 64):
        plain = np.sum(weights * cut * attenuation(table.bvals[k], nodes @ table.bvecs[k])) / (4 * np.pi)
        assert response[k] == pytest.approx(plain, abs=2e-4)


# --- geometry --------------------------------------------------------------------------------------------

CONTROL = np.array([[-50.0, 0, 0], [-20, 10, 5], [5, 12, -8], [30, 40.0, 0]])


def test_a_centreline_passes_its_control_points():
    steps = np.linalg.norm(np.diff(CONTROL, axis=0), axis=1)
    where = np.r_[0, np.cumsum(steps)] / steps.sum()
    points, _ = centreline(CONTROL, "symmetric", 20001)
    for t, point in zip(where, CONTROL, strict=True):
        assert np.linalg.norm(points[round(t * 20000)] - point) < 0.01


@pytest.mark.parametrize(
    ("mode", "inner"),
    [
        ("symmetric", CONTROL[2] - CONTROL[0]),
        ("incoming", CONTROL[1] - CONTROL[0]),
        ("outgoing", CONTROL[2] - CONTROL[1]),
    ],
)
def test_tangents_are_the_derivative_and_stand_on_the_sphere(mode, inner):
    n = 40001
    points, tangents = centreline(CONTROL, mode, n)
    numeric = np.diff(points, axis=0)
    numeric /= np.linalg.norm(numeric, axis=1, keepdims=True)
    middle = (tangents[1:] + tangents[:-1]) / 2
    assert np.abs(numeric - middle).max() < 1e-3
    np.testing.assert_allclose(tangents[0], -CONTROL[0] / np.linalg.norm(CONTROL[0]), atol=1e-12)
    np.testing.assert_allclose(tangents[-1], CONTROL[-1] / np.linalg.norm(CONTROL[-1]), atol=1e-12)
    steps = np.linalg.norm(np.diff(CONTROL, axis=0), axis=1)
    at = round(steps[0] / steps.sum() * (n - 1))
    np.testing.assert_allclose(tangents[at], inner / np.linalg.norm(inner), atol=1e-3)


def test_the_tissues_of_the_challenge():
    """The totals, in voxels of 2 mm, that the public simulator gives for this geometry."""
    grid = phantom._Grid(50, 0, 50)
    fractions = phantom._tissues(grid, phantom._bundles())
    assert {name: round(part.sum()) for name, part in fractions.items() if name != "background"} == {
        "wm": 8098,
        "gm": 54785,
        "csf": 2569,
    }
    inside = sum(fractions[name].sum() for name in ("wm", "gm", "csf"))
    assert inside == pytest.approx(4 / 3 * np.pi * 25**3, rel=1e-4)
    np.testing.assert_allclose(sum(fractions.values()), 1, atol=1e-12)


def test_white_matter_fractions_against_a_plain_count():
    bundles = phantom._bundles()
    grid = phantom._Grid(25, 12, 13)
    found = phantom._white_fraction(
        bundles.points, bundles.radii, grid.corner, grid.step, np.array(grid.shape)
    )
    partial = np.argwhere((found > 0) & (found < 1))
    sub = (np.stack(np.meshgrid(*[np.arange(10)] * 3, indexing="ij"), -1).reshape(-1, 3) + 0.5) / 10
    for voxel in partial[:: len(partial) // 15]:
        points = grid.corner + grid.step * (voxel + sub)
        inside = np.zeros(1000, dtype=bool)
        for line, radius in zip(bundles.points, bundles.radii, strict=True):
            corners = grid.corner + grid.step * (voxel + np.array(list(np.ndindex(2, 2, 2))))
            near = np.linalg.norm(corners[:, None] - line[None], axis=-1) < radius
            if near.any():
                inside |= (np.linalg.norm(points[:, None] - line[None], axis=-1) < radius).any(axis=1)
        assert found[tuple(voxel)] == pytest.approx(inside.mean(), abs=1e-12)


def test_tangent_shares_against_a_plain_count():
    bundles = phantom._bundles()
    grid = phantom._Grid(25, 12, 13)
    white = phantom._tissues(grid, bundles)["wm"]
    mixture = phantom._orientations(grid, bundles, white).toarray()
    np.testing.assert_allclose(mixture.sum(axis=1), white > 0, atol=1e-12)
    sub = (np.stack(np.meshgrid(*[np.arange(9)] * 3, indexing="ij"), -1).reshape(-1, 3) + 0.5) / 9
    some = np.flatnonzero(white > 0.2)
    for flat in some[:: len(some) // 6]:
        points = grid.corner + grid.step * (np.array(np.unravel_index(flat, grid.shape)) + sub)
        counts = np.zeros(mixture.shape[1])
        hits = np.stack([nearest_piece(bundles, b, points) for b in range(27)])
        for column in hits.T:
            found = column[column >= 0]
            counts[found] += 1 / max(len(found), 1)
        np.testing.assert_allclose(mixture[flat], counts / counts.sum(), atol=1e-12)


def nearest_piece(bundles, b, points):
    """For each point the nearest piece of bundle b that holds it, or -1."""
    line, tangents = bundles.points[b], bundles.tangents[b]
    gaps = points[:, None] - line
    between = np.einsum("npk,pk->np", gaps[:, :-1], tangents[:-1]) >= 0
    between &= np.einsum("npk,pk->np", gaps[:, 1:], tangents[1:]) <= 0
    along = np.diff(line, axis=0)
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    distance = np.linalg.norm(np.cross(gaps[:, :-1], along), axis=-1)
    distance[~between] = np.inf
    best = distance.argmin(axis=1)
    return np.where(distance.min(axis=1) <= bundles.radii[b], b * 100 + best, -1)


def test_fractions_of_a_ball():
    grid = phantom._Grid(50, 0, 50)
    part = phantom._ball_fraction(np.array([7.5, 0, -10]), 10.0, grid)
    assert part.sum() * grid.step**3 == pytest.approx(4 / 3 * np.pi * 1000, rel=2e-3)


def test_a_slab_is_a_part_of_the_whole():
    whole = simulate(size=20, snr=15.0)
    slab = simulate(size=20, snr=15.0, slices=(8, 12))
    for name in ("data", "truth", "directions", "shares"):
        np.testing.assert_array_equal(getattr(slab, name), getattr(whole, name)[:, :, 8:12])
    np.testing.assert_array_equal(slab.fractions["wm"], whole.fractions["wm"][:, :, 8:12])
    np.testing.assert_allclose(slab.affine @ [1, 2, 3, 1], whole.affine @ [1, 2, 11, 1])


def test_axes_are_read_alike_by_fsl_and_dipy(coarse):
    assert np.linalg.det(coarse.affine) < 0
    np.testing.assert_array_equal(coarse.gradients.in_voxel_axes(coarse.affine), coarse.gradients.bvecs)
    np.testing.assert_allclose(coarse.affine @ [12, 12, 12, 1], [0, 0, 0, 1], atol=1e-12)


# --- signal ----------------------------------------------------------------------------------------------


def pure(found, name):
    return found.fractions[name] > 0.999


def test_tissue_levels(slab):
    """Relative to white matter at b = 0, and at b = 3000: grey is the brightest tissue in every weighted volume."""
    truth = slab.truth
    assert relaxation(WHITE) == pytest.approx(0.2093, abs=2e-4)
    assert truth[pure(slab, "wm")][:, 0].mean() == pytest.approx(1, abs=0.005)
    assert truth[pure(slab, "gm")][:, 0].mean() == pytest.approx(1.54, abs=0.01)
    weighted = truth[pure(slab, "gm")][:, 1:]
    assert weighted.mean() == pytest.approx(0.85, abs=0.01)
    assert truth[pure(slab, "wm")][:, 1:].max() <= 0.55
    assert relaxation(FLUID) / relaxation(WHITE) == pytest.approx(2.5, abs=0.05)
    assert relaxation(GREY) / relaxation(WHITE) == pytest.approx(1.54, abs=0.01)
    assert np.array_equal(
        truth[slab.fractions["background"] == 1], np.zeros_like(truth[slab.fractions["background"] == 1])
    )
    assert truth.dtype == np.float32


def test_the_fluid_is_dark_when_weighted(coarse):
    fluid = coarse.truth[pure(coarse, "csf")]
    assert len(fluid) > 5
    assert fluid[:, 1:].max() < 1e-3
    assert fluid[:, 0].mean() == pytest.approx(2.5, abs=0.1)


def test_one_fibres_signal_is_lowest_along_it(slab):
    one = pure(slab, "wm") & (slab.shares[..., 0] > 0.999)
    cosine = np.abs(slab.directions[one][:, 0] @ slab.gradients.bvecs[1:].T)
    signal = slab.truth[one][:, 1:]
    assert len(signal) > 50
    assert signal[cosine > 0.98].mean() < 0.12 < 0.4 < signal[cosine < 0.1].mean()


def test_neighbours_in_the_relaxation_maps_correlate_by_a_tenth():
    field = smooth_field(np.random.default_rng(0), 60)
    assert field.std() == pytest.approx(1, abs=0.01)
    for axis in range(3):
        near = np.moveaxis(field, axis, 0)
        assert np.corrcoef(near[1:].ravel(), near[:-1].ravel())[0, 1] == pytest.approx(
            0.3 / 1.09 / 3, abs=0.01
        )
        assert np.corrcoef(near[2:].ravel(), near[:-2].ravel())[0, 1] == pytest.approx(0, abs=0.01)


def test_any_scheme_will_do():
    bvals = np.array([1000.0, 0, 2500, 995, 0])
    bvecs = np.array([[1.0, 0, 0], [0, 0, 0], [0, 1, 0], [0, 0, 1], [0, 1, 0]])
    found = simulate((bvals, bvecs), size=10)
    assert found.truth.shape == (10, 10, 10, 5)
    np.testing.assert_array_equal(found.truth[..., 1], found.truth[..., 4])
    grey = found.fractions["gm"] > 0.999
    ratio = found.truth[grey][:, 2] / found.truth[grey][:, 1]
    np.testing.assert_allclose(ratio, np.exp(-2500 * 0.2e-3), rtol=1e-5)


def test_directions_are_unit_and_ordered(slab):
    lengths = np.linalg.norm(slab.directions, axis=-1)
    np.testing.assert_allclose(lengths[slab.shares > 0], 1, atol=1e-6)
    assert not lengths[slab.shares == 0].any()
    assert (np.diff(slab.shares, axis=-1) <= 0).all()
    assert np.array_equal(slab.shares[..., 0] > 0, slab.fractions["wm"] > 0)
    assert (slab.shares.sum(axis=-1) <= 1 + 1e-6).all()
    two = slab.shares[..., 1] > 0
    assert two.sum() > 50
    cosine = np.abs(np.sum(slab.directions[two][:, 0] * slab.directions[two][:, 1], axis=-1))
    assert cosine.max() <= np.cos(np.radians(15)) + 1e-6


# --- noise -----------------------------------------------------------------------------------------------


def rician_mean(signal, sigma):
    x = -(signal**2) / (2 * sigma**2)
    return sigma * np.sqrt(np.pi / 2) * np.exp(x / 2) * ((1 - x) * iv(0, -x / 2) - x * iv(1, -x / 2))


@pytest.mark.parametrize("level", [0.0, 0.05, 0.3, 1.0])
def test_rician_noise_has_its_moments(level):
    truth = np.full((100, 100, 4, 5), level, dtype=np.float32)
    data = add_noise(truth, 10.0, seed=1).astype(float)
    assert (data**2).mean() == pytest.approx(level**2 + 2 * 0.1**2, rel=0.01)
    assert data.mean() == pytest.approx(rician_mean(level, 0.1), rel=0.005)
    assert data.min() >= 0


@pytest.mark.parametrize("coils", [1, 4, 8])
def test_chi_noise_has_its_second_moment(coils):
    truth = np.full((60, 60, 4, 5), 0.5, dtype=np.float32)
    squares = add_noise(truth, 10.0, noise="chi", n_coils=coils).astype(float) ** 2
    assert squares.mean() == pytest.approx(0.25 + 2 * coils * 0.01, rel=0.01)
    assert squares.var() == pytest.approx(4 * 0.01 * 0.25 + 4 * coils * 0.01**2, rel=0.03)


def test_gaussian_noise_is_symmetric():
    data = add_noise(np.zeros((60, 60, 4, 5), dtype=np.float32), 20.0, noise="gaussian")
    assert data.mean() == pytest.approx(0, abs=1e-3)
    assert data.std() == pytest.approx(0.05, rel=0.01)


def test_noise_follows_its_seed_and_leaves_the_truth_alone(coarse):
    kept = coarse.truth.copy()
    one, again, other = (coarse.with_noise(20.0, seed=s).data for s in (3, 3, 4))
    np.testing.assert_array_equal(one, again)
    assert np.abs(one - other).max() > 0.05
    np.testing.assert_array_equal(coarse.truth, kept)
    assert coarse.with_noise(20.0).sigma == 0.05
    assert coarse.with_noise(None).data is coarse.truth


def test_noise_of_other_snrs_is_other_noise():
    truth = np.ones((40, 40, 2, 5), dtype=np.float32)
    first, second = (add_noise(truth, snr, noise="gaussian") - truth for snr in (10.0, 30.0))
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 0.05


@pytest.mark.parametrize(
    "options",
    [
        {"snr": 0.0},
        {"snr": np.nan},
        {"noise": "pink"},
        {"n_coils": 4},
        {"size": 1},
        {"slices": (5, 5)},
        {"slices": (0, 99)},
    ],
)
def test_bad_options_are_refused(options):
    with pytest.raises(InvalidInputError):
        simulate(**({"size": 6} | options))


def test_progress_is_reported():
    seen = []
    simulate(size=6, callback=lambda fraction, text: seen.append((fraction, text)))
    fractions = [fraction for fraction, _ in seen]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0


# --- crossing tensors ------------------------------------------------------------------------------------


def test_crossing_tensors_by_their_formula():
    found = multitensor.simulate(shape=(12, 12, 6), crossing=70.0)
    table = found.gradients
    l1, l2, _ = multitensor.EIGENVALUES
    pure_white = found.fractions["wm"] == 1
    for voxel in np.argwhere(pure_white)[::17]:
        expected = np.zeros(len(table))
        for direction, share in zip(found.directions[tuple(voxel)], found.shares[tuple(voxel)], strict=True):
            cosine = table.bvecs @ direction.astype(float)
            expected += share * np.exp(-table.bvals * (l2 + (l1 - l2) * cosine**2))
        np.testing.assert_allclose(found.truth[tuple(voxel)], expected, atol=2e-6)
    counts = np.bincount((found.shares > 0).sum(axis=-1).ravel(), minlength=4)
    assert (counts > 0).all()
    two = (found.shares > 0).sum(axis=-1) == 2
    cosine = np.abs(np.sum(found.directions[two][:, 0] * found.directions[two][:, 1], axis=-1))
    assert np.isclose(np.degrees(np.arccos(cosine)), 70, atol=0.1).any()


def test_crossing_tensors_take_any_scheme_and_noise():
    table = as_gradients(([0.0, 1000, 2000], [[0, 0, 0], [1, 0, 0], [0, 0, 1]]))
    clean = multitensor.simulate(table, shape=(8, 8, 4))
    noisy = multitensor.simulate(table, shape=(8, 8, 4), snr=20.0, seed=2)
    np.testing.assert_array_equal(clean.truth, noisy.truth)
    assert 0.02 < np.abs(noisy.data - noisy.truth).mean() < 0.06
    np.testing.assert_allclose(sum(clean.fractions.values()), 1, atol=1e-6)
    with pytest.raises(InvalidInputError):
        multitensor.simulate(table, crossing=120)
    with pytest.raises(InvalidInputError):
        multitensor.simulate(table, shape=(2, 8, 8))
