"""Sidecars and names."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

import septum
from septum.dmri.output import Outputs
from septum.dmri.sidecar import (
    bids_names,
    dataset_description,
    plain,
    provenance,
    sha256,
    sidecar_name,
    write_beside,
)
from septum.errors import InvalidInputError


def test_the_hash_is_that_of_the_file(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"abc" * 100_000)
    assert sha256(path) == hashlib.sha256(b"abc" * 100_000).hexdigest()
    with pytest.raises(InvalidInputError, match="cannot read"):
        sha256(tmp_path / "none")


def test_a_sidecar_names_inputs_parameters_version_and_certificate(tmp_path):
    path = tmp_path / "dwi.nii.gz"
    path.write_bytes(b"image")

    class Certificate:
        def to_dict(self):
            return {"gap": np.float32(0.5), "verdict": "improvable"}

    record = provenance(
        "denoise",
        inputs=[path, None],
        parameters={"patch": (5, 5), "alpha": np.float64(2)},
        certificate=Certificate(),
    )
    with Outputs() as outputs:
        name = write_beside(tmp_path / "out.nii.gz", record, outputs=outputs)
    found = json.loads((tmp_path / "out.json").read_text())
    assert name == tmp_path / "out.json"
    assert found["GeneratedBy"] == {"Name": "septum", "Version": septum.__version__}
    assert found["Inputs"] == [{"Name": "dwi.nii.gz", "Bytes": 5, "SHA256": sha256(path)}]
    assert found["Parameters"] == {"patch": [5, 5], "alpha": 2.0}
    assert found["Certificate"] == {"gap": 0.5, "verdict": "improvable"}


def test_json_holds_plain_values_only():
    value = {
        1: np.arange(2),
        "a": np.float32(np.nan),
        "b": (np.int64(3), {np.True_}),
        "c": Path("x/y"),
        "d": None,
        "e": 1j,
    }
    assert plain(value) == {"1": [0, 1], "a": None, "b": [3, [True]], "c": "y", "d": None, "e": "1j"}


@pytest.mark.parametrize(
    ("target", "name"),
    [("a/out.nii.gz", "a/out.json"), ("out.nii", "out.json"), ("m.npz", "m.json"), ("p.x.png", "p.x.json")],
)
def test_names_of_sidecars(target, name):
    assert sidecar_name(target) == Path(name)


@pytest.mark.parametrize(
    ("image", "prefix"),
    [
        ("sub-01_ses-2_dir-AP_dwi.nii.gz", "sub-01_ses-2_dir-AP"),
        ("x/sub-01_desc-preproc_dwi.nii", "sub-01"),
        ("my scan.nii.gz", "sub-myscan"),
    ],
)
def test_bids_names(image, prefix):
    names = bids_names(image, "out")
    assert names == {
        "dwi": Path(f"out/{prefix}_desc-denoised_dwi.nii.gz"),
        "noise": Path(f"out/{prefix}_stat-noise_dwimap.nii.gz"),
        "residual": Path(f"out/{prefix}_stat-residual_dwimap.nii.gz"),
    }
    assert dataset_description()["DatasetType"] == "derivative"
