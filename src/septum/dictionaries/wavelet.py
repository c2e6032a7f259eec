"""Wavelets, PyWavelets', as atoms: column k is the inverse transform of the k-th unit coefficient.

The transform is periodic over the image and runs over as many levels as every axis can be halved, so
an orthogonal wavelet gives an orthonormal basis (a biorthogonal one a basis with unit columns).
"""

from itertools import product
from math import prod
from typing import Any

import numpy as np

from septum.array import Float
from septum.dictionaries.atom import as_count, as_extent, unit_columns
from septum.errors import InvalidInputError, MissingExtraError


def wavelet(shape: int | tuple[int, ...], name: str = "db2", *, level: int | None = None) -> Float:
    """Wavelet atoms for signals of `shape`: a (d, d) dictionary; `name` is any discrete PyWavelets name.

    `level` halves every axis that often; the default is the most that all axes allow (2 for 12 x 12).
    """
    lengths = as_extent(shape)
    try:
        import pywt
    except ImportError as error:
        raise MissingExtraError("PyWavelets") from error
    if name not in pywt.wavelist(kind="discrete"):
        raise InvalidInputError(f'unknown wavelet {name!r}: try "haar", "db2", "sym4" or "bior2.2"')
    most = min(_halvings(length) for length in lengths)
    depth = most if level is None else as_count(level, "level")
    if not 1 <= depth <= most:
        raise InvalidInputError(
            f"an image of shape {lengths} can be halved {most} time(s), not {max(depth, 1)}: "
            "choose a smaller level, or lengths divisible by a higher power of two"
        )
    packed, places = pywt.coeffs_to_array(_empty_bands(lengths, depth))
    atoms = np.empty((prod(lengths), packed.size))
    for k in range(packed.size):
        unit = np.zeros(packed.size)
        unit[k] = 1.0
        coefficients = pywt.array_to_coeffs(unit.reshape(packed.shape), places, output_format="wavedecn")
        atoms[:, k] = pywt.waverecn(coefficients, name, mode="periodization").ravel()
    return unit_columns(atoms)


def _empty_bands(lengths: tuple[int, ...], depth: int) -> list[Any]:
    """Zero coefficients in PyWavelets' layout: the approximation, then each level's details, coarse to fine."""
    bands: list[Any] = [np.zeros([length >> depth for length in lengths])]
    names = ["".join(letters) for letters in product("ad", repeat=len(lengths))][1:]
    for level in range(depth, 0, -1):
        bands.append({band: np.zeros([length >> level for length in lengths]) for band in names})
    return bands


def _halvings(length: int) -> int:
    return (length & -length).bit_length() - 1
