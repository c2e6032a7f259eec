"""Arrays at the door: every public function passes its input through here, once.

A sample array is `(n_samples, d_1, ..., d_n)` with n >= 1, real, finite where observed, of native
float32 or float64. Integers become float64. The caller's array is never changed; it is copied only
when its type, byte order or missing entries make that necessary, so a memory-mapped float32 array
stays on disk. Inside the library arrays are trusted.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from septum.errors import InvalidInputError, InvalidTypeError

# NumPy's own types cannot follow dtype through arithmetic; the doors below are where it is checked.
Float = NDArray[Any]

# A few arrays of this size stay in the cache of a core: measured 2-3 times as fast as ranges of 64 MiB.
CHUNK_BYTES = 4 * 2**20


@dataclass(frozen=True)
class Samples:
    """Checked samples: `data` is zero where `mask` is False; `mask` is None when all is observed."""

    data: Float
    mask: NDArray[np.bool_] | None

    @property
    def n_samples(self) -> int:
        return self.data.shape[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape (d_1, ..., d_n) of one sample."""
        return self.data.shape[1:]

    @property
    def dtype(self) -> np.dtype:
        return self.data.dtype


def as_float(value: ArrayLike, name: str) -> Float:
    """A real array as native float32 or float64, without copying when it already is."""
    known = isinstance(value, np.ndarray) and value.dtype != object
    array = np.asarray(value) if known else _from_object(value, name)
    if array.dtype.kind == "c":
        raise InvalidInputError(
            f"Complex data not supported: {name} is {array.dtype}; pass its magnitude, or real and imaginary "
            "parts as samples of their own"
        )
    if array.dtype.kind not in "fiub":
        raise InvalidTypeError(f"{name} must hold real numbers, not {array.dtype}")
    kept = np.float32 if array.dtype in (np.dtype(">f4"), np.dtype("<f4")) else np.float64
    return np.asarray(array, dtype=kept)


def _from_object(value: ArrayLike, name: str) -> NDArray:
    if hasattr(value, "toarray") and not hasattr(value, "__array__"):
        raise InvalidTypeError(
            f"{name} is a sparse matrix; septum needs dense samples: pass {name}.toarray()"
        )
    try:
        array = np.asarray(value)
        if array.dtype == object:
            array = array.astype(np.float64)
    except TypeError as error:
        raise InvalidTypeError(f"{name} must be an array of numbers: {error}") from error
    except ValueError as error:
        raise InvalidInputError(f"{name} must be an array of numbers: {error}") from error
    return array


def as_samples(X: ArrayLike, mask: ArrayLike | None = None, *, name: str = "X", jobs: int = 1) -> Samples:
    """Check samples `(n_samples, d_1, ..., d_n)` and an optional mask of observed entries, in `jobs` threads."""
    data = as_float(X, name)
    if data.ndim == 0:
        raise InvalidInputError(
            f"Expected 2D array, got scalar array instead: {name} must be (n_samples, d_1, ..., d_n)"
        )
    if data.ndim == 1:
        raise InvalidInputError(
            f"Expected 2D array, got 1D array instead: {name} must be (n_samples, d_1, ..., d_n). Reshape your "
            f"data: {name}.reshape(1, -1) if it is one sample, {name}.reshape(-1, 1) if it has one feature"
        )
    if data.shape[0] == 0:
        raise InvalidInputError(
            f"{name} holds 0 sample(s) (shape={data.shape}) while a minimum of 1 is required."
        )
    if 0 in data.shape:
        mode = data.shape.index(0)
        raise InvalidInputError(
            f"{name} holds 0 feature(s) (shape={data.shape}) while a minimum of 1 is required. Mode {mode} is empty"
        )
    observed = None if mask is None else as_mask(mask, data.shape)
    return Samples(*_finite(data, observed, name, jobs))


def as_mask(mask: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """A boolean array of the samples' shape, True where observed; every sample keeps one entry."""
    array = np.asarray(mask)
    if array.shape != shape:
        raise InvalidInputError(f"mask has shape {array.shape}, but the samples have shape {shape}")
    if array.dtype != bool:
        if array.dtype.kind not in "fiu" or not np.isin(array, (0, 1)).all():
            raise InvalidInputError("mask must be boolean: True = observed, False = ignored")
        array = array.astype(bool)
    empty = np.flatnonzero(~array.reshape(len(array), -1).any(axis=1))
    if empty.size:
        raise InvalidInputError(
            f"mask hides every entry of sample {empty[0]}"
            + (f" and of {empty.size - 1} more" if empty.size > 1 else "")
            + ": drop such samples"
        )
    return array


def _finite(
    data: Float, mask: NDArray[np.bool_] | None, name: str, jobs: int
) -> tuple[Float, NDArray[np.bool_] | None]:
    if mask is not None and mask.all():
        mask = None
    if mask is not None:
        data = np.where(mask, data, data.dtype.type(0))

    def is_finite(part: slice) -> bool:
        # A sum is finite unless an entry is not or it overflows; only then look at each entry.
        with np.errstate(over="ignore", invalid="ignore"):
            total = np.sum(data[part], dtype=np.float64)
        return bool(np.isfinite(total)) or bool(np.isfinite(data[part]).all())

    parts = list(chunks(data.shape[0], data[:1].nbytes))
    if jobs == 1 or len(parts) == 1:
        good = list(map(is_finite, parts))
    else:
        with ThreadPoolExecutor(jobs) as pool:
            good = list(pool.map(is_finite, parts))
    if not all(good):
        kind = "NaN" if np.isnan(data[parts[good.index(False)]]).any() else "infinity"
        raise InvalidInputError(
            f"Input {name} contains {kind}. Remove such entries, or give mask=np.isfinite({name}) to leave them out"
        )
    return data, mask


def as_alpha(alpha: object) -> float:
    """The weight of the penalty, the paper's lambda: one finite positive number."""
    if isinstance(alpha, (bool, str)) or not np.isscalar(alpha) or not np.isreal(alpha):
        raise InvalidInputError(f"alpha must be one positive number, not {alpha!r}")
    value = float(alpha)  # type: ignore[arg-type]
    if not np.isfinite(value) or value <= 0:
        raise InvalidInputError(f"alpha must be positive and finite, not {alpha!r}")
    return value


def as_dictionaries(
    dictionaries: Sequence[ArrayLike], shape: tuple[int, ...] | None = None, *, dtype: np.dtype | None = None
) -> list[Float]:
    """One (d_k, r_k) array for each mode of samples of the given shape."""
    if isinstance(dictionaries, np.ndarray) and dictionaries.ndim == 2:
        raise InvalidInputError("dictionaries must be a list with one array for each mode: pass [D]")
    arrays = [as_float(A, f"dictionaries[{k}]") for k, A in enumerate(dictionaries)]
    if shape is not None and len(arrays) != len(shape):
        raise InvalidInputError(
            f"{len(arrays)} dictionaries were given, but each sample has {len(shape)} mode(s) of sizes {shape}"
        )
    for k, array in enumerate(arrays):
        if array.ndim != 2:
            raise InvalidInputError(f"dictionaries[{k}] must be (d_{k + 1}, r_{k + 1}), not {array.shape}")
        if shape is not None and array.shape[0] != shape[k]:
            raise InvalidInputError(
                f"dictionaries[{k}] has atoms of length {array.shape[0]}, but mode {k + 1} of the samples has {shape[k]}"
            )
        if not np.isfinite(array).all():
            raise InvalidInputError(f"dictionaries[{k}] contains NaN or infinity")
    return arrays if dtype is None else [A.astype(dtype, copy=False) for A in arrays]


def chunks(n_samples: int, bytes_per_sample: int, budget: int = CHUNK_BYTES) -> Iterator[slice]:
    """Slices of samples, each of about `budget` bytes, never empty."""
    step = max(1, int(budget // max(1, bytes_per_sample)))
    for start in range(0, n_samples, step):
        yield slice(start, min(start + step, n_samples))
