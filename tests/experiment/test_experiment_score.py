"""Patches there and back, PSNR by its formula, and intervals that hold what they claim."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from septum.errors import InvalidInputError
from septum.experiment import protocol, score

PATCH = protocol.PATCH


@given(st.integers(PATCH, 30), st.integers(PATCH, 30), st.integers(1, 3), st.integers(1, PATCH))
def test_joining_patches_gives_the_slices_back(x, y, n, stride):
    image = np.random.default_rng(0).standard_normal((x, y, n, 2))
    patches = protocol.cut(image, stride)
    np.testing.assert_allclose(protocol.join(patches, image.shape, stride), image, atol=1e-12)


def test_overlaps_are_averaged():
    image = np.zeros((PATCH + 1, PATCH, 1, 1))
    patches = protocol.cut(image, 1)
    assert len(patches) == 2
    patches[0], patches[1] = 1.0, 3.0
    joined = protocol.join(patches, image.shape, 1)[:, :, 0, 0]
    np.testing.assert_array_equal(joined[0], 1.0)
    np.testing.assert_array_equal(joined[1:-1], 2.0)
    np.testing.assert_array_equal(joined[-1], 3.0)


def test_centred_patches_have_no_means():
    patches = np.random.default_rng(0).standard_normal((3, 5, 7))
    centred, means = protocol.centre(patches)
    np.testing.assert_allclose(centred.mean(axis=1), 0.0, atol=1e-14)
    np.testing.assert_allclose(centred.mean(axis=2), 0.0, atol=1e-14)
    np.testing.assert_allclose(centred + means, patches)


def test_training_never_comes_near_the_test():
    usable = protocol.training_slices(range(50), (25, 30, 35), (20, 40))
    assert usable == [z for z in range(50) if not 22 < z < 38 and z not in (20, 40)]


def test_training_patches_are_patches_of_the_slices_asked_for():
    image = np.zeros((20, 15, 4, 3))
    image[:] = np.arange(4)[:, None]
    image[..., 1] += 10
    patches = protocol.training_patches(image, [1, 3], 30, np.random.default_rng(0))
    assert patches.shape == (30, 3, PATCH * PATCH)
    assert set(np.unique(patches[:, 0])) == {1.0, 3.0}
    np.testing.assert_array_equal(patches[:, 1], patches[:, 0] + 10)
    with pytest.raises(InvalidInputError, match="do not fit"):
        protocol.training_patches(image[:, :5], [1], 1, np.random.default_rng(0))


@pytest.mark.parametrize("refit", [False, True])
def test_reconstruction_with_orthonormal_atoms_is_thresholding(refit):
    rng = np.random.default_rng(0)
    sides = [np.linalg.qr(rng.standard_normal((n, n)))[0] for n in (4, PATCH * PATCH)]
    patches = rng.standard_normal((2, 4, PATCH * PATCH))
    coded = protocol.reconstruct(sides, patches, 1.0, refit=refit)
    plain = sides[0].T @ patches @ sides[1]
    kept = np.abs(plain) > 1.0
    codes = plain * kept if refit else np.sign(plain) * np.maximum(np.abs(plain) - 1.0, 0.0)
    np.testing.assert_allclose(coded.patches, sides[0] @ codes @ sides[1].T, atol=1e-8)
    assert coded.gap <= protocol.LASSO_TOLERANCE
    assert coded.nonzeros == kept.sum() / 2
    np.testing.assert_array_equal(coded.use, kept.sum(axis=0))


def test_a_spatial_identity_codes_each_voxel_alone():
    rng = np.random.default_rng(1)
    angular = rng.standard_normal((6, 9))
    angular /= np.linalg.norm(angular, axis=0)
    patches = rng.standard_normal((2, 6, 5))
    alone = protocol.reconstruct([angular, None], patches, 0.5, refit=False)
    one = protocol.reconstruct([angular, None], patches[1:, :, 2:3], 0.5, refit=False)
    np.testing.assert_allclose(alone.patches[1:, :, 2:3], one.patches, atol=1e-10)
    assert alone.use.shape == (9,)


def test_psnr_is_its_formula():
    reference = np.zeros((2, 2, 2, 1))
    reference[0, 0, 0], reference[0, 0, 1] = 2.0, 4.0
    image = reference + 0.1
    np.testing.assert_allclose(score.psnr(image, reference), [10 * np.log10(400), 10 * np.log10(1600)])
    assert np.isposinf(score.psnr(reference, reference)).all()


def test_paired_differences_hold_scipys_interval():
    a, b = np.array([3.0, 4.5, 5.0]), np.array([2.0, 3.0, 4.5])
    found = score.paired(a, b)
    interval = stats.ttest_rel(a, b).confidence_interval(score.CONFIDENCE)
    assert found.mean == pytest.approx(1.0)
    assert found.mean - found.half_width == pytest.approx(interval.low)
    assert found.mean + found.half_width == pytest.approx(interval.high)


def test_verdicts():
    assert score.paired([1.0, 1.1, 1.05], [0.0, 0.0, 0.0]).verdict == "higher"
    assert score.paired([0.0, 0.0, 0.0], [1.0, 1.1, 1.05]).verdict == "lower"
    assert score.paired([1.0, -1.0, 0.1], [0.0, 0.0, 0.0]).verdict == "undecided"
    assert score.paired([1.0], [0.0]).verdict == "one pair"
    assert score.spread([1.0]) is None
    assert score.spread([1.0, 3.0]) == pytest.approx(np.sqrt(2))


def test_angles_forget_the_sign():
    np.testing.assert_allclose(score.angles([[1.0, 0, 0], [0, 0, 1.0]], [[-1.0, 0, 0], [0, 1.0, 0]]), [0.0, 90.0])
