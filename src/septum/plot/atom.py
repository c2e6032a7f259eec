"""Dictionaries as pictures: one tile an atom, the most used first.

An atom of a spatial mode is a patch (give its shape), of an angular mode a disc (give the directions),
of any other mode a curve. An atom and its opposite are the same atom: each is shown with the sign
that makes its largest values positive, and scaled to its own largest value. A joint atom is the product
of one atom a mode; its tile shows them side by side.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from septum.array import Float
from septum.errors import InvalidInputError
from septum.plot.sphere import disc
from septum.plot.style import FAINT, LINES, RULE, WIDTH, blank, canvas, looks, signed

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Painter = Callable[["Axes", Float, float, float], None]


def atoms(
    dictionary: ArrayLike,
    shape: tuple[int, ...] | None = None,
    *,
    use: ArrayLike | None = None,
    limit: int = 60,
    columns: int | None = None,
    title: str = "",
) -> "Figure":
    """The atoms of one dictionary (d, r), as patches of `shape` (2-D or 3-D) or, without one, as curves.

    `use` (r,) sorts them, most used first, and is written under each as a share of all uses. A 3-D patch is
    shown by its middle slice.
    """
    columns_of = _columns(dictionary)
    painter = _patch(shape, len(columns_of)) if shape is not None else _curve
    return _sheet(columns_of, painter, use=use, limit=limit, columns=columns, title=title)


def angular_atoms(
    dictionary: ArrayLike,
    bvecs: ArrayLike,
    *,
    use: ArrayLike | None = None,
    limit: int = 60,
    columns: int | None = None,
    title: str = "",
) -> "Figure":
    """The atoms of an angular dictionary (d, r) as discs: half a sphere each, seen along z.

    Directions that are zero (b0 volumes) are left out.
    """
    columns_of = _columns(dictionary)
    return _sheet(
        columns_of, _ball(bvecs, len(columns_of)), use=use, limit=limit, columns=columns, title=title
    )


def joint_atoms(
    angular: ArrayLike,
    spatial: ArrayLike,
    use: Any,
    *,
    bvecs: ArrayLike | None = None,
    shape: tuple[int, ...] | None = None,
    limit: int = 36,
    columns: int | None = None,
    title: str = "",
) -> "Figure":
    """Joint atoms, the pairs used most often: the spatial atom beside the angular one.

    `use` (r_1, r_2) counts the samples in which each pair has a nonzero code; or give the codes themselves
    (n_samples, r_1, r_2), sparse or dense.
    """
    a, s = _columns(angular), _columns(spatial)
    count = joint_use(use)
    if count.shape != (a.shape[1], s.shape[1]):
        raise InvalidInputError(
            f"use has shape {count.shape}, the dictionaries ask for {(a.shape[1], s.shape[1])}"
        )
    order = np.argsort(-count, axis=None, kind="stable")[: min(limit, int((count > 0).sum()))]
    i, j = np.unravel_index(order, count.shape)
    left = _patch(shape, len(s)) if shape is not None else _curve
    right = _ball(bvecs, len(a)) if bvecs is not None else _curve
    total = max(1.0, float(count.sum()))
    tiles = [
        _Tile((left, right), (s[:, q], a[:, p]), f"{count[p, q] / total:.1%}")
        for p, q in zip(i, j, strict=True)
    ]
    return _paint(tiles, columns or 6, title)


def joint_use(codes: Any) -> NDArray[np.float64]:
    """How many samples use each joint atom: (r_1, ..., r_n) from codes (n_samples, r_1, ..., r_n), or the counts."""
    if hasattr(codes, "coords"):  # a SciPy sparse array
        if codes.ndim == 2:
            return np.asarray(codes.toarray(), dtype=np.float64)
        kept = codes.data != 0
        count = np.zeros(codes.shape[1:])
        np.add.at(count, tuple(axis[kept] for axis in codes.coords[1:]), 1.0)
        return count
    array = np.asarray(codes)
    return (array != 0).sum(axis=0).astype(np.float64) if array.ndim == 3 else array.astype(np.float64)


@dataclass(frozen=True)
class _Tile:
    """What stands side by side in one tile, and the words below."""

    painters: tuple[Painter, ...]
    atoms: tuple[Float, ...]
    label: str


def _columns(dictionary: ArrayLike) -> Float:
    array = np.asarray(dictionary, dtype=np.float64)
    if array.ndim != 2:
        raise InvalidInputError(f"a dictionary must have shape (d, r), not {array.shape}")
    return array


def _sheet(
    dictionary: Float, painter: Painter, *, use: ArrayLike | None, limit: int, columns: int | None, title: str
) -> "Figure":
    r = dictionary.shape[1]
    order = np.arange(r)
    labels = [""] * r
    if use is not None:
        count = np.asarray(use, dtype=np.float64)
        if count.shape != (r,):
            raise InvalidInputError(f"use has shape {count.shape}, but the dictionary has {r} atoms")
        order = np.argsort(-count, kind="stable")
        total = max(count.sum(), np.finfo(float).tiny)
        labels = [f"{c / total:.1%}" if c else "unused" for c in count]
    shown = order[:limit]
    tiles = [_Tile((painter,), (dictionary[:, i],), labels[i]) for i in shown]
    if not columns:
        columns = int(np.clip(np.ceil(np.sqrt(2.4 * max(1, len(tiles)))), 4, 12))
    return _paint(tiles, columns, title)


def _paint(tiles: Sequence[_Tile], columns: int, title: str) -> "Figure":
    """All tiles on one axes whose unit is the side of a tile's picture."""
    parts = max((len(tile.atoms) for tile in tiles), default=1)
    gap, inner = 0.16 * parts, 0.06
    label = 0.0
    across = parts + inner * (parts - 1)
    width = columns * (across + gap) - gap
    if any(tile.label for tile in tiles):
        label = 0.15 * width / WIDTH * 1.05
    rows = max(1, -(-len(tiles) // columns))
    down = 1.0 + label + (gap if not label else 0.5 * gap)
    height = rows * down - (down - 1.0 - label)
    head = 0.34 if title else 0.0
    unit = WIDTH / (width + 0.1)
    with looks():
        figure = blank(WIDTH, unit * (height + 0.1) + head)
        tall = figure.get_figheight()
        axes = canvas(figure, height=1.0 - head / tall)
        axes.set_xlim(-0.05, width + 0.05)
        axes.set_ylim(height + 0.05, -0.05)
        if title:
            figure.text(0.006, 1 - 0.08 / tall, title, va="top", ha="left", weight="bold", size=10)
        for k, tile in enumerate(tiles):
            x, y = (k % columns) * (across + gap), (k // columns) * down
            for q, (painter, atom) in enumerate(zip(tile.painters, tile.atoms, strict=True)):
                painter(axes, atom, x + q * (1 + inner), y)
            if tile.label:
                axes.text(
                    x + across / 2,
                    y + 1.02 + 0.5 * label,
                    tile.label,
                    ha="center",
                    va="center",
                    size=7,
                    color=FAINT,
                )
        if not tiles:
            axes.text(width / 2, height / 2, "no atoms", ha="center", va="center", color=FAINT)
        axes.set_xlim(-0.05, width + 0.05)
        axes.set_ylim(height + 0.05, -0.05)
        axes.set_aspect("auto")
    return figure


def _turned(atom: Float) -> Float:
    """The atom with its larger lobe positive, its largest value 1."""
    peak = np.abs(atom).max(initial=0.0)
    if not np.isfinite(peak) or peak == 0:
        return np.zeros_like(atom)
    scaled = atom / peak
    return -scaled if (scaled**3).sum() < 0 else scaled


def _patch(shape: tuple[int, ...], size: int) -> Painter:
    if int(np.prod(shape)) != size or len(shape) not in (2, 3):
        raise InvalidInputError(
            f"patches of shape {tuple(shape)} have {int(np.prod(shape))} values, the atoms {size}"
        )

    def paint(axes: "Axes", atom: Float, x: float, y: float) -> None:
        picture = _turned(atom).reshape(shape)
        if picture.ndim == 3:
            picture = picture[:, :, shape[2] // 2]
        h, w = picture.shape
        half_h, half_w = 0.5 * h / max(h, w), 0.5 * w / max(h, w)
        box = (x + 0.5 - half_w, x + 0.5 + half_w, y + 0.5 + half_h, y + 0.5 - half_h)
        axes.imshow(picture, cmap=signed(), vmin=-1, vmax=1, extent=box, interpolation="none")
        _frame(axes, box[0], box[3], box[1] - box[0], box[2] - box[3])

    return paint


def _ball(bvecs: ArrayLike, size: int) -> Painter:
    g = np.asarray(bvecs, dtype=np.float64)
    if g.shape != (size, 3):
        raise InvalidInputError(f"directions have shape {g.shape}, the atoms ask for {(size, 3)}")
    weighted = np.linalg.norm(g, axis=1) > 0.5

    def paint(axes: "Axes", atom: Float, x: float, y: float) -> None:
        from matplotlib.patches import Circle

        picture = disc(_turned(atom[weighted]), g[weighted])
        limit = max(float(np.nanmax(np.abs(picture))), np.finfo(float).tiny)
        colours = signed()(0.5 + 0.5 * np.nan_to_num(picture) / limit)
        colours[..., 3] = 1.0
        image = axes.imshow(colours, extent=(x, x + 1, y + 1, y), interpolation="bilinear")
        rim = Circle((x + 0.5, y + 0.5), 0.492, facecolor="none", edgecolor=RULE, linewidth=0.8)
        axes.add_patch(rim)
        image.set_clip_path(rim)

    return paint


def _curve(axes: "Axes", atom: Float, x: float, y: float) -> None:
    at = (
        x + 0.06 + 0.88 * (np.arange(len(atom)) / max(1, len(atom) - 1) if len(atom) > 1 else np.array([0.5]))
    )
    axes.plot([x, x + 1], [y + 0.5, y + 0.5], color=RULE, linewidth=0.7, zorder=1)
    axes.plot(
        at,
        y + 0.5 - 0.42 * _turned(atom),
        color=LINES[0],
        linewidth=1.4,
        marker="o",
        markersize=1.6,
        zorder=2,
    )
    _frame(axes, x, y, 1.0, 1.0)


def _frame(axes: "Axes", x: float, y: float, width: float, height: float) -> None:
    from matplotlib.patches import Rectangle

    axes.add_patch(
        Rectangle((x, y), width, height, facecolor="none", edgecolor=RULE, linewidth=0.8, zorder=3)
    )
