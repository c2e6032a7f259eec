"""How section 7 tests dictionaries: patches cut from slices, coded one by one, averaged where they overlap.

    training_patches   T random patches of slices that the test never sees
    cut, join          slices (X, Y, n, G) to patches (n_patches, G, V) and back; overlaps are averaged
    centre             the means of every direction and of every voxel of a patch, to be put back afterwards
    reconstruct        the lasso's reconstruction, with or without least squares on its support
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from septum.array import Float
from septum.baselines.method import synthesise
from septum.coding import sparse_code
from septum.dmri.patch import starts_along
from septum.errors import InvalidInputError

PATCH = 12
APART = 3  # slices between training and test, at least
LASSO_TOLERANCE = 1e-3


def training_slices(slices: Sequence[int], test: Sequence[int], tuning: Sequence[int]) -> list[int]:
    """Those of `slices` at least `APART` away from every test slice, and no tuning slice."""
    return [z for z in slices if all(abs(z - t) >= APART for t in test) and z not in tuning]


def training_patches(image: Float, slices: Sequence[int], count: int, random: np.random.Generator) -> Float:
    """`count` random patches (count, G, P^2), all directions of each, from slices of an image (X, Y, Z, G)."""
    _check_size(image)
    out = np.empty((count, image.shape[3], PATCH * PATCH))
    for t in range(count):
        z = int(random.choice(np.asarray(slices)))
        x, y = (int(random.integers(0, n - PATCH + 1)) for n in image.shape[:2])
        out[t] = image[x : x + PATCH, y : y + PATCH, z].reshape(PATCH * PATCH, -1).T
    return out


def cut(image: Float, stride: int) -> Float:
    """Patches (n_patches, G, P^2) of slices (X, Y, n, G), slice after slice, the last flush with the border."""
    places = _places(image.shape, stride)
    parts = [image[x : x + PATCH, y : y + PATCH, z].reshape(PATCH * PATCH, -1).T for x, y, z in places]
    return np.array(parts, dtype=np.float64)


def join(patches: Float, shape: Sequence[int], stride: int) -> Float:
    """Slices of a shape (X, Y, n, G) from the patches of `cut`."""
    total, weight = np.zeros(tuple(shape)), np.zeros((*shape[:3], 1))
    for patch, (x, y, z) in zip(patches, _places(shape, stride), strict=True):
        total[x : x + PATCH, y : y + PATCH, z] += patch.T.reshape(PATCH, PATCH, -1)
        weight[x : x + PATCH, y : y + PATCH, z] += 1.0
    return total / weight


def centre(patches: Float) -> tuple[Float, Float]:
    """Patches without the mean of every direction and of every voxel, and what was taken away."""
    whole = patches.mean(axis=(1, 2), keepdims=True)
    means = patches.mean(axis=2, keepdims=True) + patches.mean(axis=1, keepdims=True) - whole
    return patches - means, means


@dataclass(frozen=True, eq=False)
class Coded:
    """Reconstructed patches, the largest gap (relative to 1/2 ||X_t||^2), nonzeros a patch, and use.

    `use` counts the samples that use each pair of atoms, (r_1, r_2), or each angular atom where space is the identity.
    """

    patches: Float
    gap: float
    nonzeros: float
    use: Float


def reconstruct(dictionaries: Sequence[Any], patches: Float, alpha: float, *, refit: bool) -> Coded:
    """What the codes of patches (T, G, V) at `alpha` stand for; a spatial dictionary of None codes each voxel alone."""
    angular, spatial = dictionaries
    alone = spatial is None
    samples = patches.transpose(0, 2, 1).reshape(-1, patches.shape[1]) if alone else patches
    sides = [angular] if alone else [angular, spatial]
    found = sparse_code(samples, sides, alpha, tol=LASSO_TOLERANCE, refit=refit)
    rebuilt = synthesise(found.codes, sides)
    if alone:
        rebuilt = rebuilt.reshape(len(patches), patches.shape[2], -1).transpose(0, 2, 1)
    energy = 0.5 * (samples.reshape(len(samples), -1) ** 2).sum(axis=1)
    some = energy > 0
    gap = float((found.gap[some] / energy[some]).max(initial=0.0))
    use = np.zeros(found.codes.shape[1:])
    np.add.at(use, tuple(axis[found.codes.data != 0] for axis in found.codes.coords[1:]), 1.0)
    return Coded(rebuilt, gap, float(np.count_nonzero(found.codes.data)) / len(patches), use)


def _places(shape: Sequence[int], stride: int) -> list[tuple[int, int, int]]:
    xs, ys = (starts_along(int(n), PATCH, stride).tolist() for n in shape[:2])
    return [(x, y, z) for z in range(shape[2]) for x in xs for y in ys]


def _check_size(image: Float) -> None:
    if min(image.shape[:2]) < PATCH:
        raise InvalidInputError(
            f"the image's slices are {image.shape[0]} x {image.shape[1]} voxels: patches of {PATCH} x {PATCH} do not fit"
        )
