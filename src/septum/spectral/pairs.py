"""The singular pairs above a level, of all samples, as flat lists.

These pairs are the atoms of the explicit minimiser of section 4.2, r~ in number, and the material
from which dictionaries are seeded.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from septum.array import Float, chunks
from septum.spectral.gramian import scaled_wide
from septum.spectral.threshold import leading_vectors


@dataclass(frozen=True)
class SingularPairs:
    """Pair p of sample `sample[p]` has value `value[p]` and vectors `left[:, p]`, `right[:, p]`."""

    sample: NDArray[np.intp]
    value: Float
    left: Float
    right: Float

    def __len__(self) -> int:
        return self.value.size


def pairs_above(matrices: Float, alpha: float) -> SingularPairs:
    """Every singular pair with sigma > alpha, sample by sample, largest first, signs fixed.

    The sign of a pair is arbitrary; here the entry of `left` of largest magnitude is positive.
    """
    flipped = matrices.shape[1] > matrices.shape[2]
    found: list[tuple[Float, Float, Float, Float]] = []
    for part in chunks(matrices.shape[0], 8 * matrices[:1].size):
        block, scale = scaled_wide(matrices[part])
        for rows, left, sigma in leading_vectors(block, alpha / scale):
            local, k = np.nonzero(scale[rows, None] * sigma > alpha)
            u = left[local, :, k]
            v = np.einsum("pi,pij->pj", u, block[rows[local]])
            v /= np.linalg.norm(v, axis=1, keepdims=True)
            found.append((part.start + rows[local], (scale[rows, None] * sigma)[local, k], u, v))
    m, n = min(matrices.shape[1:]), max(matrices.shape[1:])
    if not found:
        return SingularPairs(np.zeros(0, np.intp), np.zeros(0), *_oriented(np.zeros((m, 0)), np.zeros((n, 0)), flipped))
    sample, value, u, v = (np.concatenate(column) for column in zip(*found, strict=True))
    order = np.lexsort((-value, sample))
    sample, value, u, v = sample[order], value[order], u[order], v[order]
    left, right = _oriented(u.T, v.T, flipped)
    top = np.take_along_axis(left, np.abs(left).argmax(axis=0)[None], axis=0)[0]
    sign = np.where(top < 0, -1.0, 1.0)
    return SingularPairs(sample.astype(np.intp), value, left * sign, right * sign)


def _oriented(short: Float, long: Float, flipped: bool) -> tuple[Float, Float]:
    return (long, short) if flipped else (short, long)
