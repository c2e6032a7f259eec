"""Tilings cover everything; gather and scatter are inverse; the cosines are orthonormal."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from septum.dmri import patch
from septum.errors import InvalidInputError


@given(length=st.integers(1, 40), size=st.integers(1, 9), stride=st.integers(1, 9))
def test_starts_cover_every_voxel_and_stay_inside(length, size, stride):
    size = min(size, length)
    starts = patch.starts_along(length, size, min(stride, size))
    seen = np.zeros(length, dtype=bool)
    for s in starts:
        assert 0 <= s <= length - size
        seen[s : s + size] = True
    assert seen.all()


def test_tile_shrinks_patches_to_the_volume():
    tiling = patch.tile((8, 8, 3, 65), (5, 5, 5), (3, 3, 3))
    assert tiling.shape == (5, 5, 3)
    assert tiling.n_voxels == 75
    assert tiling.n_patches == 2 * 2 * 1


def test_gather_then_scatter_gives_the_volume_back():
    volume = np.random.default_rng(0).random((6, 7, 5, 3)).astype(np.float32)
    tiling = patch.tile(volume.shape, (3, 2, 4), (2, 1, 3))
    total, weight = np.zeros_like(volume), np.zeros(volume.shape[:3], np.float32)
    block = np.empty((tiling.n_voxels, 3), np.float32)
    for x in tiling.starts[0]:
        for y in tiling.starts[1]:
            for z in tiling.starts[2]:
                patch.gather(volume, x, y, z, tiling.shape, block)
                assert np.array_equal(block, volume[x : x + 3, y : y + 2, z : z + 4].reshape(-1, 3))
                patch.scatter(total, weight, x, y, z, tiling.shape, block, np.float32(0.5))
    assert np.allclose(total / weight[..., None], volume, rtol=1e-5)


@pytest.mark.parametrize("shape", [(4, 4, 4), (8, 8, 1), (5, 3, 2)])
def test_cosines_are_orthonormal(shape):
    basis = patch.joint_cosines(shape)
    assert np.allclose(basis @ basis.T, np.eye(len(basis)), atol=1e-5)
    assert np.allclose(basis[0], len(basis) ** -0.5)


@pytest.mark.parametrize("wrong", [0, -1, (5, 5, 5, 5), (5, 0, 5), (2.5, 2, 2), "ab"])
def test_bad_shapes(wrong):
    with pytest.raises(InvalidInputError, match="patch"):
        patch.parse_shape(wrong)


def test_shapes():
    assert patch.parse_shape(5) == (5, 5, 5)
    assert patch.parse_shape((12, 12)) == (12, 12, 1)
