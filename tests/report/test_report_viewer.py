"""The viewer's pictures hold the slices they say they hold, the right way round, and stay small."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

from septum.errors import InvalidInputError
from septum.report import Viewer
from septum.report.raster import encode, quantise
from septum.report.viewer import LARGEST


def scan(shape=(10, 12, 5, 9), seed=0):
    rng = np.random.default_rng(seed)
    before = rng.random(shape) + 1.0
    g = rng.normal(size=(shape[3], 3))
    g /= np.linalg.norm(g, axis=1, keepdims=True)
    b = np.full(shape[3], 1000.0)
    b[0], g[0] = 0.0, 0.0
    return before, 0.9 * before, b, g


def sheet(pack, name):
    layer = next(layer for layer in pack["layers"] if layer["name"] == name)
    head, content = layer["uri"].split(",", 1)
    assert head == "data:image/png;base64"
    return Image.open(io.BytesIO(base64.b64decode(content))), layer


def tile(pack, name, slice_, volume):
    image, _ = sheet(pack, name)
    width, height = pack["tile"]
    return np.asarray(image)[slice_ * height : (slice_ + 1) * height, volume * width : (volume + 1) * width]


@pytest.mark.parametrize("name", ["before", "after"])
def test_every_tile_is_its_slice(name):
    before, after, b, g = scan()
    viewer = Viewer(before, after, bvals=b, bvecs=g)
    pack = viewer.pack()
    _, layer = sheet(pack, name)
    for i, z in enumerate(viewer.chosen_slices):
        for j, v in enumerate(viewer.chosen_volumes):
            plane = {"before": before, "after": after}[name][:, :, z, v]
            level = np.clip(plane / layer["high"][j], 0, 1) * 255
            got = tile(pack, name, i, j).astype(float)
            # Columns run along x, rows from +y down to -y.
            assert np.abs(got - level.T[::-1]).max() < 1.0


def test_before_and_after_share_one_scale_and_the_residual_is_their_difference():
    before, after, b, g = scan()
    pack = Viewer(before, after, bvals=b, bvecs=g).pack()
    scales = {layer["name"]: layer for layer in pack["layers"]}
    assert scales["before"]["high"] == scales["after"]["high"]
    assert scales["residual"]["low"] == [-value for value in scales["residual"]["high"]]
    given = Viewer(before, after, before - after, bvals=b, bvecs=g).pack()
    assert given["layers"][2] == pack["layers"][2]
    other = Viewer(before, after, after - before, bvals=b, bvecs=g).pack()
    assert (tile(pack, "residual", 0, 1).astype(int) + tile(other, "residual", 0, 1) == 255).mean() > 0.9


def test_choice_of_slices_and_volumes():
    before, after, b, g = scan((6, 6, 40, 70))
    viewer = Viewer(before, after, bvals=b, bvecs=g)
    assert len(viewer.chosen_slices) == 9
    assert len(set(viewer.chosen_volumes)) == 8
    assert viewer.chosen_volumes[0] == 0
    mask = np.zeros((6, 6, 40), dtype=bool)
    mask[..., 10:14] = True
    assert Viewer(before, after, mask=mask).chosen_slices == [10, 11, 12, 13]
    own = Viewer(before, after, slices=[3], volumes=[5, 2], labels=[f"v{i}" for i in range(70)])
    assert own.pack()["volumes"] == ["v5", "v2"]
    assert own.pack()["slices"] == ["Slice 4 of 40"]


def test_chosen_directions_are_far_apart():
    _, _, b, g = scan((2, 2, 1, 65))
    chosen = Viewer(np.ones((2, 2, 1, 65)), np.ones((2, 2, 1, 65)), bvals=b, bvecs=g).chosen_volumes[1:]
    apart = np.abs(g[chosen] @ g[chosen].T) - np.eye(7)
    first = np.abs(g[1:8] @ g[1:8].T) - np.eye(7)
    assert apart.max() < first.max()
    assert apart.max() < np.cos(np.radians(30))


def test_both_shells_are_shown():
    before, after, b, g = scan((2, 2, 1, 30))
    b[15:] = 3000.0
    chosen = np.array(Viewer(before, after, bvals=b, bvecs=g).chosen_volumes)
    assert sorted(np.unique(b[chosen])) == [0.0, 1000.0, 3000.0]


@pytest.mark.parametrize(("sign", "left", "right"), [(1, "L", "R"), (-1, "L", "R")])
def test_left_is_left_whatever_the_storage(sign, left, right):
    before = np.ones((8, 8, 1, 1))
    before[0] = 3.0
    pack = Viewer(before, before, affine=np.diag([sign * 2.0, 2, 2, 1])).pack()
    assert (pack["edges"]["left"], pack["edges"]["right"]) == (left, right)
    assert (pack["edges"]["top"], pack["edges"]["bottom"]) == ("A", "P")
    bright = tile(pack, "before", 0, 0).mean(axis=0).argmax()
    # x = 0 is the left-most plane when x runs to the right, the right-most when it runs to the left.
    assert bright == (0 if sign == 1 else 7)


def test_voxel_size_sets_the_shape_on_the_page():
    before = np.ones((8, 8, 1, 1))
    assert Viewer(before, before, affine=np.diag([1.0, 2, 2, 1])).aspect == pytest.approx(0.5)
    assert Viewer(before, before).aspect == 1.0


@pytest.mark.parametrize("shape", [(400, 300, 12, 20), (256, 256, 15, 65), (700, 40, 3, 4)])
def test_large_images_stay_small(shape):
    before = np.broadcast_to(np.ones((1, 1, 1, 1)), shape)
    viewer = Viewer(before, before)
    width, height = viewer.tile
    layers = 3 * len(viewer.chosen_volumes) + 1
    assert width <= 256
    assert height <= 256
    assert width * height * len(viewer.chosen_slices) * layers <= LARGEST
    assert len(viewer.chosen_slices) >= 2


def test_noise_maps_of_both_shapes():
    before, after, *_ = scan()
    one = Viewer(before, after, noise=np.ones(before.shape[:3])).pack()
    many = Viewer(before, after, noise=np.ones(before.shape)).pack()
    assert one["layers"][3]["columns"] == 1
    assert many["layers"][3]["columns"] == 8


def test_not_a_number_and_arrays_are_left_alone():
    before, after, *_ = scan()
    before[0, 0] = np.nan
    kept = before.copy()
    pack = Viewer(before, after).pack()
    np.testing.assert_array_equal(before, kept)
    assert all(np.isfinite(layer["high"]).all() for layer in pack["layers"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"after": np.ones((2, 2, 2, 1))}, "after has shape"),
        ({"residual": np.ones((2, 2, 2, 1))}, "residual has shape"),
        ({"noise": np.ones(3)}, "noise has shape"),
        ({"mask": np.ones((2, 2))}, "mask has shape"),
        ({"bvals": [1.0]}, "1 bvals do not match"),
        ({"labels": ["a"]}, "1 labels do not match"),
        ({"bvecs": np.ones((2, 2))}, "bvecs must have shape"),
        ({"slices": [9]}, "slices must be between 0 and 1"),
        ({"volumes": []}, "1 to 8 volumes"),
        ({"before": np.ones((2, 2, 2)), "after": np.ones((2, 2, 2))}, r"shape \(x, y, z, n\)"),
    ],
)
def test_bad_input(options, words):
    given = {"before": np.ones((2, 2, 2, 3)), "after": np.ones((2, 2, 2, 3))} | options
    with pytest.raises(InvalidInputError, match=words):
        Viewer(**given)


def test_quantise_and_encode():
    values = np.array([[-1.0, 0.0, 0.5, 1.0, 2.0, np.nan, np.inf]])
    levels = quantise(values, 0.0, 1.0)
    assert levels.tolist() == [[0, 0, 128, 255, 255, 0, 255]]
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(encode(levels)))), levels)
    colours = np.stack([np.arange(256)] * 3, axis=1).astype(np.uint8)
    palette = Image.open(io.BytesIO(encode(levels, colours)))
    assert palette.mode == "P"
    np.testing.assert_array_equal(np.asarray(palette.convert("RGB"))[..., 0], levels)
