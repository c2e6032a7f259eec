"""ODFs against DIPY's, peaks against known fibres, and pictures that show what they should."""

import warnings

import numpy as np
import pytest

from septum.dmri import load, multitensor, sample
from septum.dmri.glyph import draw_glyphs
from septum.dmri.image import DwiImage
from septum.dmri.odf import choose_shell, constant_solid_angle, odf_field_picture, peaks
from septum.dmri.sphere import icosphere
from septum.errors import InvalidInputError


@pytest.fixture(scope="module")
def crossing():
    return multitensor.simulate(shape=(12, 12, 6), crossing=80.0)


@pytest.fixture(scope="module")
def field(crossing):
    image = DwiImage.from_arrays(crossing.data, crossing.gradients, crossing.affine)
    return constant_solid_angle(image)


def test_the_coefficients_are_dipys():
    from dipy.reconst.shm import CsaOdfModel

    image = load(sample().dwi)
    with warnings.catch_warnings():  # DIPY warns of its own default
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        model = CsaOdfModel(image.gradients.dipy_table(), 6)
    expected = model.fit(image.slab(4, 5).astype(np.float64)).shm_coeff
    found = constant_solid_angle(image, order=6).coefficients[:, :, 4:5]
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_an_odf_has_unit_integral(field):
    nodes = icosphere(4).vertices
    values = field.sample(nodes)
    np.testing.assert_allclose(values.mean(axis=-1) * 4 * np.pi, 1, atol=0.02)


def test_outside_the_mask_there_is_nothing(crossing):
    image = DwiImage.from_arrays(crossing.data, crossing.gradients, mask=crossing.white_matter)
    found = constant_solid_angle(image)
    assert not found.coefficients[~crossing.white_matter].any()
    assert not peaks(found).values[~crossing.white_matter].any()
    np.testing.assert_array_equal(found.mask, crossing.white_matter)


def test_peaks_lie_along_the_fibres(crossing, field):
    found = peaks(field)
    one = (crossing.shares > 0).sum(axis=-1) == 1
    one &= crossing.fractions["wm"] == 1
    cosine = np.abs(np.sum(found.directions[one][:, 0] * crossing.directions[one][:, 0], axis=-1))
    assert np.degrees(np.arccos(np.clip(cosine, 0, 1))).max() < 1.0
    two = (crossing.shares > 0).sum(axis=-1) == 2
    between = np.abs(np.sum(crossing.directions[..., 0, :] * crossing.directions[..., 1, :], axis=-1))
    two &= (crossing.fractions["wm"] == 1) & (between < np.cos(np.radians(75)))
    assert two.sum() > 20
    for rank in range(2):
        cosine = np.abs(
            np.einsum("vpc,vc->vp", found.directions[two], crossing.directions[two][:, rank])
        ).max(axis=1)
        assert np.degrees(np.arccos(np.clip(cosine, 0, 1))).max() < 8


def test_peaks_agree_with_dipys(field):
    from dipy.data import get_sphere
    from dipy.direction.peaks import peak_directions

    sphere = get_sphere(name="repulsion724")
    found = peaks(field)
    voxels = np.argwhere(found.values[..., 0] > 0)[::29]
    for voxel in map(tuple, voxels):
        theirs, heights, _ = peak_directions(field.sample(sphere.vertices, voxel), sphere)
        count = int((found.values[voxel] > 0).sum())
        if len(theirs) > 1 and heights[-1] < 0.6 * heights[0]:
            continue  # a peak near the threshold may fall on either side of it
        assert count == min(len(theirs), 3)
        for direction in found.directions[voxel][:count]:
            assert np.degrees(np.arccos(min(1.0, np.abs(theirs @ direction).max()))) < 6


def test_an_isotropic_voxel_has_no_anisotropy(crossing, field):
    anisotropy = field.generalized_anisotropy()
    grey = crossing.fractions["gm"] == 1
    assert anisotropy[grey].max() < 1e-3
    assert anisotropy[crossing.white_matter].min() > 0.1
    values = field.sample(icosphere(4).vertices)
    plain = np.sqrt(values.var(axis=-1) / (values**2).mean(axis=-1))
    np.testing.assert_allclose(anisotropy, plain, atol=0.01)


def test_the_shell_is_chosen_by_its_directions(crossing):
    table = crossing.gradients
    assert choose_shell(table, 8).bvalue == 3000
    with pytest.raises(InvalidInputError, match="needs 66 directions"):
        choose_shell(table, 10)
    image = DwiImage.from_arrays(crossing.data, table)
    with pytest.raises(InvalidInputError, match="even"):
        constant_solid_angle(image, order=3)
    weighted = DwiImage.from_arrays(crossing.data[..., 1:], table.subset(range(1, 65)), require_b0=False)
    with pytest.raises(InvalidInputError, match="b0"):
        constant_solid_angle(weighted)


@pytest.mark.parametrize("level", [0, 1, 3])
def test_the_sphere_is_even_and_closed(level):
    sphere = icosphere(level)
    n = 10 * 4**level + 2
    assert sphere.vertices.shape == (n, 3)
    np.testing.assert_allclose(np.linalg.norm(sphere.vertices, axis=1), 1, atol=1e-12)
    assert len(sphere.faces) == 2 * n - 4
    assert (np.linalg.det(sphere.vertices[sphere.faces]) > 0).all()
    half = sphere.vertices[sphere.half()]
    both = np.concatenate([half, -half])
    assert np.abs(np.sort(both, axis=0) - np.sort(sphere.vertices, axis=0)).max() < 1e-9
    edges = {tuple(sorted(e)) for f in sphere.faces for e in ((f[0], f[1]), (f[1], f[2]), (f[2], f[0]))}
    around = {tuple(sorted((v, int(w)))) for v, ring in enumerate(sphere.neighbours()) for w in ring}
    assert around == edges


def colour(picture):
    """The colour where it is most opaque and brightest."""
    return picture[picture[..., 3] > 250][:, :3].astype(float).mean(axis=0)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_needle_is_drawn_where_it_points_in_its_colour(axis):
    sphere = icosphere(3)
    across = [k for k in range(3) if k != axis]
    for place, along in enumerate(across):
        needle = np.abs(sphere.vertices[:, along]) ** 30
        picture = draw_glyphs(needle[None, None], sphere, axis=axis, tile=41)
        assert picture.shape == (41, 41, 4)
        rows, columns = np.nonzero(picture[..., 3] > 128)
        wide, high = np.ptp(columns), np.ptp(rows)
        assert (wide > 3 * high) if place == 0 else (high > 3 * wide)
        assert int(np.argmax(colour(picture))) == along


def test_glyphs_lie_in_their_own_tiles():
    sphere = icosphere(2)
    radii = np.zeros((3, 2, len(sphere.vertices)))
    radii[2, 1] = 0.9
    picture = draw_glyphs(radii, sphere, tile=20)
    covered = picture[..., 3] > 0
    assert covered[:20, 40:].any()
    assert not covered[20:].any()
    assert not covered[:, :40].any()
    disc = covered.sum() / 400
    assert disc == pytest.approx(np.pi * 0.81 / 4, rel=0.1)


def test_the_picture_of_a_slice(field):
    figure = odf_field_picture(field, index=2, window=(slice(2, 9), slice(0, 12)))
    axes = figure.axes[0]
    assert axes.images[1].get_array().shape[2] == 4
    assert {t.get_text() for t in axes.texts} == {"L", "R", "A", "P"}
    assert np.allclose(axes.images[0].get_extent(), (1.5, 8.5, -0.5, 11.5))
    for wrong in (
        {"index": 99},
        {"axis": 3},
        {"window": (slice(5, 5), slice(None))},
        {"background": np.zeros((2, 2, 2))},
    ):
        with pytest.raises(InvalidInputError):
            odf_field_picture(field, **wrong)


def test_the_picture_follows_fsls_x_axis(crossing):
    """With det > 0 the .bvec's x is turned: the same fibres drawn from turned vectors look the same."""
    first = DwiImage.from_arrays(crossing.data, crossing.gradients, np.diag([-1.0, 1, 1, 1]))
    turned = (crossing.gradients.bvals, crossing.gradients.bvecs * [-1, 1, 1])
    second = DwiImage.from_arrays(crossing.data, turned, np.eye(4))
    directions = icosphere(1).vertices
    one, two = (constant_solid_angle(image).sample_in_voxel_axes(directions) for image in (first, second))
    np.testing.assert_allclose(one, two, atol=1e-5)
