"""septum odf: maps, peaks and pictures of the sample."""

import json

import nibabel as nib
import numpy as np
import pytest

from septum.cli import main
from septum.dmri import load, sample
from septum.dmri.image import save, write_gradients
from septum.dmri.odf import constant_solid_angle
from septum.dmri.output import Outputs
from septum.dmri.sidecar import sha256


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A part of the sample, with a mask."""
    folder = tmp_path_factory.mktemp("dwi")
    image = load(sample().dwi)
    save(folder / "dwi.nii.gz", image.data[14:26, 10:20, 3:6], image)
    with Outputs() as outputs:
        write_gradients(folder / "dwi.nii.gz", image, outputs=outputs)
    mask = np.zeros((12, 10, 3), dtype=np.uint8)
    mask[2:, 1:] = 1
    save(folder / "mask.nii.gz", mask, image, dtype=np.uint8)
    return folder


def test_maps_and_pictures_are_written(small, tmp_path):
    out = tmp_path / "odf"
    words = ["--mask", str(small / "mask.nii.gz"), "--order", "6", "--slice", "0", "--slice", "2", "-q"]
    assert main(["odf", str(small / "dwi.nii.gz"), "-o", str(out), *words]) == 0
    stems = ["odf_sh", "gfa", "peaks", "peak_values", "odf_z0", "odf_z2"]
    expected = (
        {f"{s}.json" for s in stems} | {f"{s}.nii.gz" for s in stems[:4]} | {f"{s}.png" for s in stems[4:]}
    )
    assert {p.name for p in out.iterdir()} == expected
    image = load(small / "dwi.nii.gz", mask=small / "mask.nii.gz")
    coefficients = nib.load(out / "odf_sh.nii.gz")
    np.testing.assert_array_equal(
        coefficients.get_fdata(dtype=np.float32), constant_solid_angle(image, order=6).coefficients
    )
    np.testing.assert_allclose(coefficients.affine, image.affine)
    assert nib.load(out / "peaks.nii.gz").shape == (12, 10, 3, 9)
    record = json.loads((out / "gfa.json").read_text())
    assert record["Inputs"][0]["SHA256"] == sha256(small / "dwi.nii.gz")
    assert record["Parameters"]["order"] == 6
    assert (out / "odf_z0.png").read_bytes()[:4] == b"\x89PNG"


def test_the_same_run_makes_the_same_files(small, tmp_path):
    for name, threads in (("a", "1"), ("b", "2")):
        words = ["--n-threads", threads, "--axis", "x", "-q"]
        assert main(["odf", str(small / "dwi.nii.gz"), "-o", str(tmp_path / name), *words]) == 0
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes(), path.name


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--order", "12"], "directions on one shell"),
        (["--order", "5"], "even"),
        (["--slice", "99"], "slices 0 to 2"),
        (["--mask", "/nonexistent.nii"], "cannot read"),
        (["--bval", "/nonexistent.bval"], "cannot read"),
    ],
)
def test_what_cannot_be_is_one_line_and_leaves_nothing(small, tmp_path, words, reason, capsys):
    assert main(["odf", str(small / "dwi.nii.gz"), "-o", str(tmp_path / "out"), *words]) == 2
    text = capsys.readouterr().err
    assert text.count("\n") == 1
    assert reason in text
    assert list(tmp_path.iterdir()) == []
