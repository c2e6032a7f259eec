"""What lies beside an output: a JSON file that says how it was made, and BIDS names.

A sidecar holds the version, the command's parameters, the inputs by name, size and SHA-256, and the
certificate when there is one. It holds no date and no path, so the same run writes the same file.
"""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from septum import __version__
from septum.dmri.gradient import image_stem
from septum.dmri.output import Outputs
from septum.errors import InvalidInputError

BIDS_VERSION = "1.9.0"


def sha256(path: str | Path) -> str:
    """The SHA-256 of a file's bytes."""
    try:
        with Path(path).open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise InvalidInputError(f"cannot read {path}: {error.strerror or error}") from error


def provenance(
    command: str,
    *,
    inputs: Iterable[str | Path | None] = (),
    parameters: Mapping[str, Any] | None = None,
    certificate: Any = None,
    **more: Any,
) -> dict[str, Any]:
    """The content of a sidecar; inputs that are None are left out."""
    record: dict[str, Any] = {
        "GeneratedBy": {"Name": "septum", "Version": __version__},
        "Command": command,
        "Parameters": plain(dict(parameters or {})),
        "Inputs": [_identity(Path(path)) for path in inputs if path is not None],
    }
    if certificate is not None:
        record["Certificate"] = plain(
            certificate.to_dict() if hasattr(certificate, "to_dict") else certificate
        )
    return record | plain(more)


def write_beside(target: str | Path, content: Mapping[str, Any], *, outputs: Outputs) -> Path:
    """Stage the sidecar of an output."""
    path = sidecar_name(target)
    outputs.json(path, plain(content))
    return path


def sidecar_name(target: str | Path) -> Path:
    """Where the JSON of an output goes: out.nii.gz -> out.json."""
    target = Path(target)
    stem = image_stem(target)
    return target.with_name((stem if stem != target.name else target.stem) + ".json")


def bids_names(image: str | Path, folder: str | Path) -> dict[str, Path]:
    """BIDS-derivatives names for what denoising an image gives: `dwi`, `noise` and `residual`."""
    stem = image_stem(image)
    entities = [part for part in stem.split("_") if "-" in part and not part.startswith(("desc-", "stat-"))]
    prefix = "_".join(entities or ["sub-" + ("".join(c for c in stem if c.isalnum()) or "unknown")])
    folder = Path(folder)
    return {
        "dwi": folder / f"{prefix}_desc-denoised_dwi.nii.gz",
        "noise": folder / f"{prefix}_stat-noise_dwimap.nii.gz",
        "residual": folder / f"{prefix}_stat-residual_dwimap.nii.gz",
    }


def dataset_description(name: str = "septum outputs") -> dict[str, Any]:
    """The dataset_description.json of a BIDS-derivatives folder."""
    return {
        "Name": name,
        "BIDSVersion": BIDS_VERSION,
        "DatasetType": "derivative",
        "GeneratedBy": [{"Name": "septum", "Version": __version__}],
    }


def plain(value: Any) -> Any:
    """A value as JSON knows it: NumPy scalars and arrays, paths and tuples made plain, non-finite as None."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    if isinstance(value, Path):
        return value.name
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return str(value)


def _identity(path: Path) -> dict[str, Any]:
    return {"Name": path.name, "Bytes": path.stat().st_size, "SHA256": sha256(path)}
