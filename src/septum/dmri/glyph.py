"""Pictures of ODF fields: one small shape a voxel, coloured by direction.

A glyph is the surface r(u) u with r the ODF less its minimum; red, green and blue are the voxel axes x, y
and z. The surfaces are drawn here, triangle by triangle with a depth buffer, into one image: matplotlib
would need minutes for the millions of triangles of a slice. `odf_field_picture` lays that image over a map.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from septum.dmri.image import as_mask
from septum.dmri.sphere import Sphere, icosphere
from septum.errors import InvalidInputError, MissingExtraError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from septum.dmri.odf import OdfField

Float64 = NDArray[np.float64]

LIGHT = np.array([-0.35, 0.45, 0.82])
BACKDROP = "#0b0d12"
INK = "#e6e8ee"
_OVERSAMPLING = 2


def odf_field_picture(
    field: "OdfField",
    *,
    background: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    axis: int = 2,
    index: int | None = None,
    window: tuple[slice, slice] | None = None,
    title: str = "",
    scale: float = 1.0,
    width: float = 9.0,
    level: int = 3,
) -> "Figure":
    """A figure of the glyphs of one slice.

    Parameters
    ----------
    field : what `septum.dmri.odf.constant_solid_angle` gives.
    background : a map (X, Y, Z) to show in grey behind the glyphs; None: the generalized anisotropy.
    mask : where to draw glyphs (X, Y, Z); None: wherever the field has them.
    axis, index : the slice: which axis is at right angles to it, and where; None: the middle.
    window : (columns, rows) of the slice to show, along its two axes; None: what holds the mask.
    scale : how large the largest glyphs are; 1 fills their voxel.
    width : of the figure, in inches.
    level : how finely the surfaces are drawn (see `septum.dmri.sphere.icosphere`).
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("matplotlib") from error
    inside = field.mask if mask is None else field.mask & as_mask(mask, field.mask.shape)
    place, across = _place(inside, axis, index, window)
    sphere = icosphere(level)
    columns, rows = (np.arange(n)[w] for n, w in across)
    glyphs = _radii(field, inside, sphere, place) * scale
    tile = int(np.clip(2200 // max(len(columns), len(rows)), 10, 120))
    picture = draw_glyphs(glyphs, sphere, axis=axis, tile=tile)
    behind = field.generalized_anisotropy() if background is None else np.asarray(background, dtype=float)
    if behind.shape != field.mask.shape:
        raise InvalidInputError(f"background has shape {behind.shape}, but the field has {field.mask.shape}")
    shade = np.where(inside[place], behind[place], 0.0)

    ratio = len(rows) / len(columns)
    figure = Figure(figsize=(width, width * ratio + 0.55), facecolor=BACKDROP)
    axes = figure.add_axes((0.02, 0.02, 0.96, (width * ratio) / (width * ratio + 0.55) - 0.03))
    extent = (columns[0] - 0.5, columns[-1] + 0.5, rows[0] - 0.5, rows[-1] + 0.5)
    top = float(np.percentile(shade, 99.5)) if shade.size else 1.0
    axes.imshow(
        shade.T,
        cmap="gray",
        origin="lower",
        extent=extent,
        vmin=0.0,
        vmax=(top if top > 0 else 1.0) * 2.2,
        interpolation="nearest",
    )
    axes.imshow(picture, origin="upper", extent=extent, interpolation="antialiased")
    axes.set_axis_off()
    _letters(axes, field.affine, axis)
    heading = title or f"orientation distributions, {'xyz'[axis]} = {_index(field.mask.shape, axis, index)}"
    figure.text(0.02, 0.985, heading, color=INK, fontsize=12, va="top", ha="left")
    shown = [k for k in range(3) if k != axis] + [axis]
    for step, k in enumerate(shown):
        colour = ("#ff5a4d", "#4fd66a", "#5b8cff")[k]
        label = "xyz"[k] + (" (towards you)" if k == axis else "")
        figure.text(
            0.70 + 0.05 * step, 0.985, label, color=colour, fontsize=12, va="top", ha="left", weight="bold"
        )
    return figure


def draw_glyphs(radii: Float64, sphere: Sphere, *, axis: int = 2, tile: int = 48) -> NDArray[np.uint8]:
    """An RGBA image (rows * tile, columns * tile, 4) of surfaces with radii (columns, rows, n_vertices).

    A radius of 1 reaches the edge of its tile. Column 0 is at the left, row 0 at the bottom; the viewer
    looks down the axis, which points towards them.
    """
    frame = _frame(axis)
    vertices = np.ascontiguousarray(sphere.vertices @ frame.T)
    colours = np.abs(sphere.vertices)
    colours = colours / colours.max(axis=1, keepdims=True)
    light = LIGHT / np.linalg.norm(LIGHT)
    tiles = _draw(
        np.ascontiguousarray(radii, dtype=np.float64),
        vertices,
        sphere.faces,
        colours,
        light,
        tile,
        _OVERSAMPLING,
    )
    n_columns, n_rows = radii.shape[:2]
    # (columns, rows, y, x, 4) -> one image with row 0 at the bottom
    return tiles[:, ::-1].transpose(1, 2, 0, 3, 4).reshape(n_rows * tile, n_columns * tile, 4)


def _radii(field: "OdfField", inside: NDArray[np.bool_], sphere: Sphere, place: tuple[Any, ...]) -> Float64:
    """The ODFs of a slice less their minima; the longest are 1, and length grows as the root of the height."""
    odf = field.sample_in_voxel_axes(sphere.vertices, place)
    shape = odf - odf.min(axis=-1, keepdims=True)
    shape[~inside[place]] = 0.0
    highest = shape.max(axis=-1)
    some = highest[highest > 0]
    if not some.size:
        return np.zeros_like(shape)
    size = np.sqrt(np.minimum(highest / np.percentile(some, 95), 1.0))
    return shape * np.divide(size, highest, out=np.zeros_like(size), where=highest > 0)[..., None]


def _place(
    inside: NDArray[np.bool_], axis: int, index: int | None, window: tuple[slice, slice] | None
) -> tuple[tuple[Any, ...], list[tuple[int, slice]]]:
    """An index for the slice, and for each of its two axes its length and the part shown."""
    if axis not in (0, 1, 2):
        raise InvalidInputError(f"axis must be 0, 1 or 2, not {axis}")
    shape = inside.shape
    middle = _index(shape, axis, index)
    others = [k for k in range(3) if k != axis]
    parts = window or tuple(
        _extent(np.asarray(inside.any(axis=tuple(j for j in range(3) if j != k)))) for k in others
    )
    place: list[Any] = [middle, middle, middle]
    for k, part in zip(others, parts, strict=True):
        place[k] = part
        if not len(range(*part.indices(shape[k]))):
            raise InvalidInputError(f"window {part} shows nothing of an axis of {shape[k]} voxels")
    return tuple(place), [(shape[k], part) for k, part in zip(others, parts, strict=True)]


def _extent(present: NDArray[np.bool_], margin: int = 1) -> slice:
    """From the first to the last True, with a margin; everything when there is none."""
    where = np.flatnonzero(present)
    if not where.size:
        return slice(None)
    return slice(max(0, int(where[0]) - margin), int(where[-1]) + 1 + margin)


def _index(shape: tuple[int, ...], axis: int, index: int | None) -> int:
    if index is None:
        return shape[axis] // 2
    if not 0 <= index < shape[axis]:
        raise InvalidInputError(f"there is no slice {index}: the image has slices 0 to {shape[axis] - 1}")
    return index


def _frame(axis: int) -> Float64:
    """Rows: the voxel axes that point right, up, and towards the viewer (or away, for the middle axis)."""
    right, up = (k for k in range(3) if k != axis)
    return np.eye(3)[[right, up, axis]]


def _letters(axes: Any, affine: Float64, axis: int) -> None:
    """R, L, A, P, S, I where the edges of the picture point."""
    right, up = (k for k in range(3) if k != axis)
    for k, (low, high) in ((right, ((0.008, 0.5), (0.992, 0.5))), (up, ((0.5, 0.01), (0.5, 0.99)))):
        column = affine[:3, k]
        world = int(np.argmax(np.abs(column)))
        pair = ("LR", "PA", "IS")[world]
        names = pair if column[world] > 0 else pair[::-1]
        for (x, y), name in zip((low, high), names, strict=True):
            axes.text(
                x,
                y,
                name,
                transform=axes.transAxes,
                color=INK,
                fontsize=11,
                weight="bold",
                ha="left" if x < 0.1 else "right" if x > 0.9 else "center",
                va="bottom" if y < 0.1 else "top" if y > 0.9 else "center",
                bbox={"facecolor": BACKDROP, "edgecolor": "none", "alpha": 0.6, "pad": 1.5},
            )


@njit(cache=True, nogil=True)
def _draw(radii, vertices, faces, colours, light, tile, fine):  # type: ignore[no-untyped-def]
    """Each surface into a tile of its own, (columns, rows, tile, tile, 4); a pixel is the mean of fine^2."""
    n_columns, n_rows = radii.shape[0], radii.shape[1]
    out = np.zeros((n_columns, n_rows, tile, tile, 4), dtype=np.uint8)
    for g in range(n_columns * n_rows):
        i, j = g // n_rows, g % n_rows
        if radii[i, j].max() > 0:
            large = np.zeros((tile * fine, tile * fine, 4))
            _draw_one(radii[i, j], vertices, faces, colours, light, tile * fine, large)
            _shrink(large, fine, out[i, j])
    return out


@njit(cache=True)
def _shrink(large, fine, tile):  # type: ignore[no-untyped-def]
    """Mean colour of the covered fine pixels, and how much of each pixel is covered."""
    total = np.empty(4)
    for y in range(tile.shape[0]):
        for x in range(tile.shape[1]):
            total[:] = 0.0
            for i in range(fine):
                for j in range(fine):
                    for k in range(4):
                        total[k] += large[y * fine + i, x * fine + j, k]
            if total[3] > 0:
                for k in range(3):
                    tile[y, x, k] = int(255 * total[k] / total[3] + 0.5)
                tile[y, x, 3] = int(255 * total[3] / (fine * fine) + 0.5)


@njit(cache=True)
def _draw_one(radii, vertices, faces, colours, light, size, tile):  # type: ignore[no-untyped-def]
    n = len(vertices)
    points = np.empty((n, 3))
    for v in range(n):
        for a in range(3):
            points[v, a] = radii[v] * vertices[v, a]
    shades = _shades(points, faces, light)
    depth = np.full((size, size), -np.inf)
    half = size / 2
    for f in range(len(faces)):
        a, b, c = faces[f, 0], faces[f, 1], faces[f, 2]
        ax, ay = half + half * points[a, 0], half - half * points[a, 1]
        bx, by = half + half * points[b, 0], half - half * points[b, 1]
        cx, cy = half + half * points[c, 0], half - half * points[c, 1]
        area = (bx - ax) * (cy - ay) - (cx - ax) * (by - ay)
        if area == 0:
            continue
        x_low, x_high = max(int(np.ceil(min(ax, bx, cx) - 0.5)), 0), min(int(max(ax, bx, cx) - 0.5) + 1, size)
        y_low, y_high = max(int(np.ceil(min(ay, by, cy) - 0.5)), 0), min(int(max(ay, by, cy) - 0.5) + 1, size)
        for y in range(y_low, y_high):
            for x in range(x_low, x_high):
                px, py = x + 0.5, y + 0.5
                wb = ((px - ax) * (cy - ay) - (cx - ax) * (py - ay)) / area
                wc = ((bx - ax) * (py - ay) - (px - ax) * (by - ay)) / area
                wa = 1.0 - wb - wc
                if wa < 0 or wb < 0 or wc < 0:
                    continue
                height = wa * points[a, 2] + wb * points[b, 2] + wc * points[c, 2]
                if height <= depth[y, x]:
                    continue
                depth[y, x] = height
                shade = wa * shades[a] + wb * shades[b] + wc * shades[c]
                for k in range(3):
                    colour = wa * colours[a, k] + wb * colours[b, k] + wc * colours[c, k]
                    tile[y, x, k] = min(1.0, shade * (0.12 + 0.88 * colour))
                tile[y, x, 3] = 1.0


@njit(cache=True)
def _shades(points, faces, light):  # type: ignore[no-untyped-def]
    """How bright each vertex is, by the mean of the normals of its triangles."""
    normals = np.zeros((len(points), 3))
    for f in range(len(faces)):
        a, b, c = faces[f, 0], faces[f, 1], faces[f, 2]
        u, v = points[b] - points[a], points[c] - points[a]
        cross = np.array([u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]])
        for k in range(3):
            normals[faces[f, k]] += cross
    shades = np.empty(len(points))
    for v in range(len(points)):
        length = np.sqrt((normals[v] ** 2).sum())
        facing = 0.0 if length == 0 else (normals[v] * light).sum() / length
        shades[v] = 0.38 + 0.72 * max(facing, 0.0)
    return shades
