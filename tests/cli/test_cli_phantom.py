"""septum phantom: what it writes, the same for the same seed, and what it refuses."""

import json

import nibabel as nib
import numpy as np
import pytest

from septum.cli import main
from septum.dmri import load
from septum.dmri.phantom import simulate
from septum.dmri.sidecar import sha256

SMALL = ["--size", "12", "--slices", "5:9", "-q"]
MAPS = {
    "fraction_wm",
    "fraction_gm",
    "fraction_csf",
    "fraction_background",
    "mask",
    "mask_wm",
    "directions",
    "direction_shares",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("phantom") / "out"
    assert main(["phantom", "-o", str(path), "--snr", "10,30", *SMALL]) == 0
    return path


def test_every_image_has_its_gradients_and_everything_its_sidecar(folder):
    names = {p.name for p in folder.iterdir()}
    expected = {f"{m}.{e}" for m in MAPS for e in ("nii.gz", "json")}
    for image in ("dwi_snr-10", "dwi_snr-30", "truth"):
        expected |= {f"{image}.{e}" for e in ("nii.gz", "bval", "bvec", "json")}
    assert names == expected


def test_the_files_hold_what_the_function_gives(folder):
    phantom = simulate(size=12, slices=(5, 9), snr=10.0)
    noisy = load(folder / "dwi_snr-10.nii.gz")
    np.testing.assert_array_equal(noisy.data, phantom.data)
    np.testing.assert_allclose(noisy.affine, phantom.affine, atol=1e-5)
    np.testing.assert_array_equal(load(folder / "truth.nii.gz").data, phantom.truth)
    np.testing.assert_allclose(noisy.bvecs, phantom.gradients.bvecs, atol=1e-7)
    for name, part in phantom.fractions.items():
        np.testing.assert_array_equal(
            nib.load(folder / f"fraction_{name}.nii.gz").get_fdata(dtype=np.float32), part
        )
    directions = nib.load(folder / "directions.nii.gz").get_fdata(dtype=np.float32)
    np.testing.assert_array_equal(directions.reshape(12, 12, 4, 3, 3), phantom.directions)
    mask = nib.load(folder / "mask.nii.gz")
    assert mask.get_data_dtype() == np.uint8
    assert np.array_equal(np.asarray(mask.dataobj).astype(bool), phantom.mask)


def test_the_sidecar_says_how(folder):
    record = json.loads((folder / "dwi_snr-30.json").read_text())
    assert record["GeneratedBy"]["Name"] == "septum"
    assert record["Parameters"]["snr"] == 30.0
    assert record["Parameters"]["seed"] == 0
    assert str(folder) not in (folder / "dwi_snr-30.json").read_text()


def test_the_same_seed_makes_the_same_files_for_any_threads(folder, tmp_path):
    for threads in ("1", "2"):
        again = tmp_path / threads
        assert main(["phantom", "-o", str(again), "--snr", "10,30", *SMALL, "--n-threads", threads]) == 0
        for path in folder.iterdir():
            assert path.read_bytes() == (again / path.name).read_bytes(), path.name
    assert main(["phantom", "-o", str(tmp_path / "other"), "--snr", "10,30", *SMALL, "--seed", "1"]) == 0
    name = "dwi_snr-10.nii.gz"
    assert (folder / name).read_bytes() != (tmp_path / "other" / name).read_bytes()


def test_nothing_is_overwritten_without_force(folder, capsys):
    before = {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in folder.iterdir()}
    words = ["phantom", "-o", str(folder), *SMALL]
    assert main(words) == 2
    assert "--force" in capsys.readouterr().err
    assert before == {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in folder.iterdir()}
    assert main([*words, "--force"]) == 0


def test_a_scheme_and_a_kind_of_noise_are_taken(tmp_path):
    np.savetxt(tmp_path / "s.txt", [[0, 0, 0, 0], [1, 0, 0, 1000], [0, 1, 0, 2000]])
    words = ["--scheme", str(tmp_path / "s.txt"), "--noise", "chi", "--coils", "4", "--snr", "20"]
    assert main(["phantom", "-o", str(tmp_path / "out"), *words, *SMALL]) == 0
    found = load(tmp_path / "out" / "dwi_snr-20.nii.gz")
    assert [s.bvalue for s in found.gradients.shells] == [1000, 2000]
    record = json.loads((tmp_path / "out" / "dwi_snr-20.json").read_text())
    assert record["Inputs"][0]["SHA256"] == sha256(tmp_path / "s.txt")
    assert record["Parameters"]["n_coils"] == 4


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--scheme", "/nonexistent/s.txt"], "cannot read"),
        (["--slices", "9:5"], "do not lie"),
        (["--size", "1"], "between 2 and 400"),
        (["--coils", "3"], "one channel"),
    ],
)
def test_what_cannot_be_is_one_line_and_leaves_nothing(tmp_path, words, reason, capsys):
    assert main(["phantom", "-o", str(tmp_path / "out"), "--size", "8", *words]) == 2
    text = capsys.readouterr().err
    assert reason in text.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["phantom", "-o", str(tmp_path / "file" / "out"), *SMALL]) == 2
    assert capsys.readouterr().err.count("\n") == 1
