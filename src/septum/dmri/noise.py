"""The level of the noise, from the data, and what follows from it for alpha.

Take a patch of magnitudes, voxels x volumes, and remove each voxel's mean over every group of volumes (a
shell, the b0s). What is left is signal of low rank plus noise, whose singular values follow Marchenko and
Pastur's law. The median of those that are no signal gives the noise's deviation there; the magnitudes'
mean then says how much of the channels' sigma the magnitude shows (`rician`, Koay's correction).

    edge         the largest singular value that noise alone is likely to have (Johnstone; Tracy and Widom)
    local_sigma  one estimate in each block of a volume; exact zeros (masked by the scanner) are left out
    sigma_map    a smooth map of these, or their median where the map shows no more than its own error
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import ndimage

from septum.array import Float
from septum.coding.compiled import compiled
from septum.dmri.band import Source, in_order
from septum.dmri.contrast import Groups
from septum.dmri.patch import count_inside, gather, tile
from septum.dmri.rician import mean, variance
from septum.errors import InvalidInputError

# (q of the text below) for 5%, 1% and 0.1% of noise patches above the edge
_QUANTILES = {0.05: 0.98, 0.01: 2.02, 0.001: 3.27}
_GRID = 257
# A map whose 5% and 95% points differ by less is that of even noise.
EVEN = 1.2
BLOCK = (5, 5, 5)


def edge(n_rows: float, n_columns: float, *, share: float = 0.01) -> float:
    """The singular value that `share` (0.05, 0.01 or 0.001) of unit-noise matrices exceed.

    sqrt(mu^2 + tau q), mu = sqrt(G - 1/2) + sqrt(V - 1/2), tau = mu (1/sqrt(G - 1/2) + 1/sqrt(V - 1/2))^(1/3),
    with G and V the degrees of freedom left by the means removed.
    """
    if share not in _QUANTILES:
        raise InvalidInputError(f"share must be one of {sorted(_QUANTILES)}, not {share!r}")
    a, b = np.sqrt(max(n_rows, 1) - 0.5), np.sqrt(max(n_columns, 1) - 0.5)
    mu = a + b
    return float(np.sqrt(mu**2 + mu * (1 / a + 1 / b) ** (1 / 3) * _QUANTILES[share]))


def rigorous_edge(n_rows: int, n_columns: int, n_patches: int, probability: float = 0.05) -> float:
    """A bound that none of `n_patches` unit-noise matrices exceeds, but for this probability."""
    return float(np.sqrt(n_rows) + np.sqrt(n_columns) + np.sqrt(2 * np.log(n_patches / probability)))


def coding_alpha(edge_value: float, n_atoms: tuple[int, int], n_patches: int) -> float:
    """min(edge, sqrt(2 log(r1 r2 T))): noise alone then has no code in T patches."""
    return float(min(edge_value, np.sqrt(2 * np.log(max(2.0, float(n_atoms[0]) * n_atoms[1] * n_patches)))))


@lru_cache(maxsize=1)
def median_table() -> NDArray[np.float64]:
    """The median of Marchenko and Pastur's law (unit noise, eigenvalues of X^T X / n) for d / n on a grid of [0, 1]."""
    medians = np.ones(_GRID)
    angle = (np.arange(4000) + 0.5) * np.pi / 4000
    for k, beta in enumerate(np.linspace(0.0, 1.0, _GRID)[1:], start=1):
        # x = 1 + beta + 2 sqrt(beta) cos(angle) turns the density into sin^2(angle) / x.
        x = 1 + beta + 2 * np.sqrt(beta) * np.cos(angle[::-1])
        share = np.cumsum(np.sin(angle[::-1]) ** 2 / x)
        medians[k] = np.interp(0.5, share / share[-1], x)
    return medians


@compiled
def spectrum_sigma(squares, n_rows, n_columns, medians):
    """Noise from ascending squared singular values of a matrix with these degrees of freedom, and the signal's rank.

    Components above the edge are left out and the rest, noise of a matrix with so many rows and columns
    less, is looked at again.
    """
    total = len(squares)
    rank = 0
    variance = 0.0
    for _ in range(20):
        rows, columns = n_rows - rank, n_columns - rank
        small, large = min(rows, columns), max(rows, columns)
        if small < 3:
            break
        low = total - rank - small
        middle = low + (small - 1) / 2.0
        first = int(middle)
        median = squares[first] + (middle - first) * (squares[min(first + 1, total - 1)] - squares[first])
        place = (len(medians) - 1) * small / large
        start = min(int(place), len(medians) - 2)
        expected = medians[start] + (place - start) * (medians[start + 1] - medians[start])
        variance = median / (large * expected)
        limit = variance * (np.sqrt(rows) + np.sqrt(columns) + 1.0) ** 2
        found = 0
        while found < small - 3 and squares[total - 1 - found] > limit:
            found += 1
        if found <= rank:
            break
        rank = found
    return np.sqrt(max(variance, 0.0)), rank


@compiled
def block_sigma(values, inside, xs, ys, z, shape, roots, which, n_free, variances, step, medians, least, out, shown):
    """Sigma in each block of one layer, 0 where fewer than `least` voxels are inside; `shown` is its share that
    the magnitudes show, as a variance.

    `which` names each volume's group, `roots` the root of each group's size. Sigma solves
    deviation^2 = sigma^2 mean(Var[m | E[m] = level / sigma]), the mean over the block's values without their noise
    (Koay and Basser's correction), by fixed-point steps; `variances` tabulates Var over E, in steps of `step` from its
    floor. An empty table takes the deviation as it is.
    """
    n_voxels, n = shape[0] * shape[1] * shape[2], values.shape[3]
    patch = np.empty((n_voxels, n), np.float32)
    n_groups = len(roots)
    for i in range(len(xs)):
        for j in range(len(ys)):
            out[i, j] = 0.0
            shown[i, j] = 0.0
            if count_inside(inside, xs[i], ys[j], z, shape) < least:
                continue
            gather(values, xs[i], ys[j], z, shape, patch)
            means = np.zeros((n_voxels, n_groups), np.float32)
            count = 0
            row = 0
            for p in range(xs[i], xs[i] + shape[0]):
                for q in range(ys[j], ys[j] + shape[1]):
                    for r in range(z, z + shape[2]):
                        if inside[p, q, r]:
                            for v in range(n):
                                patch[count, v] = patch[row, v]
                            count += 1
                        row += 1
            for row in range(count):
                for v in range(n):
                    means[row, which[v]] += patch[row, v] / (roots[which[v]] * roots[which[v]])
                for v in range(n):
                    patch[row, v] -= means[row, which[v]]
            block = patch[:count]
            if count < n:
                squares, vectors = np.linalg.eigh(np.dot(block, block.T))
            else:
                squares, vectors = np.linalg.eigh(np.dot(block.T, block))
            deviation, rank = spectrum_sigma(squares, count, n_free, medians)
            out[i, j] = deviation
            shown[i, j] = 1.0
            if len(variances) == 0 or deviation <= 0.0:
                continue
            kept = np.ascontiguousarray(vectors[:, len(squares) - rank :])
            if count < n:
                signal = np.dot(kept, np.dot(kept.T, block))
            else:
                signal = np.dot(np.dot(block, kept), kept.T)
            for row in range(count):
                for v in range(n):
                    signal[row, v] += means[row, which[v]]
            sigma, share = magnitude_sigma(signal, deviation, variances, step)
            out[i, j] = sigma
            shown[i, j] = share


@compiled
def magnitude_sigma(level, deviation, variances, step):
    """The channels' sigma where magnitudes of these mean levels deviate so, and the share of its variance that they show.

    `variances` holds Var[m] of unit noise for E[m] = `floor` + k `step`, where step = (floor, step).
    """
    floor, width = step
    last = len(variances) - 1
    sigma = deviation / np.sqrt(variances[last])
    share = 1.0
    for _ in range(40):
        total = 0.0
        for row in range(level.shape[0]):
            for v in range(row % 3, level.shape[1], 3):
                place = max((level[row, v] / sigma - floor) / width, 0.0)
                first = int(min(place, last - 1.0))
                part = min(place - first, 1.0)
                total += (1.0 - part) * variances[first] + part * variances[first + 1]
        seen = 0
        for row in range(level.shape[0]):
            seen += (level.shape[1] - row % 3 + 2) // 3
        share = total / seen
        fresh = deviation / np.sqrt(share)
        change = abs(fresh - sigma)
        sigma = fresh
        if change < 1e-3 * sigma:
            break
    return sigma, share


def variance_table(n_coils: int = 1, n_knots: int = 4096) -> tuple[NDArray[np.float64], tuple[float, float]]:
    """Var[m] of unit noise over E[m], and (the floor of E[m], the step)."""
    signal = np.linspace(0.0, 40.0, 40001)
    means = mean(signal, n_coils)
    levels = np.linspace(means[0], means[-1], n_knots)
    return np.interp(levels, means, variance(signal, n_coils)), (float(levels[0]), float(levels[1] - levels[0]))


@dataclass(frozen=True, eq=False)
class Noise:
    """The noise of an image: `sigma`, one number for it, and `field`, a map (X, Y, Z) or None where it is even."""

    sigma: float
    field: NDArray[np.float32] | None = None
    n_coils: int = 1
    source: str = "estimated"

    def at(self, z: slice) -> Any:
        """Sigma for slices z, to broadcast against (X, Y, depth, n_volumes)."""
        return np.float32(self.sigma) if self.field is None else self.field[:, :, z, None]

    def map(self, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """The map as (X, Y, Z)."""
        return np.full(shape[:3], self.sigma, np.float32) if self.field is None else self.field


def estimate(
    source: Source,
    inside: NDArray[np.bool_],
    groups: Groups,
    *,
    n_coils: int = 1,
    magnitude: bool = True,
    n_jobs: int = 1,
    report: Callable[[float], None] = lambda fraction: None,
) -> Noise:
    """The noise of an image, from blocks of 5 x 5 x 5 voxels that are mostly inside."""
    shape = source.shape
    blocks = tile(shape, BLOCK, BLOCK)
    xs, ys, zs = blocks.starts
    members = groups.members or (np.arange(groups.n_volumes),)
    roots = np.sqrt([len(m) for m in members])
    which = np.empty(groups.n_volumes, np.int64)
    for g, m in enumerate(members):
        which[m] = g
    n_free = groups.n_volumes - len(members)
    least = max(8, n_free // 8, blocks.n_voxels // 2)
    variances, step = variance_table(n_coils) if magnitude else (np.empty(0), (0.0, 1.0))
    sigma, shown = np.zeros((2, len(xs), len(ys), len(zs)))

    def layer(k: int) -> tuple[Float, Float]:
        part = slice(int(zs[k]), int(zs[k]) + blocks.shape[2])
        found = np.zeros((2, len(xs), len(ys)))
        block_sigma(
            source.slab(part.start, part.stop), inside[:, :, part], xs, ys, 0, blocks.shape, roots, which, n_free,
            variances, step, median_table(), least, found[0], found[1],
        )  # fmt: skip
        return found[0], found[1]

    for k, found in enumerate(in_order(layer, range(len(zs)), n_jobs)):
        sigma[:, :, k], shown[:, :, k] = found
        report((k + 1) / len(zs))
    centres = tuple(s + (p - 1) / 2 for s, p in zip(blocks.starts, blocks.shape, strict=True))
    value, field = combine(reliable(sigma, shown), centres, shape)  # type: ignore[arg-type]
    return Noise(value, field, n_coils)


def reliable(sigma: Float, shown: Float) -> Float:
    """The estimates (0 where none) that rest on values high above the noise floor, if these are a tenth of all or more."""
    known = sigma > 0
    for share in (0.97, 0.9, 0.8):
        good = known & (shown >= share)
        if good.sum() >= max(8, 0.1 * known.sum()):
            return np.where(good, sigma, 0.0)
    return sigma


def given(sigma: ArrayLike, shape: tuple[int, ...], n_coils: int = 1) -> Noise:
    """Noise that the user knows: a number, or a map (X, Y, Z)."""
    value = np.asarray(sigma)
    if value.dtype.kind not in "fiu":
        raise InvalidInputError("sigma must be a number or a map (X, Y, Z) of numbers")
    if value.ndim == 0:
        number = float(value)
        if not np.isfinite(number) or number <= 0:
            raise InvalidInputError(f"sigma must be positive and finite, not {number}")
        return Noise(number, None, n_coils, "given")
    if value.shape != tuple(shape[:3]):
        raise InvalidInputError(f"sigma has shape {value.shape}, but the image has {tuple(shape[:3])} voxels")
    if not np.isfinite(value).all() or (value < 0).any() or not (value > 0).any():
        raise InvalidInputError("the map of sigma must be finite and not negative, and somewhere positive")
    level = float(np.median(value[value > 0]))
    return Noise(level, np.where(value > 0, value, level).astype(np.float32), n_coils, "given")


def combine(blocks: Float, centres: tuple[Float, Float, Float], shape: tuple[int, ...]) -> tuple[float, Float | None]:
    """One number and, where the noise is uneven, a smooth map (X, Y, Z), from estimates in blocks (0 where none)."""
    known = blocks > 0
    if not known.any():
        return 0.0, None
    sigma = float(np.median(blocks[known]))
    smooth = _smooth(blocks, known)
    low, high = np.quantile(smooth[known], (0.05, 0.95))
    if known.sum() < 27 or high <= EVEN * low:
        return sigma, None
    return sigma, spread(smooth, centres, shape)


def spread(blocks: Float, centres: tuple[Float, Float, Float], shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Linear interpolation between the blocks' centres, and the nearest block outside of them."""
    out = np.asarray(blocks, np.float64)
    for axis in range(3):
        place = np.interp(np.arange(shape[axis]), centres[axis], np.arange(len(centres[axis])))
        first = np.minimum(place.astype(int), len(centres[axis]) - 1)
        second = np.minimum(first + 1, len(centres[axis]) - 1)
        share = np.expand_dims(place - first, [k for k in range(3) if k != axis])
        out = np.take(out, first, axis) * (1 - share) + np.take(out, second, axis) * share
    return out.astype(np.float32)


def _smooth(blocks: Float, known: NDArray[np.bool_]) -> Float:
    """A median over neighbours, then a Gaussian of one block; unknown blocks take their neighbours' mean."""
    filled = np.where(known, blocks, np.nan)
    with np.errstate(all="ignore"):
        median = ndimage.generic_filter(filled, _known_median, size=3, mode="constant", cval=np.nan)
    ready = np.where(np.isfinite(median), median, 0.0)
    weight = np.isfinite(median).astype(float)
    for width in (1.0, 4.0, 16.0):
        top, bottom = ndimage.gaussian_filter(ready, width), ndimage.gaussian_filter(weight, width)
        level = np.where(bottom > 1e-6, top / np.maximum(bottom, 1e-6), 0.0)
        if width == 1.0:
            out = np.where(weight > 0, level, 0.0)
        else:
            out = np.where(out > 0, out, level)
    return np.where(out > 0, out, np.median(blocks[known]))


def _known_median(values: Float) -> float:
    kept = values[np.isfinite(values)]
    return float(np.median(kept)) if kept.size else float("nan")
