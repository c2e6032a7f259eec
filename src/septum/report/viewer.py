"""The viewer's data: a few slices of a few volumes, before and after, small enough for a page.

At most nine slices and eight volumes of each layer (before, after, residual, noise) go into one picture
a layer, a column a volume and a row a slice, 8 bits a pixel; the page draws its tiles from those. Before
and after share one grey scale, chosen volume by volume; the residual's scale is symmetric about zero.
Large images are cut to where there is something, then thinned (every second voxel, said in the page),
then shown with fewer slices, until all layers together have at most `LARGEST` pixels: about 6 MB of page
in the worst case.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from septum.array import Float
from septum.errors import InvalidInputError
from septum.plot.sphere import project
from septum.plot.style import looks, positive, signed
from septum.report.raster import colour_table, data_uri, encode, quantise

MOST_SLICES, MOST_VOLUMES = 9, 8
LARGEST = 4_500_000
_WIDEST = 256
_B0 = 50.0


@dataclass(frozen=True, eq=False)
class Viewer:
    """Volumes to look at, (x, y, z, n) each; the page shows slices of constant z.

    Parameters
    ----------
    before, after : arrays (x, y, z, n)
    residual : array (x, y, z, n), optional
        By default before minus after.
    noise : array (x, y, z) or (x, y, z, n), optional
        The noise map.
    slices, volumes : sequences of int, optional
        Which to show (9 and 8 at most); by default spread over the mask and over the directions.
    labels : sequence of n strings, optional
        What to call each volume; by default made from bvals and bvecs.
    window : (low, high), optional
        The grey scale of before and after; by default each volume's own.
    mask : array (x, y, z), optional
        Where there is something to see.
    affine : array (4, 4), optional
        Gives the voxels' size and which side is left.
    names : (str, str)
        What before and after are called in the page.
    """

    before: ArrayLike
    after: ArrayLike
    residual: ArrayLike | None = None
    noise: ArrayLike | None = None
    slices: Sequence[int] | None = None
    volumes: Sequence[int] | None = None
    labels: Sequence[str] | None = None
    window: tuple[float, float] | None = None
    bvals: ArrayLike | None = None
    bvecs: ArrayLike | None = None
    mask: ArrayLike | None = None
    affine: ArrayLike | None = None
    names: tuple[str, str] = ("before", "after")
    _shape: tuple[int, ...] = field(init=False, repr=False, default=())

    def __post_init__(self) -> None:
        shape = np.shape(self.before)
        if len(shape) != 4 or 0 in shape:
            raise InvalidInputError(f"the viewer needs volumes of shape (x, y, z, n), not {shape}")
        _same(self.after, shape, "after")
        _same(self.residual, shape, "residual")
        _same(self.mask, shape[:3], "mask")
        if self.noise is not None and np.shape(self.noise) not in (shape, shape[:3]):
            raise InvalidInputError(
                f"noise has shape {np.shape(self.noise)}, expected {shape[:3]} or {shape}"
            )
        for name, given, size in (("bvals", self.bvals, shape[3]), ("labels", self.labels, shape[3])):
            if given is not None and len(np.asarray(given)) != size:
                raise InvalidInputError(f"{len(np.asarray(given))} {name} do not match {size} volumes")
        if self.bvecs is not None and np.shape(self.bvecs) != (shape[3], 3):
            raise InvalidInputError(f"bvecs must have shape {(shape[3], 3)}, not {np.shape(self.bvecs)}")
        _inside(self.slices, shape[2], "slice", MOST_SLICES)
        _inside(self.volumes, shape[3], "volume", MOST_VOLUMES)
        object.__setattr__(self, "_shape", shape)

    @cached_property
    def chosen_volumes(self) -> list[int]:
        """The volumes shown: as given, else some of each kind, far apart."""
        if self.volumes is not None:
            return [int(v) for v in self.volumes]
        n = self._shape[3]
        if self.bvals is None:
            return _spread(n, MOST_VOLUMES)
        return _far_apart(np.asarray(self.bvals, dtype=np.float64), self.bvecs, MOST_VOLUMES)

    @cached_property
    def _occupied(self) -> NDArray[np.bool_]:
        """Where there is something: the mask, else voxels that are not zero in the volumes shown."""
        if self.mask is not None and np.any(self.mask):
            return np.asarray(self.mask, dtype=bool)
        before = np.asarray(self.before)
        filled = np.zeros(self._shape[:3], dtype=bool)
        for v in self.chosen_volumes:
            filled |= np.abs(before[..., v]) > 0
        return filled if filled.any() else np.ones(self._shape[:3], dtype=bool)

    @cached_property
    def _cut(self) -> tuple[slice, slice]:
        """The rectangle shown, with a margin, and thinned where it would be too wide."""
        cuts = []
        for axis, other in ((0, (1, 2)), (1, (0, 2))):
            at = np.flatnonzero(self._occupied.any(axis=other))
            start, stop = max(0, at[0] - 2), min(self._shape[axis], at[-1] + 3)
            cuts.append(slice(int(start), int(stop), -(-int(stop - start) // _WIDEST)))
        step = max(cut.step for cut in cuts)
        return slice(cuts[0].start, cuts[0].stop, step), slice(cuts[1].start, cuts[1].stop, step)

    @property
    def step(self) -> int:
        """1 when every voxel is shown, 2 when every second."""
        return self._cut[0].step

    @cached_property
    def tile(self) -> tuple[int, int]:
        """Width and height of one slice, in pixels."""
        width, height = (len(range(cut.start, cut.stop, cut.step)) for cut in self._cut)
        return width, height

    @cached_property
    def chosen_slices(self) -> list[int]:
        """The slices shown: as given, else spread over those that are not empty."""
        area = self.tile[0] * self.tile[1]
        room = int((LARGEST / area) // (3 * len(self.chosen_volumes) + 1))
        if self.slices is not None:
            given = [int(z) for z in self.slices]
            return (
                given if len(given) <= max(1, room) else [given[i] for i in _spread(len(given), max(1, room))]
            )
        weight = self._occupied.sum(axis=(0, 1))
        full = np.flatnonzero(weight >= 0.15 * weight.max())
        return [int(full[i]) for i in _spread(len(full), max(1, min(MOST_SLICES, room)))]

    def _tiles(self, volumes: ArrayLike) -> Float:
        """(slices, volumes, height, width) as shown: rows run down the page."""
        array = np.asarray(volumes)
        x, y = self._cut
        picked = array[x, y][:, :, self.chosen_slices]
        picked = picked[..., self.chosen_volumes] if array.ndim == 4 else picked[..., None]
        turned = picked[:: -1 if self._turns[0] else 1, :: -1 if self._turns[1] else 1]
        return np.ascontiguousarray(turned.transpose(2, 3, 1, 0)[:, :, ::-1], dtype=np.float64)

    @cached_property
    def _turns(self) -> tuple[bool, bool]:
        """Whether x and y are turned round so that right, front and top are right and up."""
        letters = self._letters
        return letters[0] in ("L", "P", "I"), letters[1] in ("L", "P", "I")

    @cached_property
    def _letters(self) -> tuple[str, str]:
        """The side of the body that each in-plane axis runs to."""
        if self.affine is None:
            return "", ""
        axes = np.asarray(self.affine, dtype=np.float64)[:3, :2]
        main = np.abs(axes).argmax(axis=0)
        return tuple(("RAS" if axes[m, k] > 0 else "LPI")[m] for k, m in enumerate(main))  # type: ignore[return-value]

    @cached_property
    def edges(self) -> dict[str, str]:
        """The letters at the four edges of a slice, where the affine is known."""
        opposite = {"R": "L", "L": "R", "A": "P", "P": "A", "S": "I", "I": "S", "": ""}
        x, y = (opposite[a] if turn else a for a, turn in zip(self._letters, self._turns, strict=True))
        return {"left": opposite[x], "right": x, "top": y, "bottom": opposite[y]}

    @cached_property
    def aspect(self) -> float:
        """Width over height of a slice on the page."""
        size = np.ones(2)
        if self.affine is not None:
            size = np.linalg.norm(np.asarray(self.affine, dtype=np.float64)[:3, :2], axis=0)
            size = np.where(size > 0, size, 1.0)
        return float(self.tile[0] * size[0] / (self.tile[1] * size[1]))

    def volume_labels(self) -> list[str]:
        """What each volume shown is called."""
        if self.labels is not None:
            return [str(self.labels[v]) for v in self.chosen_volumes]
        n = self._shape[3]
        return [f"Volume {v + 1} of {n}{self._weighting(v)}" for v in self.chosen_volumes]

    def _weighting(self, volume: int) -> str:
        if self.bvals is None:
            return ""
        b = float(np.asarray(self.bvals)[volume])
        if b <= _B0:
            return " · b = 0"
        text = f" · b = {b:.0f} s/mm²"
        if self.bvecs is not None:
            text += " · along ({:.2f}, {:.2f}, {:.2f})".format(
                *(np.asarray(self.bvecs, dtype=float)[volume] + 0.0)
            )
        return text.replace("-", "−")

    def pack(self) -> dict[str, Any]:
        """What the page needs: layers as data URIs with their scales, labels, the directions."""
        before, after = self._tiles(self.before), self._tiles(self.after)
        taken = before - after if self.residual is None else self._tiles(self.residual)
        low, high = self._grey(before)
        limit = _robust_top(np.abs(taken))
        with looks():
            diverging, rising = colour_table(signed()), colour_table(positive())
        layers = [
            _layer("before", before, low, high),
            _layer("after", after, low, high),
            _layer("residual", taken, -limit, limit, diverging),
        ]
        if self.noise is not None:
            level = self._tiles(self.noise)
            top = np.full(level.shape[1], _robust_top(level).max())
            layers.append(_layer("noise", level, np.zeros_like(top), top, rising))
        slices = [f"Slice {z + 1} of {self._shape[2]}" for z in self.chosen_slices]
        return {
            "layers": layers,
            "script": {
                "tile": list(self.tile),
                "slices": slices,
                "volumes": self.volume_labels(),
                "layers": {k["name"]: {q: k[q] for q in ("columns", "low", "high")} for k in layers},
            },
            "names": list(self.names),
            "tile": list(self.tile),
            "aspect": round(self.aspect, 6),
            "step": self.step,
            "edges": self.edges,
            "slices": slices,
            "volumes": self.volume_labels(),
            "start": [
                len(self.chosen_slices) // 2,
                min(len(self.chosen_volumes) - 1, self._first_weighted()),
            ],
            "compass": self._compass(),
        }

    def middle(self) -> dict[str, Float]:
        """The slice the page opens with, (x, y) each: for a page without scripts."""
        z = self.chosen_slices[len(self.chosen_slices) // 2]
        v = self.chosen_volumes[min(len(self.chosen_volumes) - 1, self._first_weighted())]
        x, y = self._cut
        before = np.asarray(self.before)[x, y, z, v].astype(np.float64)
        after = np.asarray(self.after)[x, y, z, v].astype(np.float64)
        taken = (
            before - after
            if self.residual is None
            else np.asarray(self.residual)[x, y, z, v].astype(np.float64)
        )
        return {"before": before, "after": after, "residual": taken}

    def _first_weighted(self) -> int:
        if self.bvals is None:
            return 0
        shown = np.asarray(self.bvals)[self.chosen_volumes] > _B0
        return int(np.argmax(shown)) if shown.any() else 0

    def _grey(self, before: Float) -> tuple[Float, Float]:
        n = before.shape[1]
        if self.window is not None:
            return np.full(n, float(self.window[0])), np.full(n, float(self.window[1]))
        low = np.minimum(0.0, np.nanpercentile(before, 0.5, axis=(0, 2, 3)))
        return low, _robust_top(before)

    def _compass(self) -> list[dict[str, Any]]:
        """Every direction as a point of the disc, b = 0 at its centre; those shown with their place."""
        if self.bvals is None or self.bvecs is None:
            return []
        b, g = np.asarray(self.bvals, dtype=np.float64), np.asarray(self.bvecs, dtype=np.float64)
        radius = np.sqrt(b / max(b.max(), 1.0))
        places = project(g) * radius[:, None]
        shown = {v: i for i, v in enumerate(self.chosen_volumes)}
        return [
            {"x": round(float(places[v, 0]), 4), "y": round(float(-places[v, 1]), 4), "at": shown.get(v, -1)}
            for v in range(len(b))
            if b[v] > _B0
        ]


def _layer(name: str, tiles: Float, low: Float, high: Float, colours: Any = None) -> dict[str, Any]:
    """One layer's picture, with the scale of each of its volumes."""
    slices, volumes, height, width = tiles.shape
    levels = quantise(tiles, low[None, :, None, None], high[None, :, None, None])
    sheet = levels.transpose(0, 2, 1, 3).reshape(slices * height, volumes * width)
    return {
        "name": name,
        "uri": data_uri(encode(sheet, colours)),
        "columns": volumes,
        "low": [float(f"{v:.4g}") for v in low],
        "high": [float(f"{v:.4g}") for v in high],
    }


def _robust_top(tiles: Float) -> Float:
    """The 99.5th percentile of the positive values of each volume (1 where there is none)."""
    tops = []
    for volume in range(tiles.shape[1]):
        values = tiles[:, volume]
        values = values[np.isfinite(values) & (values > 0)]
        tops.append(float(np.percentile(values, 99.5)) if values.size else 1.0)
    return np.array(tops)


def _spread(n: int, most: int) -> list[int]:
    """At most `most` of range(n), evenly spaced; a single one is the middle."""
    if n <= most:
        return list(range(n))
    if most == 1:
        return [n // 2]
    return sorted({int(i) for i in np.rint(np.linspace(0, n - 1, most))})


def _far_apart(bvals: Float, bvecs: ArrayLike | None, most: int) -> list[int]:
    """One b0, then directions of every shell in turn, each the farthest from those taken."""
    b0s, weighted = np.flatnonzero(bvals <= _B0), np.flatnonzero(bvals > _B0)
    chosen = [int(b0s[0])] if b0s.size else []
    if bvecs is None or not weighted.size:
        left = [int(v) for v in (weighted if weighted.size else b0s[1:])]
        return chosen + [left[i] for i in _spread(len(left), most - len(chosen))]
    g = np.asarray(bvecs, dtype=np.float64)
    shell = np.round(bvals / 100.0)
    levels = [np.flatnonzero((shell == s) & (bvals > _B0)) for s in np.unique(shell[weighted])]
    picked: list[int] = []
    turn = 0
    while len(picked) + len(chosen) < min(most, len(weighted) + len(chosen)):
        free = [v for v in levels[turn % len(levels)] if v not in picked]
        turn += 1
        if free:
            near = np.max(np.abs(g[free] @ g[picked].T), axis=1) if picked else np.zeros(len(free))
            picked.append(int(free[int(np.argmin(near))]))
    return chosen + sorted(picked, key=lambda v: (shell[v], v))


def _same(array: ArrayLike | None, shape: tuple[int, ...], name: str) -> None:
    if array is not None and np.shape(array) != shape:
        raise InvalidInputError(f"{name} has shape {np.shape(array)}, expected {shape}")


def _inside(chosen: Sequence[int] | None, size: int, name: str, most: int) -> None:
    if chosen is None:
        return
    if not 1 <= len(chosen) <= most:
        raise InvalidInputError(f"the viewer shows 1 to {most} {name}s, not {len(chosen)}")
    if min(chosen) < 0 or max(chosen) >= size:
        raise InvalidInputError(f"{name}s must be between 0 and {size - 1}, not {list(chosen)}")
