"""A volume worked on in bands along z: what threads share, what streams, what is the same for any number of both.

A band is some consecutive starts of a tiling along z. Each is handled by itself, by whichever thread is free,
into sums of its own (`total`, `weight` over the band's slices); the sums are added in the order of the bands.
Slices that no later band touches are finished at once, so that an estimate may be replaced in place while
later bands still read theirs, and nothing but a few bands is held beside it.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from septum.array import Float
from septum.coding.thread import single_blas_thread
from septum.dmri.patch import Starts

Float32 = NDArray[np.float32]


class Source(Protocol):
    """What streams: an image's shape, and some of its slices as float32 (X, Y, depth, n_volumes)."""

    @property
    def shape(self) -> tuple[int, int, int, int]: ...

    def slab(self, start: int, stop: int) -> Float32: ...


@dataclass(frozen=True, eq=False)
class Masked:
    """A source that is zero (never NaN) where `mask` (X, Y, Z) is False."""

    source: Source
    mask: NDArray[np.bool_]

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return self.source.shape

    def slab(self, start: int, stop: int) -> Float32:
        values = self.source.slab(start, stop)
        values[~self.mask[:, :, start:stop]] = 0.0
        return values


@dataclass(frozen=True, eq=False)
class Band:
    """Patches of depth `size` that start at `starts`: slices low:high."""

    starts: Starts
    size: int

    @property
    def low(self) -> int:
        return int(self.starts[0])

    @property
    def high(self) -> int:
        return int(self.starts[-1]) + self.size

    @property
    def slices(self) -> slice:
        return slice(self.low, self.high)

    @property
    def local(self) -> Starts:
        """The starts, counted from the band's first slice."""
        return self.starts - self.low


@dataclass(frozen=True, eq=False)
class Sums:
    """Weighted sums over the slices of a band: (X, Y, depth, n), their weights, and a second quantity's sum."""

    total: Float32
    weight: Float32
    extra: Float32


def empty_sums(shape: tuple[int, int, int], n: int) -> Sums:
    return Sums(np.zeros((*shape, n), np.float32), np.zeros(shape, np.float32), np.zeros(shape, np.float32))


def bands(starts: Starts, size: int, per_band: int) -> list[Band]:
    """Consecutive starts, `per_band` at a time."""
    return [Band(starts[k : k + per_band], size) for k in range(0, len(starts), per_band)]


def in_order(function: Callable, items: Sequence, n_jobs: int) -> Iterator:
    """The results of `function` in the order of the items, at most n_jobs + 1 of them ahead of the reader."""
    with single_blas_thread():
        if n_jobs == 1:
            for item in items:
                yield function(item)
            return
        with ThreadPoolExecutor(n_jobs) as pool:
            pending: deque[Future] = deque()
            try:
                for item in items:
                    pending.append(pool.submit(function, item))
                    if len(pending) > n_jobs:
                        yield pending.popleft().result()
                while pending:
                    yield pending.popleft().result()
            finally:
                for future in pending:
                    future.cancel()


def sweep(
    parts: Sequence[Band],
    work: Callable[[Band], Sums],
    finish: Callable[[slice, Float, Float], None],
    n_jobs: int,
    report: Callable[[float], None],
) -> None:
    """Work on every band; `finish(slices, mean, extra)` is called with the weighted means of finished slices, in order."""
    kept: Sums | None = None
    low = 0
    for count, (band, sums) in enumerate(zip(parts, in_order(work, parts, n_jobs), strict=True)):
        joined = _joined(kept, low, sums, band)
        start = min(low, band.low) if kept is not None else band.low
        stop = parts[count + 1].low if count + 1 < len(parts) else band.high
        done = slice(0, stop - start)
        weight = np.maximum(joined.weight[:, :, done], np.float32(1e-30))
        finish(slice(start, stop), joined.total[:, :, done] / weight[..., None], joined.extra[:, :, done] / weight)
        rest = slice(stop - start, None)
        kept = Sums(joined.total[:, :, rest].copy(), joined.weight[:, :, rest].copy(), joined.extra[:, :, rest].copy())
        low = stop
        report((count + 1) / len(parts))


def _joined(kept: Sums | None, low: int, sums: Sums, band: Band) -> Sums:
    """The sums of slices from `low` on, those of the band added."""
    if kept is None or kept.weight.shape[2] == 0:
        return sums
    offset, overlap = band.low - low, kept.weight.shape[2] - (band.low - low)
    parts = []
    for old, new in ((kept.total, sums.total), (kept.weight, sums.weight), (kept.extra, sums.extra)):
        out = np.concatenate([old[:, :, :offset], new], axis=2) if offset else new
        out[:, :, offset : offset + overlap] += old[:, :, offset:]
        parts.append(out)
    return Sums(*parts)
