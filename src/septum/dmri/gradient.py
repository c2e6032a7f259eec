"""Gradient tables: which b-value and which direction each volume was measured with.

`Gradients` is the checked type: b-values in s/mm2, one unit vector a volume (zero where there is no
weighting), sorted into b0 volumes and shells of nearly equal b-values. `read` builds it from FSL's two
text files, whichever way up they are written; `find_beside` looks for them where FSL, DIPY, dcm2niix and
the Human Connectome Project put them. Vectors are kept in the frame of the file: FSL's is that of the
voxel axes, with x turned round when the affine's determinant is positive (`in_voxel_axes` undoes that).
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from septum.errors import InvalidInputError, MissingExtraError

B0_THRESHOLD = 50.0
UNIT_TOLERANCE = 0.02
LARGEST_TEXT = 16 * 2**20

_BVAL_ENDINGS = (".bval", ".bvals")
_BVEC_ENDINGS = (".bvec", ".bvecs")
_IMAGE_ENDINGS = (".nii.gz", ".nii", ".img.gz", ".hdr.gz", ".img", ".hdr")


@dataclass(frozen=True, eq=False)
class Shell:
    """Volumes of nearly equal b-value; `bvalue` is their mean."""

    bvalue: float
    volumes: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.volumes)


@dataclass(frozen=True, eq=False)
class Gradients:
    """Checked b-values `(n_volumes,)` and unit vectors `(n_volumes, 3)`; built by `as_gradients` or `read`."""

    bvals: NDArray[np.float64]
    bvecs: NDArray[np.float64]
    b0_threshold: float = B0_THRESHOLD

    def __len__(self) -> int:
        return len(self.bvals)

    @cached_property
    def is_b0(self) -> NDArray[np.bool_]:
        return self.bvals <= self.b0_threshold

    @cached_property
    def b0s(self) -> NDArray[np.intp]:
        """The volumes without diffusion weighting."""
        return np.flatnonzero(self.is_b0)

    @cached_property
    def weighted(self) -> NDArray[np.intp]:
        """The diffusion-weighted volumes."""
        return np.flatnonzero(~self.is_b0)

    @cached_property
    def shells(self) -> tuple[Shell, ...]:
        """The weighted volumes in groups of nearly equal b-value, smallest first."""
        if not self.weighted.size:
            return ()
        order = self.weighted[np.argsort(self.bvals[self.weighted], kind="stable")]
        ordered = self.bvals[order]
        cuts = np.flatnonzero(np.diff(ordered) > np.maximum(50.0, 0.05 * ordered[:-1])) + 1
        groups = np.split(order, cuts)
        return tuple(Shell(float(self.bvals[g].mean()), np.sort(g)) for g in groups)

    def subset(self, volumes: ArrayLike) -> "Gradients":
        """The table of some of the volumes, in the order given."""
        index = np.asarray(volumes)
        return Gradients(self.bvals[index], self.bvecs[index], self.b0_threshold)

    def in_voxel_axes(self, affine: ArrayLike) -> NDArray[np.float64]:
        """The vectors along the array's own axes: x is turned when det(affine) > 0 (FSL's convention)."""
        return self.bvecs * voxel_turn(affine)

    def dipy_table(self) -> Any:
        """The same table as DIPY's `GradientTable`."""
        try:
            from dipy.core.gradients import gradient_table
        except ImportError as error:
            raise MissingExtraError("dipy") from error
        return gradient_table(
            self.bvals, bvecs=self.bvecs, b0_threshold=self.b0_threshold, atol=2 * UNIT_TOLERANCE
        )

    def bval_text(self) -> str:
        """One row, as FSL writes it."""
        return " ".join(f"{b:.10g}" for b in self.bvals) + "\n"

    def bvec_text(self) -> str:
        """Three rows, as FSL writes them."""
        return "".join(" ".join(f"{v:.8f}" for v in row) + "\n" for row in self.bvecs.T + 0.0)

    def fingerprint(self) -> str:
        """A short hash of the table, the same for a vector and its opposite."""
        turned = self.bvecs * _sign(self.bvecs)[:, None]
        rounded = np.round(np.column_stack([self.bvals, 1000 * turned])).astype(np.int64)
        return hashlib.sha256(rounded.astype("<i8").tobytes()).hexdigest()[:16]

    def describe(self) -> str:
        """For a log: 1 b0 and 64 directions at b = 1000."""
        parts = [f"{len(s)} direction{'s' * (len(s) > 1)} at b = {s.bvalue:.0f}" for s in self.shells]
        return " and ".join([f"{len(self.b0s)} b0", *parts])


def voxel_turn(affine: ArrayLike) -> NDArray[np.float64]:
    """What a vector of a .bvec file is multiplied with to lie along the voxel axes, and the other way."""
    turned = np.linalg.det(np.asarray(affine, dtype=float)[:3, :3]) > 0
    return np.array([-1.0 if turned else 1.0, 1.0, 1.0])


def as_gradients(table: Any, n_volumes: int | None = None, *, require_b0: bool = True) -> Gradients:
    """Checked gradients from a DIPY `GradientTable`, a `Gradients`, or a pair (bvals, bvecs)."""
    threshold = float(getattr(table, "b0_threshold", B0_THRESHOLD))
    if hasattr(table, "bvals") and hasattr(table, "bvecs"):
        bvals, bvecs = table.bvals, table.bvecs
    elif isinstance(table, Sequence) and len(table) == 2:
        bvals, bvecs = table
    else:
        raise InvalidInputError("gtab must be a DIPY GradientTable, or the pair (bvals, bvecs)")
    return _checked(
        _numbers(bvals, "bvals").reshape(-1),
        _numbers(bvecs, "bvecs"),
        n_volumes,
        ("bvals", "bvecs"),
        threshold,
        require_b0,
    )


def read(
    bval: str | Path, bvec: str | Path, n_volumes: int | None = None, *, require_b0: bool = True
) -> Gradients:
    """Gradients from FSL's two text files, rows or columns."""
    bval, bvec = Path(bval), Path(bvec)
    bvals, bvecs = _read_table(bval), _read_table(bvec)
    if min(bvals.shape) == 3 and max(bvals.shape) > 3 and min(bvecs.shape) == 1:
        raise InvalidInputError(
            f"{bval.name} holds vectors and {bvec.name} b-values: give them the other way round"
        )
    if min(bvals.shape) != 1:
        rows, columns = bvals.shape
        raise InvalidInputError(
            f"{bval} holds a {rows} x {columns} table, but b-values are one row or one column of numbers"
        )
    return _checked(bvals.ravel(), bvecs, n_volumes, (bval.name, bvec.name), B0_THRESHOLD, require_b0)


def find_beside(image: str | Path) -> tuple[Path | None, Path | None]:
    """The .bval and .bvec files that lie beside an image, or None where there is none."""
    image = Path(image)
    stem = image_stem(image)
    found = []
    for endings in (_BVAL_ENDINGS, _BVEC_ENDINGS):
        names = [stem + ending for ending in endings] + [image.name + ending for ending in endings]
        names += [ending[1:] for ending in reversed(endings)]
        found.append(next((p for name in names if (p := image.parent / name).is_file()), None))
    return found[0], found[1]


def read_scheme(path: str | Path) -> Gradients:
    """Gradients from one name: a .bval or .bvec (its fellow lies beside it), an image, or a table.

    A table has a row for each volume: x y z b, or the vector times its b-value.
    """
    path = Path(path)
    if path.name.lower().endswith((*_BVAL_ENDINGS, *_BVEC_ENDINGS, *_IMAGE_ENDINGS)):
        bval, bvec = find_beside(path.with_name(path.stem + ".nii") if path.suffix.startswith(".b") else path)
        if bval is None or bvec is None:
            missing = "bval" if bval is None else "bvec"
            raise InvalidInputError(f"no .{missing} beside {path}: a scheme is both files with one stem")
        return read(bval, bvec, require_b0=False)
    table = _read_table(path)
    if table.shape[1] == 4:
        bvals, vectors = table[:, 3], table[:, :3]
    elif table.shape[1] == 3:
        bvals = np.linalg.norm(table, axis=1)
        vectors = table / np.where(bvals > 0, bvals, 1.0)[:, None]
    else:
        raise InvalidInputError(
            f"{path} has {table.shape[1]} columns, but a scheme has a row x y z b (or the vector times b) a volume"
        )
    return _checked(bvals, vectors, None, (path.name, path.name), B0_THRESHOLD, False)


def image_stem(image: str | Path) -> str:
    """The file name without .nii.gz, .nii, .img or .hdr."""
    name = Path(image).name
    for ending in _IMAGE_ENDINGS:
        if name.lower().endswith(ending):
            return name[: -len(ending)]
    return name


def check_same_scheme(expected: Gradients, found: Gradients, *, what: str = "the model") -> None:
    """Raise unless both tables have the same directions (up to sign) and b-values, in the same order."""
    if len(expected.weighted) != len(found.weighted):
        raise InvalidInputError(
            f"{what} was made for {expected.describe()}, but this image has {found.describe()}: "
            "learn a model on this scheme, or leave --model out"
        )
    ours, theirs = found.weighted, expected.weighted
    expected_b, found_b = expected.bvals[theirs], found.bvals[ours]
    if np.any(np.abs(expected_b - found_b) > np.maximum(50.0, 0.05 * expected_b)):
        worst = int(np.argmax(np.abs(expected_b - found_b)))
        raise InvalidInputError(
            f"{what} was made for other b-values (b = {expected_b[worst]:.0f} where this image has "
            f"{found_b[worst]:.0f}): learn a model on this scheme, or leave --model out"
        )
    cosine = np.abs(np.sum(expected.bvecs[theirs] * found.bvecs[ours], axis=1))
    angle = np.degrees(np.arccos(np.clip(cosine.min(initial=1.0), 0.0, 1.0)))
    if angle > 3.0:
        raise InvalidInputError(
            f"{what} was made for other gradient directions (they differ by up to {angle:.0f} degrees): "
            "learn a model on this scheme, or leave --model out"
        )


def _read_table(path: Path) -> NDArray[np.float64]:
    """A text file of numbers as a 2-D array, with blanks, tabs, commas or semicolons between them."""
    try:
        if path.stat().st_size > LARGEST_TEXT:
            raise InvalidInputError(f"{path} is too large for a gradient file: is it an image?")
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            f"{path} is not a text file: give the FSL text file of the gradients"
        ) from error
    except OSError as error:
        raise InvalidInputError(f"cannot read {path}: {error.strerror or error}") from error
    lines = (line.split("#")[0].replace(",", " ").replace(";", " ").split() for line in text.splitlines())
    rows = [line for line in lines if line]
    if not rows:
        raise InvalidInputError(f"{path} is empty: it must hold one number (or vector) a volume")
    if len({len(row) for row in rows}) > 1:
        lengths = ", ".join(str(n) for n in sorted({len(row) for row in rows})[:4])
        raise InvalidInputError(f"{path} has rows of different lengths ({lengths} numbers): mend the file")
    try:
        return np.array([[float(word) for word in row] for row in rows])
    except ValueError as error:
        raise InvalidInputError(f"{path} holds something that is not a number: {error}") from error


def _numbers(value: ArrayLike, name: str) -> NDArray[np.float64]:
    try:
        return np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"{name} must be numbers: {error}") from error


def _checked(
    bvals: NDArray[np.float64],
    bvecs: NDArray[np.float64],
    n_volumes: int | None,
    names: tuple[str, str],
    threshold: float,
    require_b0: bool,
) -> Gradients:
    _check_bvals(bvals, n_volumes, names[0])
    vectors = _upright(bvecs, bvals, names, threshold)
    unit = _unit(vectors, bvals > threshold, names[1])
    gradients = Gradients(bvals.copy(), unit, threshold)
    if not gradients.weighted.size:
        raise InvalidInputError(
            f"{names[0]} has no diffusion-weighted volume: its largest b-value is {bvals.max():g}. "
            "b-values are in s/mm2 (multiply by 1000 if they are in ms/um2)"
        )
    if require_b0 and not gradients.b0s.size:
        raise InvalidInputError(
            f"{names[0]} has no b0 volume: its smallest b-value is {bvals.min():g}, and a b0 has at most "
            f"{threshold:g}. Add the b0 image to the series, or set its b-value to 0"
        )
    return gradients


def _check_bvals(bvals: NDArray[np.float64], n_volumes: int | None, name: str) -> None:
    if n_volumes is not None and len(bvals) != n_volumes:
        raise InvalidInputError(
            f"the image has {n_volumes} volumes, but {name} has {len(bvals)} b-values: give the files of this image"
        )
    wrong = np.flatnonzero(~np.isfinite(bvals) | (bvals < 0))
    if wrong.size:
        raise InvalidInputError(
            f"{name} gives volume {wrong[0]} the b-value {bvals[wrong[0]]:g}: b-values are finite and not negative"
        )


def _upright(
    bvecs: NDArray[np.float64], bvals: NDArray[np.float64], names: tuple[str, str], threshold: float
) -> NDArray[np.float64]:
    """The vectors as `(n_volumes, 3)`, from rows or columns."""
    n = len(bvals)
    if bvecs.ndim != 2 or 3 not in bvecs.shape:
        shape = " x ".join(str(k) for k in bvecs.shape)
        raise InvalidInputError(f"{names[1]} holds a {shape} table, but it must be 3 x {n} (FSL) or {n} x 3")
    if n not in bvecs.shape:
        other = bvecs.shape[1] if bvecs.shape[0] == 3 else bvecs.shape[0]
        raise InvalidInputError(
            f"{names[0]} has {n} b-values, but {names[1]} has {other} vectors: give the two files of one series"
        )
    if bvecs.shape == (3, 3):
        rows = np.linalg.norm(bvecs, axis=1)[bvals > threshold]
        columns = np.linalg.norm(bvecs, axis=0)[bvals > threshold]
        return bvecs if np.abs(rows - 1).max(initial=0) < np.abs(columns - 1).max(initial=0) else bvecs.T
    return bvecs if bvecs.shape == (n, 3) else bvecs.T


def _unit(vectors: NDArray[np.float64], weighted: NDArray[np.bool_], name: str) -> NDArray[np.float64]:
    """Vectors of length exactly one where there is weighting; b0 volumes may have any or none."""
    with np.errstate(over="ignore", invalid="ignore"):
        length = np.linalg.norm(vectors, axis=1)
    bad = np.flatnonzero(weighted & ~(np.abs(length - 1) <= UNIT_TOLERANCE))
    if bad.size:
        k = int(bad[0])
        more = f" (and {bad.size - 1} more)" if bad.size > 1 else ""
        raise InvalidInputError(
            f"{name} gives volume {k} a vector of length {length[k]:.3g}{more}, not 1: "
            "normalise the vectors, or set the b-value to 0 if the volume has no weighting"
        )
    usable = np.isfinite(length) & (np.abs(length - 1) <= UNIT_TOLERANCE)
    return np.where(usable[:, None], vectors / np.where(usable, length, 1.0)[:, None], 0.0)


def _sign(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """+1 or -1 a vector, so that its first coordinate that matters becomes positive."""
    matters = np.abs(vectors) > 1e-3
    first = np.take_along_axis(vectors, matters.argmax(axis=1)[:, None], axis=1)[:, 0]
    return np.where(first < 0, -1.0, 1.0)
