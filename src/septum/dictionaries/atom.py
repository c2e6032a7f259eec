"""What every dictionary shares: unit columns, and checked shapes, counts and directions."""

from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike, NDArray

from septum.array import Float, as_float
from septum.errors import InvalidInputError


def unit_columns(matrix: Float, *, negligible: float = 1e-8) -> Float:
    """The columns scaled to unit Euclidean norm; those below `negligible` of the largest are dropped."""
    norms = np.linalg.norm(matrix, axis=0)
    kept = norms > negligible * norms.max()
    return matrix[:, kept] / norms[kept]


def as_count(value: object, name: str, *, least: int = 1) -> int:
    """A whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InvalidInputError(f"{name} must be a whole number, not {value!r}")
    if value < least:
        raise InvalidInputError(f"{name} must be at least {least}, not {value}")
    return int(value)


def as_extent(shape: object, name: str = "shape") -> tuple[int, ...]:
    """An image's shape: one length, or one for each axis."""
    lengths = (shape,) if isinstance(shape, Integral) else shape
    if not isinstance(lengths, (tuple, list, np.ndarray)) or len(lengths) == 0:
        raise InvalidInputError(
            f"{name} must be a length or a tuple of lengths, such as (12, 12), not {shape!r}"
        )
    return tuple(as_count(length, f"{name}[{axis}]") for axis, length in enumerate(lengths))


def as_positive(value: object, name: str, *, or_zero: bool = False) -> float:
    """One finite positive number; zero too if `or_zero`."""
    if isinstance(value, (bool, str)) or not np.isscalar(value) or not np.isreal(value):
        raise InvalidInputError(f"{name} must be one number, not {value!r}")
    number = float(value)  # type: ignore[arg-type]
    if not np.isfinite(number) or number < 0 or (number == 0 and not or_zero):
        wanted = "at least 0" if or_zero else "positive"
        raise InvalidInputError(f"{name} must be finite and {wanted}, not {value!r}")
    return number


def as_directions(directions: ArrayLike) -> NDArray[np.float64]:
    """Directions `(G, 3)` scaled to unit length; a zero row (a b = 0 image) has none and is refused."""
    array = as_float(directions, "directions").astype(np.float64)
    if array.ndim != 2 or array.shape[1] != 3 or array.shape[0] == 0:
        raise InvalidInputError(f"directions must be (G, 3), one row for each measurement, not {array.shape}")
    if not np.isfinite(array).all():
        raise InvalidInputError("directions contains NaN or infinity")
    lengths = np.linalg.norm(array, axis=1)
    zero = np.flatnonzero(lengths < 1e-6)
    if zero.size:
        raise InvalidInputError(
            f"directions[{zero[0]}] is zero: leave out the b = 0 measurements, which have no direction"
        )
    return array / lengths[:, None]
