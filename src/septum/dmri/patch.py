"""Patches: which blocks of voxels are worked on, and the cosine transform of one.

A `Tiling` says where patches of a shape start, at a stride, the last one flush with the far border, so that
every voxel is covered. Starts depend on the image alone, never on how it is cut into slabs. A volume is
worked on in bands of consecutive starts along z, which threads share (`septum.dmri.band`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from septum.array import Float
from septum.coding.compiled import compiled
from septum.errors import InvalidInputError

Starts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Tiling:
    """Patches of a shape (x, y, z) in a volume: their starts along each axis."""

    shape: tuple[int, int, int]
    starts: tuple[Starts, Starts, Starts]

    @property
    def n_voxels(self) -> int:
        return prod(self.shape)

    @property
    def n_patches(self) -> int:
        return prod(len(s) for s in self.starts)


def tile(volume: Sequence[int], shape: Sequence[int], stride: Sequence[int]) -> Tiling:
    """The patches of `shape` in a volume (X, Y, Z, ...), one every `stride` voxels."""
    sizes = tuple(min(int(p), int(n)) for p, n in zip(shape, volume[:3], strict=True))
    starts = tuple(
        starts_along(int(n), p, max(1, min(int(s), p))) for n, p, s in zip(volume[:3], sizes, stride, strict=True)
    )
    return Tiling(sizes, starts)  # type: ignore[arg-type]


def starts_along(length: int, size: int, stride: int) -> Starts:
    """0, stride, 2 stride, ... and the last place where a patch fits."""
    last = length - size
    return np.unique(np.append(np.arange(0, last + 1, stride), last)).astype(np.int64)


def parse_shape(patch: object, name: str = "patch") -> tuple[int, int, int]:
    """5 -> (5, 5, 5); (12, 12) -> (12, 12, 1): a square in each slice; three sizes as they are."""
    sizes = [patch] * 3 if isinstance(patch, (int, np.integer)) else list(patch)  # type: ignore[call-overload]
    if len(sizes) == 2:
        sizes = [*sizes, 1]
    whole = all(isinstance(p, (int, np.integer)) and not isinstance(p, bool) and p >= 1 for p in sizes)
    if len(sizes) != 3 or not whole:
        raise InvalidInputError(f"{name} must be one, two or three whole numbers of at least 1, not {patch!r}")
    return int(sizes[0]), int(sizes[1]), int(sizes[2])


def cosines(size: int) -> Float:
    """The orthonormal cosine transform (DCT-II) of vectors of this length: rows are its basis."""
    place = np.arange(size)
    rows = np.cos(np.pi * (place + 0.5) * place[:, None] / size) * np.sqrt(2.0 / size)
    rows[0] /= np.sqrt(2.0)
    return rows


def joint_cosines(shape: tuple[int, int, int]) -> Float:
    """The cosine transform of a whole patch, (n_voxels, n_voxels) float32, voxels in C order."""
    a, b, c = (cosines(p) for p in shape)
    return np.ascontiguousarray(np.kron(np.kron(a, b), c), dtype=np.float32)


@compiled
def gather(volume, x, y, z, shape, out):
    """out[voxel, :] = the patch's voxels in C order; volume is (X, Y, Z, n)."""
    row = 0
    n = volume.shape[3]
    for i in range(x, x + shape[0]):
        for j in range(y, y + shape[1]):
            for k in range(z, z + shape[2]):
                for v in range(n):
                    out[row, v] = volume[i, j, k, v]
                row += 1


@compiled
def scatter(total, weight, x, y, z, shape, patch, share):
    """Add share * patch to the volume `total`, and share to `weight`."""
    row = 0
    n = total.shape[3]
    for i in range(x, x + shape[0]):
        for j in range(y, y + shape[1]):
            for k in range(z, z + shape[2]):
                for v in range(n):
                    total[i, j, k, v] += share * patch[row, v]
                weight[i, j, k] += share
                row += 1


@compiled
def count_inside(inside, x, y, z, shape):
    """How many voxels of a patch are inside."""
    count = 0
    for i in range(x, x + shape[0]):
        for j in range(y, y + shape[1]):
            for k in range(z, z + shape[2]):
                if inside[i, j, k]:
                    count += 1
    return count
