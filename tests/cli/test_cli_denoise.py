"""The commands denoise, learn, certify and show, in process, on a small simulated image."""

import json

import numpy as np
import pytest

from septum.cli import main
from septum.dmri import image, multitensor
from septum.dmri.output import Outputs


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """dwi.nii.gz with its gradients."""
    path = tmp_path_factory.mktemp("denoise")
    phantom = multitensor.simulate(shape=(16, 16, 6), snr=15, seed=3)
    with Outputs() as outputs:
        image.write(path / "dwi.nii.gz", 1000 * phantom.data, phantom.affine, outputs=outputs)
        outputs.text(path / "dwi.bval", phantom.gradients.bval_text())
        outputs.text(path / "dwi.bvec", phantom.gradients.bvec_text())
    return path


@pytest.fixture(scope="module")
def model(folder):
    assert main(["learn", str(folder / "dwi.nii.gz"), "-o", str(folder / "model.npz"), "--n-patches", "30", "-q"]) == 0
    return folder / "model.npz"


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def test_all_outputs_appear_with_sidecars(folder, model, tmp_path):
    extra = {"noise-map": "n", "residuals": "r", "components": "c", "variance-removed": "v"}
    words = [w for name, stem in extra.items() for w in (f"--{name}", str(tmp_path / f"{stem}.nii.gz"))]
    out = tmp_path / "out.nii.gz"
    command = ["denoise", str(folder / "dwi.nii.gz"), "-o", str(out), "--model", str(model), "-q", *words]
    assert main(command) == 0
    expected = [f"{s}.{e}" for s in ("c", "n", "out", "r", "v") for e in ("json", "nii.gz")] + ["out.bval", "out.bvec"]
    assert names(tmp_path) == sorted(expected)
    before = image.load(folder / "dwi.nii.gz")
    after = image.load(out)
    assert np.array_equal(after.affine, before.affine)
    residual = image.open_nifti(tmp_path / "r.nii.gz").get_fdata()
    assert np.allclose(before.data - after.data, residual, atol=1e-2)
    record = json.loads((tmp_path / "out.json").read_text())
    assert record["Certificate"]["attainment"] <= 1
    assert [item["Name"] for item in record["Inputs"]][:1] == ["dwi.nii.gz"]


def test_the_same_run_writes_the_same_bytes(folder, model, tmp_path):
    for name, threads in (("a", "1"), ("b", "2")):
        out = tmp_path / f"{name}.nii.gz"
        words = ["denoise", str(folder / "dwi.nii.gz"), "-o", str(out), "--n-patches", "20", "-q", "--n-threads", threads]
        assert main(words) == 0
    assert (tmp_path / "a.nii.gz").read_bytes() == (tmp_path / "b.nii.gz").read_bytes()
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_bids_names(folder, tmp_path):
    assert main(["denoise", str(folder / "dwi.nii.gz"), "--bids", str(tmp_path / "d"), "--no-dictionary", "-q"]) == 0
    found = names(tmp_path / "d")
    assert "sub-dwi_desc-denoised_dwi.nii.gz" in found
    assert "dataset_description.json" in found


def test_certify_says_which_codes(folder, model, tmp_path, capsys):
    assert main(["certify", str(model), str(folder / "dwi.nii.gz"), "--json"]) == 0
    own = json.loads(capsys.readouterr().out)
    assert own["codes"] == "saved"
    recorded = json.loads((folder / "model.json").read_text())["Certificate"]
    assert own["attainment"] == pytest.approx(recorded["attainment"], abs=1e-9)
    phantom = multitensor.simulate(shape=(16, 16, 6), snr=15, seed=4)
    with Outputs() as outputs:
        image.write(tmp_path / "x.nii.gz", 1000 * phantom.data, phantom.affine, outputs=outputs)
        outputs.text(tmp_path / "x.bval", phantom.gradients.bval_text())
        outputs.text(tmp_path / "x.bvec", phantom.gradients.bvec_text())
    assert main(["certify", str(model), str(tmp_path / "x.nii.gz")]) == 0
    assert "fresh codes" in capsys.readouterr().out


def test_show(model, tmp_path, capsys):
    assert main(["show", str(model), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["patch"] == "5 x 5 x 5"
    assert main(["show", str(model), "-o", str(tmp_path / "atoms"), "-q"]) == 0
    assert names(tmp_path / "atoms") == ["angular_atoms.png", "joint_atoms.png", "spatial_atoms.png"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["denoise", "DWI"], "-o OUT"),
        (["denoise", "none.nii.gz", "-o", "OUT"], "cannot read"),
        (["denoise", "DWI", "-o", "OUT.txt"], ".nii"),
        (["denoise", "DWI", "-o", "OUT", "--noise", "no-such-file"], "neither a number nor a file"),
        (["denoise", "DWI", "-o", "OUT", "--noise", "0"], "positive"),
        (["denoise", "DWI", "-o", "OUT", "--mask", "DWI"], "3-D"),
        (["denoise", "DWI", "-o", "OUT", "--model", "none.npz"], "none.npz"),
        (["denoise", "DWI", "-o", "OUT", "--model", "DWI"], "model"),
        (["denoise", "DWI", "-o", "OUT", "--patch", "a"], "whole number"),
        (["denoise", "DWI", "-o", "OUT", "--residuals", "OUT"], "twice"),
        (["learn", "DWI", "-o", "OUT.npz", "--alpha", "1e9"], "noise"),
        (["certify", "DWI", "DWI"], "model"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(folder, tmp_path, capsys, words, said):
    place = {"DWI": str(folder / "dwi.nii.gz"), "OUT": str(tmp_path / "out.nii.gz")}
    line = [place.get(w, str(tmp_path / w) if w.startswith(("OUT", "none")) else w) for w in words]
    assert main(line) == 2
    complaint = capsys.readouterr().err.strip()
    assert said in complaint
    assert len(complaint.splitlines()) == 1
    assert names(tmp_path) == []


def test_an_interruption_leaves_nothing(folder, tmp_path, monkeypatch):
    from septum.dmri import wiener

    def stop(*rest):
        raise KeyboardInterrupt

    import sys

    monkeypatch.setattr(sys.modules["septum.dmri.denoise"], "wiener_layer", stop)
    assert callable(wiener.wiener_layer)
    words = ["denoise", str(folder / "dwi.nii.gz"), "-o", str(tmp_path / "o.nii.gz"), "--no-dictionary", "-q"]
    assert main(words) == 130
    assert names(tmp_path) == []
