"""Diffusion images: any 4-D NIfTI in, float32 NIfTI out.

`load` parses header, gradients and values once, at the edge, and gives a `DwiImage` that the rest
trusts. Its values stay where they are: on disk (memory-mapped) for a plain file; for a compressed one,
which cannot be read out of order, in memory as stored, or beyond `SPOOL_BYTES` in an unnamed temporary
file. `DwiImage.data` is the whole as float32, `slab` and `slabs` are some slices of it with a halo, so
that a big volume never has to be in memory.

`write` puts an array into a NIfTI file with another image's header: affine, orientation codes, units and
extensions kept, scaling reset. `SlabWriter` does it slices at a time. Both write the same bytes for the
same values, whatever the day or the number of threads.
"""

import gzip
import os
import sys
import tempfile
import warnings
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from septum.dmri.gradient import Gradients, as_gradients, find_beside, image_stem, read
from septum.dmri.output import Outputs, readable_errors, reserve
from septum.errors import InvalidInputError, MissingExtraError

Float32 = NDArray[np.float32]

SPOOL_BYTES = 2 * 2**30
_CHUNK = 16 * 2**20
# Deflate cannot pack more than this many bytes into one.
_LARGEST_RATIO = 1040
_REAL = "fiu"


@dataclass(frozen=True, eq=False)
class Stored:
    """Values as they lie in a file: `values * slope + inter` are the image's."""

    values: NDArray
    slope: float = 1.0
    inter: float = 0.0

    def __post_init__(self) -> None:
        self.values.flags.writeable = False

    def block(self, index: tuple[Any, ...]) -> Float32:
        """A part as C-ordered float32, scaled in float64."""
        part = self.values[index]
        with np.errstate(over="ignore", invalid="ignore"):
            if (self.slope, self.inter) != (1.0, 0.0):
                part = part.astype(np.float64) * self.slope + self.inter
            return np.array(part, dtype=np.float32, order="C")


@dataclass(frozen=True)
class Slab:
    """Slices `start:stop` of an image, with a halo: `data` holds slices `low:low + data.shape[2]`."""

    data: Float32
    start: int
    stop: int
    low: int

    @property
    def inner(self) -> slice:
        """Where slices `start:stop` lie in `data`, along its third axis."""
        return slice(self.start - self.low, self.stop - self.low)


@dataclass(frozen=True, eq=False)
class DwiImage:
    """A checked diffusion image `(X, Y, Z, n_volumes)` with its gradients; built by `load` or `from_arrays`."""

    stored: Stored
    affine: NDArray[np.float64]
    header: Any
    gradients: Gradients
    path: Path | None = None
    bval_path: Path | None = None
    bvec_path: Path | None = None
    mask: NDArray[np.bool_] | None = field(default=None)

    @classmethod
    def from_arrays(
        cls,
        data: ArrayLike,
        gradients: Any,
        affine: ArrayLike | None = None,
        *,
        mask: ArrayLike | None = None,
        require_b0: bool = True,
    ) -> "DwiImage":
        """An image in memory: `data` (X, Y, Z, n_volumes) and a DIPY gradient table or (bvals, bvecs)."""
        values = np.asarray(data)
        _check_kind(values.dtype, "data")
        _check_shape(values.shape, "data")
        table = as_gradients(gradients, values.shape[3], require_b0=require_b0)
        inside = None if mask is None else as_mask(mask, values.shape[:3])
        stored = Stored(values.view())
        check_values(stored, "data", inside)
        matrix = np.eye(4) if affine is None else np.array(affine, dtype=float)
        return cls(stored, matrix, new_header(values.shape, matrix), table, mask=inside)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        x, y, z, n = self.stored.values.shape
        return x, y, z, n

    @property
    def bvals(self) -> NDArray[np.float64]:
        return self.gradients.bvals

    @property
    def bvecs(self) -> NDArray[np.float64]:
        return self.gradients.bvecs

    @property
    def voxel_size(self) -> tuple[float, float, float]:
        """Millimetres along each axis."""
        x, y, z = np.sqrt((self.affine[:3, :3] ** 2).sum(axis=0))
        return float(x), float(y), float(z)

    @property
    def nbytes(self) -> int:
        """The size of the whole image as float32."""
        return 4 * int(np.prod(self.shape))

    @property
    def data(self) -> Float32:
        """The whole image as float32, read anew each time: (X, Y, Z, n_volumes), C order."""
        return self.slab(0, self.shape[2])

    def slab(self, start: int, stop: int) -> Float32:
        """Slices start:stop along z as float32, (X, Y, stop - start, n_volumes)."""
        x, y, _, n = self.shape
        out = np.empty((x, y, stop - start, n), dtype=np.float32)
        for z in range(start, stop):
            out[:, :, z - start] = self.stored.block((slice(None), slice(None), z))
        return out

    def slabs(self, depth: int, halo: int = 0) -> Iterator[Slab]:
        """The image, `depth` slices at a time, each with up to `halo` slices more on both sides."""
        n_slices = self.shape[2]
        for start in range(0, n_slices, max(1, depth)):
            stop = min(n_slices, start + max(1, depth))
            low = max(0, start - halo)
            yield Slab(self.slab(low, min(n_slices, stop + halo)), start, stop, low)

    def volume(self, index: int) -> Float32:
        """One volume (X, Y, Z)."""
        return self.stored.block((..., index))

    def mean_b0(self) -> Float32:
        """The mean of the b0 volumes (X, Y, Z); of all volumes where there is no b0."""
        chosen = self.gradients.b0s if self.gradients.b0s.size else np.arange(self.shape[3])
        total = np.zeros(self.shape[:3])
        for index in chosen:
            total += self.volume(int(index))
        return (total / len(chosen)).astype(np.float32)


def load(
    path: str | Path,
    bval: str | Path | None = None,
    bvec: str | Path | None = None,
    *,
    mask: str | Path | ArrayLike | None = None,
    require_b0: bool = True,
) -> DwiImage:
    """Read and check a diffusion image with its gradients (found beside it when not given).

    `mask` is a file or an array (X, Y, Z), True = inside; values outside may be NaN.
    """
    path = Path(path)
    file = open_nifti(path)
    shape = _squeezed(tuple(int(d) for d in file.shape))
    _check_shape(shape, str(path))
    bval_path, bvec_path = _gradient_files(path, bval, bvec)
    gradients = read(bval_path, bvec_path, shape[3], require_b0=require_b0)
    stored = _read_values(file, path, shape)
    inside = None
    if mask is not None:
        inside = (
            load_mask(mask, shape[:3]) if isinstance(mask, (str, os.PathLike)) else as_mask(mask, shape[:3])
        )
    check_values(stored, str(path), inside)
    affine = np.array(file.affine, dtype=np.float64)
    return DwiImage(stored, affine, file.header.copy(), gradients, path, bval_path, bvec_path, inside)


def load_mask(path: str | Path, shape: tuple[int, ...] | None = None) -> NDArray[np.bool_]:
    """A 3-D mask from a NIfTI file: True where it is not zero."""
    return as_mask(load_volume(path), shape, name=str(path))


def as_mask(
    mask: ArrayLike, shape: tuple[int, ...] | None = None, *, name: str = "mask"
) -> NDArray[np.bool_]:
    """A boolean array (X, Y, Z), True = inside, of the image's shape."""
    array = np.asarray(mask)
    if array.dtype.kind not in "bfiu":
        raise InvalidInputError(f"{name} must hold numbers or booleans, not {array.dtype}")
    inside = np.nan_to_num(array) != 0 if array.dtype.kind == "f" else array != 0
    if shape is not None and inside.shape != tuple(shape):
        raise InvalidInputError(
            f"{name} has shape {_times(inside.shape)}, but the image has {_times(shape)} voxels: "
            "give a 3-D mask on the image's own grid"
        )
    if not inside.any():
        raise InvalidInputError(f"{name} is empty: no voxel is inside")
    return inside


def load_volume(path: str | Path, shape: tuple[int, ...] | None = None) -> Float32:
    """A 3-D NIfTI file (a mask, a noise map) as float32."""
    path = Path(path)
    file = open_nifti(path)
    found = tuple(int(d) for d in file.shape)
    while len(found) > 3 and found[-1] == 1:
        found = found[:-1]
    if len(found) != 3:
        raise InvalidInputError(f"{path} has {len(found)} dimensions {_times(found)}: give a 3-D image")
    if shape is not None and found != tuple(shape):
        raise InvalidInputError(
            f"{path} has {_times(found)} voxels, but the image has {_times(shape)}: give it on the image's own grid"
        )
    return _read_values(file, path, found).block((...,))


def check_values(stored: Stored, name: str, mask: NDArray[np.bool_] | None = None) -> None:
    """Raise unless the values (inside the mask) are finite and not all the same."""
    low, high = np.inf, -np.inf
    for index in range(stored.values.shape[-1]):
        volume = stored.block((..., index))
        if mask is not None:
            volume = volume[mask]
        if not np.isfinite(volume).all():
            count = int(volume.size - np.isfinite(volume).sum())
            kind = "NaN" if np.isnan(volume).any() else "infinity (or numbers too large for float32)"
            where = "" if mask is None else " inside the mask"
            raise InvalidInputError(
                f"{name} holds {kind}: {count} voxels{where} of volume {index}. "
                "Set them to 0, or give a mask that leaves them out"
            )
        low, high = min(low, float(volume.min())), max(high, float(volume.max()))
    if low == high:
        what = "zero" if low == 0 else f"the same ({low:g})"
        raise InvalidInputError(
            f"{name}: every value is {what}, so there is nothing to work on: check the file"
        )


# --- reading ---------------------------------------------------------------------------------------------


def nibabel() -> Any:
    """The NiBabel package, or a clear error."""
    try:
        import nibabel as package
    except ImportError as error:
        raise MissingExtraError("nibabel") from error
    return package


def open_nifti(path: Path) -> Any:
    """NiBabel's view of a NIfTI file, its header parsed and its values not yet read."""
    nib = nibabel()
    _check_container(path)
    try:
        with warnings.catch_warnings(), nib.imageglobals.LoggingOutputSuppressor(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            file = nib.load(path)
            finite = bool(np.isfinite(np.asarray(file.affine, dtype=float)).all())
            _check_kind(file.get_data_dtype(), str(path))
    except InvalidInputError:
        raise
    except Exception as error:  # a damaged header makes NiBabel fail in many ways
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InvalidInputError(f"{path} cannot be read as NIfTI ({reason}): is the file whole?") from error
    if not isinstance(file, (nib.Nifti1Pair, nib.Nifti2Pair)):
        raise InvalidInputError(f"{path} is not a NIfTI image but {type(file).__name__}: convert it to NIfTI")
    if not finite:
        raise InvalidInputError(f"{path} has NaN in its affine (orientation): mend its header")
    return file


def _check_container(path: Path) -> None:
    """Refuse what is no file, or is compressed otherwise than its name says."""
    try:
        with path.open("rb") as stream:
            start = stream.read(4)
    except OSError as error:
        raise InvalidInputError(f"cannot read {path}: {error.strerror or error}") from error
    if not start:
        raise InvalidInputError(f"{path} is empty")
    zipped, named = start[:2] == b"\x1f\x8b", path.name.lower().endswith(".gz")
    if zipped and not named:
        raise InvalidInputError(
            f"{path} is compressed, but its name does not say so: rename it to {path.name}.gz"
        )
    if named and not zipped:
        raise InvalidInputError(
            f"{path} is not a gzip file, though its name says so: rename it to {path.name[:-3]}, or fetch it again"
        )


def _gradient_files(image: Path, bval: str | Path | None, bvec: str | Path | None) -> tuple[Path, Path]:
    beside = find_beside(image)
    found = [
        Path(given) if given is not None else near for given, near in zip((bval, bvec), beside, strict=True)
    ]
    for kind, file in zip(("bval", "bvec"), found, strict=True):
        if file is None:
            raise InvalidInputError(
                f"no {kind} file beside {image} (looked for {image_stem(image)}.{kind} and {kind}s): give --{kind}"
            )
    return found[0], found[1]  # type: ignore[return-value]


def _read_values(file: Any, path: Path, shape: tuple[int, ...]) -> Stored:
    """The stored values with their scaling, checked against the size of the file."""
    proxy = file.dataobj
    dtype = np.dtype(proxy.dtype)
    offset, expected = int(proxy.offset), int(np.prod(shape, dtype=object)) * dtype.itemsize
    slope, inter = float(proxy.slope), float(proxy.inter)
    holder = Path(file.file_map["image"].filename or path)
    if offset < 0:
        raise InvalidInputError(f"{path} says its values start before the file does: mend its header")
    if holder != path:
        _check_container(holder)
    spare = max(1, int(np.prod(shape[:3], dtype=object))) * dtype.itemsize
    try:
        if holder.name.lower().endswith(".gz"):
            raw = _inflate(holder, offset, expected, spare)
        else:
            raw = _map(holder, offset, expected, spare)
    except (zlib.error, gzip.BadGzipFile, EOFError) as error:
        raise InvalidInputError(f"{path} is damaged or cut short ({error}): fetch it again") from error
    except OSError as error:
        raise InvalidInputError(f"cannot read {path}: {error.strerror or error}") from error
    except (MemoryError, OverflowError, ValueError) as error:
        raise InvalidInputError(f"{path} does not fit in memory ({expected / 1e9:.1f} GB)") from error
    return Stored(raw.view(dtype).reshape(shape, order="F"), slope, inter)


def _map(holder: Path, offset: int, expected: int, spare: int) -> NDArray[np.uint8]:
    size = holder.stat().st_size
    if size < offset + expected:
        raise InvalidInputError(
            f"{holder} is cut short: its header says {offset + expected} bytes, but it has {size}: fetch it again"
        )
    _check_excess(holder, size - offset - expected, spare)
    return np.memmap(holder, dtype=np.uint8, mode="r", offset=offset, shape=(expected,))


def _inflate(holder: Path, offset: int, expected: int, spare: int) -> NDArray[np.uint8]:
    """Decompress once, to the end, so that the checksum is looked at."""
    if expected > _LARGEST_RATIO * holder.stat().st_size:
        raise InvalidInputError(
            f"{holder} cannot hold the {expected} bytes that its header speaks of: the header is wrong or the file cut short"
        )
    with gzip.open(holder, "rb") as stream:
        if len(stream.read(offset)) < offset:
            raise EOFError("the file ends before its values start")
        raw = _room(expected)
        view, done = memoryview(raw), 0  # type: ignore[arg-type]
        while done < expected:
            count = stream.readinto(view[done : done + _CHUNK])
            if not count:
                raise InvalidInputError(
                    f"{holder} is cut short: its header says {expected} bytes of values, but it has {done}: fetch it again"
                )
            done += count
        excess = 0
        while excess < spare and (more := len(stream.read(_CHUNK))):
            excess += more
        _check_excess(holder, excess, spare)
    return raw


def _room(size: int) -> NDArray[np.uint8]:
    """Memory for decompressed values; beyond `SPOOL_BYTES`, a temporary file without a name."""
    if size <= SPOOL_BYTES:
        return np.empty(size, dtype=np.uint8)
    with tempfile.TemporaryFile(prefix="septum-") as spool:
        reserve(spool, size)
        return np.memmap(spool, dtype=np.uint8, mode="r+", shape=(size,))


def _check_excess(holder: Path, excess: int, spare: int) -> None:
    if excess >= spare:
        raise InvalidInputError(
            f"{holder} holds more than its header says (a volume or more is left over): the header is wrong"
        )


def _check_kind(dtype: np.dtype, name: str) -> None:
    if dtype.kind == "c":
        raise InvalidInputError(f"{name} holds complex numbers: give the magnitude image")
    if dtype.kind not in _REAL:
        raise InvalidInputError(f"{name} holds {dtype}, not real numbers: give a magnitude image")


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape of four axes where further ones, or the fourth of five, have one entry only."""
    while len(shape) > 4 and 1 in shape[3:]:
        place = 3 + shape[3:].index(1)
        shape = shape[:place] + shape[place + 1 :]
    return shape


def _check_shape(shape: tuple[int, ...], name: str) -> None:
    if len(shape) == 3:
        raise InvalidInputError(
            f"{name} is 3-D ({_times(shape)}): a diffusion image has a fourth axis, one volume a gradient"
        )
    if len(shape) != 4:
        raise InvalidInputError(f"{name} has {len(shape)} dimensions ({_times(shape)}), but 4 are needed")
    if min(shape) < 1:
        raise InvalidInputError(f"{name} is empty ({_times(shape)})")
    if shape[3] < 2:
        raise InvalidInputError(f"{name} has one volume only: a b0 and weighted volumes are needed")


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(str(d) for d in shape)


# --- writing ---------------------------------------------------------------------------------------------


def new_header(shape: tuple[int, ...], affine: ArrayLike) -> Any:
    """A NIfTI-1 header in millimetres with this affine, scanner orientation."""
    nib = nibabel()
    header = nib.Nifti1Header()
    header.set_data_shape(shape)
    header.set_sform(np.asarray(affine, dtype=float), code=1)
    with suppress(nib.spatialimages.HeaderDataError, np.linalg.LinAlgError, ValueError):
        header.set_qform(np.asarray(affine, dtype=float), code=1)
    header.set_xyzt_units("mm")
    return header


def output_header(like: Any, shape: tuple[int, ...], dtype: DTypeLike = np.float32) -> Any:
    """A header for new values: orientation, units and extensions of `like`, scaling reset.

    `like` is a `DwiImage`, a header, or an affine.
    """
    nib = nibabel()
    source = like.header if hasattr(like, "header") else like
    if not isinstance(source, nib.Nifti1Header):
        source = new_header(shape, source)
    kind = nib.Nifti2Header if isinstance(source, nib.Nifti2Header) else nib.Nifti1Header
    header = kind(source.as_byteswapped(_native()).binaryblock, endianness=_native(), check=False)
    header.extensions.extend(source.extensions)
    header["magic"] = kind.single_magic
    header.set_data_shape(shape)
    header.set_data_dtype(dtype)
    header.set_slope_inter(1.0, 0.0)
    header["vox_offset"] = 0
    header["cal_min"] = header["cal_max"] = 0
    _repair_zooms(header, len(shape))
    return header


def write(
    target: str | Path,
    data: ArrayLike,
    like: Any,
    *,
    outputs: Outputs,
    dtype: DTypeLike = np.float32,
) -> None:
    """Stage an array (3-D or 4-D) as NIfTI, with the orientation of `like`, in a set of outputs."""
    array = np.asarray(data)
    header = output_header(like, array.shape, dtype)
    compressed = _is_compressed(target)
    with outputs.stage(target) as path, path.open("wb") as stream, _Packed(stream, compressed) as out:
        header.write_to(out)
        if array.ndim < 4:
            out.write(array.astype(dtype).tobytes(order="F"))
        else:
            for index in range(array.shape[3]):
                out.write(array[..., index].astype(dtype).tobytes(order="F"))


def save(
    path: str | Path, data: ArrayLike, like: Any, *, force: bool = False, dtype: DTypeLike = np.float32
) -> None:
    """Write one NIfTI file, whole or not at all; `like` is a `DwiImage`, a header, or an affine."""
    with Outputs(force=force) as outputs:
        write(path, data, like, outputs=outputs, dtype=dtype)


def write_gradients(target: str | Path, image: DwiImage, *, outputs: Outputs) -> None:
    """Stage copies of the image's .bval and .bvec beside `target`, byte for byte where it has files."""
    for path, text, source in zip(
        gradient_names(target),
        (image.gradients.bval_text(), image.gradients.bvec_text()),
        (image.bval_path, image.bvec_path),
        strict=True,
    ):
        outputs.bytes(path, text.encode("ascii") if source is None else source.read_bytes())


def gradient_names(target: str | Path) -> tuple[Path, Path]:
    """Where the .bval and .bvec of an image go."""
    target = Path(target)
    stem = image_stem(target)
    return target.with_name(stem + ".bval"), target.with_name(stem + ".bvec")


class SlabWriter:
    """Writes an image some slices at a time, in any order, into a set of outputs.

    The file is volume after volume, so slices are scattered into it; a compressed file is packed at the end.
    """

    def __init__(
        self,
        target: str | Path,
        shape: tuple[int, ...],
        like: Any,
        *,
        outputs: Outputs,
        dtype: DTypeLike = np.float32,
    ) -> None:
        self._target, self._outputs = Path(target), outputs
        self._compressed = _is_compressed(target)
        self._shape = tuple(shape) if len(shape) == 4 else (*shape, 1)
        self._dtype = np.dtype(dtype)
        header = output_header(like, tuple(shape), dtype)
        with readable_errors(target):
            self._scratch = outputs.scratch(target)
            self._stream: BinaryIO = self._scratch.open("r+b")
            try:
                header.write_to(self._stream)
                self._offset = self._stream.tell()
                size = int(np.prod(self._shape, dtype=object)) * self._dtype.itemsize
                reserve(self._stream, self._offset + size)
            except BaseException:
                self._stream.close()
                raise

    def __enter__(self) -> "SlabWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            self.close()
        else:
            self._stream.close()

    def write(self, start: int, slab: ArrayLike) -> None:
        """Put slices start: into the file; `slab` is (X, Y, depth[, n_volumes])."""
        array = np.asarray(slab)
        array = array if array.ndim == 4 else array[..., None]
        x, y, z, n = self._shape
        if array.shape[:2] != (x, y) or array.shape[3] != n or start + array.shape[2] > z:
            raise InvalidInputError(f"a slab of {_times(array.shape)} does not fit in {_times(self._shape)}")
        with readable_errors(self._target):
            for index in range(n):
                place = self._offset + (index * z + start) * x * y * self._dtype.itemsize
                self._stream.seek(place)
                self._stream.write(array[..., index].astype(self._dtype).tobytes(order="F"))

    def close(self) -> None:
        """Finish the file (it appears when the outputs are committed)."""
        with readable_errors(self._target):
            self._stream.close()
            if not self._compressed:
                return
            plain = self._scratch.open("rb")
            with plain:
                # The plain scratch file loses its name here and its room when it is closed.
                packed = self._outputs.scratch(self._target)
                with packed.open("wb") as stream, _Packed(stream, True) as out:
                    while chunk := plain.read(_CHUNK):
                        out.write(chunk)


class _Packed:
    """A stream that compresses what is written to it when asked, the same bytes every time."""

    def __init__(self, stream: BinaryIO, compressed: bool) -> None:
        self._out: Any = (
            gzip.GzipFile(filename="", mode="wb", compresslevel=1, fileobj=stream, mtime=0)
            if compressed
            else None
        )
        self._stream = stream

    def __enter__(self) -> Any:
        return self._stream if self._out is None else self._out

    def __exit__(self, *rest: object) -> None:
        if self._out is not None:
            self._out.close()


def _is_compressed(target: str | Path) -> bool:
    name = Path(target).name.lower()
    if not name.endswith((".nii", ".nii.gz")):
        raise InvalidInputError(f"{target} must end in .nii.gz or .nii")
    return name.endswith(".gz")


def _native() -> str:
    return "<" if sys.byteorder == "little" else ">"


def _repair_zooms(header: Any, n_axes: int) -> None:
    """Some scanners leave NaN or nothing as the size of the fourth axis; NiBabel refuses to set such a shape's zooms."""
    sizes = header["pixdim"]
    for axis in range(4, n_axes + 1):
        if not np.isfinite(sizes[axis]) or sizes[axis] <= 0:
            sizes[axis] = 1.0
