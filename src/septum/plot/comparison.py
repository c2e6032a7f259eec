"""One slice of one volume before and after, with what was taken away and how noisy it was."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from septum.array import Float
from septum.errors import InvalidInputError
from septum.plot.style import WIDTH, blank, canvas, looks, positive, signed

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def before_after(
    before: ArrayLike,
    after: ArrayLike,
    residual: ArrayLike | None = None,
    noise: ArrayLike | None = None,
    *,
    truth: ArrayLike | None = None,
    titles: Sequence[str] = (),
) -> "Figure":
    """Slices (x, y) side by side: before, after, and, where given, the residual, the noise map and the truth.

    Before, after and truth share one grey scale; the residual's is symmetric about zero.
    """
    first, second = _slice(before, "before"), _slice(after, "after")
    if first.shape != second.shape:
        raise InvalidInputError(f"before has shape {first.shape} and after {second.shape}: they must agree")
    top = _top(first)
    panels: list[tuple[str, Float, Any, float, float]] = [
        ("before", first, "gray", 0.0, top),
        ("after", second, "gray", 0.0, top),
    ]
    if truth is not None:
        panels.append(("truth", _slice(truth, "truth"), "gray", 0.0, top))
    if residual is not None:
        taken = _slice(residual, "residual")
        limit = _top(np.abs(taken))
        panels.append(("before − after", taken, signed(), -limit, limit))
    if noise is not None:
        level = _slice(noise, "noise")
        panels.append(("noise", level, positive(), 0.0, _top(level)))
    names = [*titles, *(panel[0] for panel in panels[len(titles) :])]
    with looks():
        x, y = first.shape
        gap, head, foot = 0.08, 0.26, 0.32
        width = (WIDTH - gap * (len(panels) - 1)) / len(panels)
        tall = width * y / x
        figure = blank(WIDTH, head + tall + foot)
        total = head + tall + foot
        for k, (_, picture, colours, low, high) in enumerate(panels):
            left = k * (width + gap) / WIDTH
            axes = canvas(figure, left, foot / total, width / WIDTH, tall / total)
            shown = axes.imshow(picture.T, cmap=colours, vmin=low, vmax=high, origin="lower")
            figure.text(left, 1 - 0.05 / total, names[k], va="top", weight="bold", size=10)
            if colours != "gray":
                place = (
                    left + 0.08 * width / WIDTH,
                    (foot - 0.1) / total,
                    0.84 * width / WIDTH,
                    0.05 / total,
                )
                _bar(figure, shown, place)
    return figure


def _bar(figure: "Figure", shown: Any, place: tuple[float, float, float, float]) -> None:
    from matplotlib.ticker import MaxNLocator

    bar = figure.colorbar(
        shown, cax=figure.add_axes(place), orientation="horizontal", ticks=MaxNLocator(nbins=3)
    )
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=7, length=2, pad=1)


def _slice(array: ArrayLike, name: str) -> Float:
    picture = np.asarray(array, dtype=np.float64)
    if picture.ndim != 2:
        raise InvalidInputError(f"{name} must be one slice (x, y), not an array of shape {picture.shape}")
    return np.nan_to_num(picture, nan=0.0, posinf=0.0, neginf=0.0)


def _top(picture: Float) -> float:
    """The 99.5th percentile of what is not zero: the white of the grey scale."""
    values = picture[picture > 0]
    return float(np.percentile(values, 99.5)) if values.size else 1.0
