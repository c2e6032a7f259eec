"""Models in files: one .npz archive of plain arrays with a JSON header, never a pickle.

    header   JSON: format, versions, parameters, certificate, what was fitted, the user's extra values, and for every
             array its shape, type and SHA-256
    seal     the SHA-256 of the header
    ...      dictionaries, sparse codes, history, the state of partial_fit, the user's extra arrays

So a file that was cut, changed or made by something else is refused with the reason. The seal finds accidents
and careless edits; it is no signature. Files appear whole or not at all, and the same estimator gives the
same bytes.
"""

import dataclasses
import hashlib
import json
import os
import secrets
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

import septum.loss
import septum.regularizer
from septum import __version__
from septum.certificate import Certificate
from septum.errors import InvalidInputError, InvalidTypeError
from septum.estimator import SeparableDictionaryLearning
from septum.kronecker import sizes
from septum.learning.online import Online, Statistic

FORMAT = "septum-model"
FORMAT_VERSION = 1

_TABLE = ("objective", "lower_bound", "attainment", "polar", "seconds", "atoms")
_PLAIN = ("n_iter_", "stopped_because_", "n_samples_seen_", "n_steps_")
_LEFT_OUT = ("callback",)


def save(
    est: SeparableDictionaryLearning, path: str | os.PathLike[str], *, extra: Mapping[str, Any] | None = None
) -> None:
    """Write a fitted estimator to `path`, whole or not at all; an existing file is replaced.

    Parameters
    ----------
    est : SeparableDictionaryLearning
        Fitted. Its callback is not kept, nor a `random_state` or `verbose` that is no plain number.
    path : path
        Used as it is; the usual ending is .npz.
    extra : mapping, optional
        Your own arrays and JSON values by name; `load` gives them back as `extra_`. By default the
        estimator's own `extra_`, if it was loaded with one.
    """
    if not isinstance(est, SeparableDictionaryLearning):
        raise InvalidTypeError(f"save needs a SeparableDictionaryLearning, not {type(est).__name__}")
    check_is_fitted(est, "dictionaries_")
    arrays: dict[str, NDArray] = {}
    header = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "septum_version": __version__,
        "parameters": _write_parameters(est, arrays),
        "fitted": _write_fitted(est, arrays),
        "extra": _write_extra(getattr(est, "extra_", {}) if extra is None else extra, arrays),
    }
    header["arrays"] = {name: _describe(array) for name, array in sorted(arrays.items())}
    _write_archive(Path(path), header, arrays)


def load(path: str | os.PathLike[str]) -> SeparableDictionaryLearning:
    """Read an estimator that `save` wrote; a changed, cut or foreign file is refused."""
    path = Path(path)
    header, arrays = _read_archive(path)
    try:
        est = SeparableDictionaryLearning(**_read_parameters(header["parameters"], arrays))
        _read_fitted(est, header["fitted"], arrays)
        est.extra_ = _read_extra(header["extra"], arrays)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise InvalidInputError(f"{path} is no complete septum model: {error!r} is missing or wrong") from error
    if not est.extra_:
        del est.extra_
    return est


# --- the archive -----------------------------------------------------------------------------------


def _write_archive(path: Path, header: dict[str, Any], arrays: dict[str, NDArray]) -> None:
    text = json.dumps(header, sort_keys=True, allow_nan=False).encode()
    members = {"header": _bytes(text), "seal": _bytes(_digest(text).encode()), **arrays}
    temporary = path.with_name(f".{path.name[:80]}-{secrets.token_hex(6)}.part")
    try:
        with open(temporary, "xb") as file:
            np.savez(file, allow_pickle=False, **members)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise InvalidInputError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def _read_archive(path: Path) -> tuple[dict[str, Any], dict[str, NDArray]]:
    try:
        with open(path, "rb") as file:
            members = _read_members(file, path)
    except OSError as error:
        raise InvalidInputError(f"cannot read {path}: {error.strerror or error}") from error
    if "header" not in members or "seal" not in members:
        raise InvalidInputError(f"{path} is no septum model: it has no header")
    text = members.pop("header").tobytes()
    if _digest(text).encode() != members.pop("seal").tobytes():
        raise InvalidInputError(f"{path} was changed after it was written: its header does not match its seal")
    header = _parsed(text, path)
    listed = header.get("arrays", {})
    if set(listed) != set(members):
        raise InvalidInputError(f"{path} was changed after it was written: arrays are missing or added")
    for name, array in members.items():
        if _describe(array) != listed[name]:
            raise InvalidInputError(f"{path} was changed after it was written: array {name!r} differs")
    return header, members


def _read_members(file: Any, path: Path) -> dict[str, NDArray]:
    try:
        archive = np.load(file, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise InvalidInputError(f"{path} is no septum model: it is a single array, not an archive")
        with archive:
            return {name: archive[name] for name in archive.files}
    except InvalidInputError:
        raise
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise InvalidInputError(f"{path} is no septum model, or is damaged: {error}") from error


def _parsed(text: bytes, path: Path) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except ValueError as error:
        raise InvalidInputError(f"{path} is no septum model: its header is not JSON") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise InvalidInputError(f"{path} is no septum model")
    if header.get("format_version") != FORMAT_VERSION:
        raise InvalidInputError(
            f"{path} has format version {header.get('format_version')} (written by septum "
            f"{header.get('septum_version')}), but septum {__version__} reads version {FORMAT_VERSION}: update septum"
        )
    return header


def _describe(array: NDArray) -> dict[str, Any]:
    return {
        "shape": list(array.shape),
        "dtype": array.dtype.str,
        "sha256": _digest(np.ascontiguousarray(array).tobytes()),
    }


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _bytes(content: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(content, dtype=np.uint8)


# --- parameters ------------------------------------------------------------------------------------


def _write_parameters(est: SeparableDictionaryLearning, arrays: dict[str, NDArray]) -> dict[str, Any]:
    parameters = {name: value for name, value in est.get_params(deep=False).items() if name not in _LEFT_OUT}
    parameters["loss"] = _write_object(est.loss, "loss")
    parameters["regularizer"] = _write_object(est.regularizer, "regularizer")
    if not isinstance(est.init, str):
        for k, A in enumerate(est.init):
            arrays[f"init/{k}"] = np.asarray(A)
        parameters["init"] = {"dictionaries": len(est.init)}
    if not isinstance(est.random_state, (int, np.integer)):
        parameters["random_state"] = None
    return {name: _json(value, name) for name, value in parameters.items()}


def _read_parameters(record: dict[str, Any], arrays: dict[str, NDArray]) -> dict[str, Any]:
    parameters = dict(record)
    parameters["loss"] = _read_object(record["loss"], septum.loss)
    parameters["regularizer"] = _read_object(record["regularizer"], septum.regularizer)
    parameters["n_atoms"] = _tuples(record["n_atoms"])
    if isinstance(record["init"], dict):
        parameters["init"] = [arrays[f"init/{k}"] for k in range(record["init"]["dictionaries"])]
    return parameters


def _write_object(value: Any, what: str) -> Any:
    """A loss or regulariser: its word, or the name and the fields of septum's own class."""
    if value is None or isinstance(value, str):
        return value
    if type(value) not in _known(septum.loss) + _known(septum.regularizer):
        raise InvalidInputError(
            f"{what}={value!r} is no class of septum, so a file cannot carry it: save its parameters yourself"
        )
    return {"class": type(value).__name__, "fields": dataclasses.asdict(value)}


def _read_object(record: Any, room: Any) -> Any:
    if record is None or isinstance(record, str):
        return record
    for known in _known(room):
        if known.__name__ == record["class"]:
            return known(**{name: _tuples(value) for name, value in record["fields"].items()})
    raise InvalidInputError(f"the model needs {record['class']!r}, which septum {__version__} does not have")


def _known(room: Any) -> list[type]:
    """The classes of a room whose objects are described by their fields."""
    found = [getattr(room, name) for name in room.__all__]
    return [one for one in found if isinstance(one, type) and dataclasses.is_dataclass(one)]


def _tuples(value: Any) -> Any:
    """JSON has no tuples; parameters have no lists."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _json(value: Any, name: str) -> Any:
    """Plain JSON values; NumPy's numbers become Python's."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        if not np.isfinite(value):
            raise InvalidInputError(f"{name} is {value}, which a file cannot carry")
        return value
    if isinstance(value, Mapping):
        return {str(key): _json(item, name) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json(item, name) for item in value]
    raise InvalidTypeError(f"{name} holds a {type(value).__name__}: give arrays, numbers, strings, lists or mappings")


# --- what was fitted -------------------------------------------------------------------------------


def _write_fitted(est: SeparableDictionaryLearning, arrays: dict[str, NDArray]) -> dict[str, Any]:
    for k, A in enumerate(est.dictionaries_):
        arrays[f"dictionary/{k}"] = A
    fitted: dict[str, Any] = {
        "shape": list(est.shape_in_),
        "dtype": np.dtype(est._dtype).name,
        "plain": {name: _json(getattr(est, name), name) for name in _PLAIN if hasattr(est, name)},
        "certificate": None,
        "codes": None,
        "inner_objective": None,
        "feature_names": None,
    }
    if hasattr(est, "certificate_"):
        fitted["certificate"] = est.certificate_.to_dict()
    if hasattr(est, "feature_names_in_"):
        fitted["feature_names"] = [str(name) for name in est.feature_names_in_]
    if hasattr(est, "codes_"):
        fitted["codes"] = list(est.codes_.shape)
        arrays["codes/index"] = np.array(est.codes_.coords)
        arrays["codes/value"] = est.codes_.data
    if hasattr(est, "history_"):
        for name in _TABLE:
            arrays[f"history/{name}"] = np.asarray(est.history_[name])
        inner = est.history_["inner_objective"]
        arrays["history/inner_objective"] = np.concatenate([np.zeros(0), *inner])
        fitted["inner_objective"] = [len(one) for one in inner]
    _write_online(est._online, fitted, arrays)
    return fitted


def _read_fitted(est: SeparableDictionaryLearning, fitted: dict[str, Any], arrays: dict[str, NDArray]) -> None:
    est.shape_in_ = tuple(fitted["shape"])
    est.n_features_in_ = int(np.prod(est.shape_in_))
    est._dtype = np.dtype(fitted["dtype"])
    est._set_dictionaries([arrays[f"dictionary/{k}"] for k in range(len(est.shape_in_))])
    for name, value in fitted["plain"].items():
        setattr(est, name, value)
    if fitted["feature_names"] is not None:
        est.feature_names_in_ = np.array(fitted["feature_names"], dtype=object)
    if fitted["codes"] is not None:
        coords = tuple(arrays["codes/index"])
        est.codes_ = sparse.coo_array((arrays["codes/value"], coords), shape=tuple(fitted["codes"]))
        if est.codes_.shape[1:] != sizes(est.dictionaries_):
            raise InvalidInputError("the model's codes do not belong to its dictionaries")
    if fitted["certificate"] is not None:
        est.certificate_ = Certificate.from_dict(fitted["certificate"])
    if fitted["inner_objective"] is not None:
        est.history_ = {name: arrays[f"history/{name}"] for name in _TABLE}
        ends = np.cumsum(fitted["inner_objective"], dtype=np.intp)
        est.history_["inner_objective"] = np.split(arrays["history/inner_objective"], ends)[:-1]
    est._online = _read_online(fitted["online"], arrays)


def _write_online(online: Online, fitted: dict[str, Any], arrays: dict[str, NDArray]) -> None:
    """The state from which partial_fit goes on."""
    fitted["online"] = {"n_samples": online.n_samples, "n_steps": online.n_steps, "limit": list(online.limit)}
    for k, (A, known) in enumerate(zip(online.dictionaries, online.statistics, strict=True)):
        arrays[f"online/{k}/dictionary"] = A
        arrays[f"online/{k}/gram"], arrays[f"online/{k}/cross"] = known.gram, known.cross
        arrays[f"online/{k}/mass"], arrays[f"online/{k}/seen"] = known.mass, known.seen


def _read_online(record: dict[str, Any], arrays: dict[str, NDArray]) -> Online:
    modes = range(len(record["limit"]))
    known = [Statistic(*[arrays[f"online/{k}/{part}"] for part in ("gram", "cross", "mass", "seen")]) for k in modes]
    dictionaries = [arrays[f"online/{k}/dictionary"] for k in modes]
    return Online(dictionaries, known, record["n_samples"], record["n_steps"], tuple(record["limit"]))


# --- the user's own --------------------------------------------------------------------------------


def _write_extra(extra: Mapping[str, Any], arrays: dict[str, NDArray]) -> dict[str, Any]:
    """Arrays go into the archive, everything else into the header."""
    values: dict[str, Any] = {}
    names: list[str] = []
    for name, value in extra.items():
        if not isinstance(name, str):
            raise InvalidTypeError(f"names in extra must be strings, not {name!r}")
        if isinstance(value, np.ndarray):
            if value.dtype.kind not in "fiubcSU":
                raise InvalidTypeError(f"extra array {name!r} has type {value.dtype}: give numbers or strings")
            arrays[f"extra/{len(names)}"] = value
            names.append(name)
        else:
            values[name] = _json(value, f"extra value {name!r}")
    return {"values": values, "arrays": names}


def _read_extra(record: dict[str, Any], arrays: dict[str, NDArray]) -> dict[str, Any]:
    found = {name: arrays[f"extra/{k}"] for k, name in enumerate(record["arrays"])}
    return {**found, **record["values"]}
