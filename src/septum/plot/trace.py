"""How the objective met its bound: f minus the lower bound against iterations, on a logarithmic scale.

The paper's second figure (section 6). The curve joins every iteration inside the local descents; a dot
marks the end of each descent, where the dictionaries grow.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from septum.array import Float
from septum.errors import InvalidInputError
from septum.plot.style import FAINT, LINES, WIDTH, blank, looks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def convergence(
    history: Mapping[str, Any],
    *,
    bound: float | None = None,
    against: str = "iteration",
    relative_to: float | None = None,
    title: str = "",
    size: tuple[float, float] = (WIDTH, 3.4),
) -> "Figure":
    """Objective minus bound against iterations, for one fit or several.

    Parameters
    ----------
    history : dict
        An estimator's `history_`, or a dict {label: history_} of several fits.
    bound : float, optional
        The value the objective is compared with; by default the largest lower bound each fit recorded.
    against : {"iteration", "seconds"}
        With seconds only the ends of the outer steps are known, and drawn.
    relative_to : float, optional
        Divide by this (for example f(0) - bound, the largest possible decrease) and show percentages.
    size : (width, height) in inches
    """
    if against not in ("iteration", "seconds"):
        raise InvalidInputError(f"against must be 'iteration' or 'seconds', not {against!r}")
    runs = {"": history} if "objective" in history else dict(history)
    with looks():
        from matplotlib.ticker import MaxNLocator

        figure = blank(*size, layout="constrained")
        axes = figure.add_subplot()
        axes.set_yscale("log")
        for k, (label, run) in enumerate(runs.items()):
            _draw(axes, run, label, LINES[k % len(LINES)], bound, against, relative_to)
        axes.set_xlabel("seconds" if against == "seconds" else "iteration")
        axes.set_ylabel(
            "objective − lower bound" if relative_to is None else "still missing, share of the possible",
            rotation_mode="anchor",
        )
        if against == "iteration":
            axes.xaxis.set_major_locator(MaxNLocator(nbins="auto", integer=True))
        axes.margins(x=0.02, y=0.1)
        _label(axes, in_percent=relative_to is not None)
        axes.grid(visible=True, axis="x", alpha=0.0)
        if title:
            axes.set_title(title)
        if len(runs) > 1:
            axes.legend(loc="upper right")
    return figure


def excess(history: Mapping[str, Any], bound: float | None = None) -> tuple[Float, NDArray[np.intp]]:
    """f - bound at every inner iteration, and the positions of the ends of the outer steps."""
    objective = np.asarray(history["objective"], dtype=np.float64)
    if bound is None:
        bound = float(np.max(history["lower_bound"])) if len(objective) else 0.0
    pieces, ends, total = [], [], 0
    for last, inner in zip(objective, history.get("inner_objective", objective[:, None]), strict=True):
        piece = np.asarray(inner, dtype=np.float64).ravel()
        if not piece.size:
            piece = np.array([last])
        total += piece.size
        pieces.append(piece)
        ends.append(total - 1)
    values = np.concatenate(pieces) if pieces else np.zeros(0)
    return values - bound, np.array(ends, dtype=np.intp)


def _draw(
    axes: "Axes",
    run: Mapping[str, Any],
    label: str,
    colour: str,
    bound: float | None,
    against: str,
    relative_to: float | None,
) -> None:
    values, ends = excess(run, bound)
    if against == "seconds":
        values, x = values[ends], np.asarray(run["seconds"], dtype=np.float64)
        marked = np.arange(len(values))
    else:
        x, marked = np.arange(1.0, len(values) + 1), ends
    # Rounding can bring the difference to zero or below: there is no point to draw on a logarithmic scale.
    values = np.where(values > 0, values / (relative_to or 1.0), np.nan)
    axes.plot(x, values, color=colour, label=label or None, linewidth=1.8, zorder=2)
    axes.plot(
        x[marked],
        values[marked],
        "o",
        color=colour,
        markersize=4.5,
        markeredgecolor="white",
        markeredgewidth=0.8,
        zorder=3,
    )
    known = np.flatnonzero(np.isfinite(values))
    if known.size and relative_to is not None:
        last = known[-1]
        axes.annotate(
            _percent(values[last]), (x[last], values[last]), xytext=(-4, -7), textcoords="offset points",
            ha="right", va="top", size=8.5, color=FAINT,
        )  # fmt: skip


def _label(axes: "Axes", in_percent: bool) -> None:
    """Powers of ten; within two decades they are too few: 1, 2 and 5 of each; within a factor of 3: even steps."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    low, high = axes.get_ylim()
    is_short, is_narrow = high < 100 * low, high < 3 * low
    if is_narrow:
        axes.yaxis.set_major_locator(MaxNLocator(nbins=5))
    elif is_short:
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    if in_percent:
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, position: _percent(value, 3 if is_narrow else 2)))
    elif is_short:
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, position: f"{value:.3g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _percent(value: float, digits: int = 2) -> str:
    return f"{100 * value:.{digits}g}%" if value < 1 else f"{100 * value:.0f}%"
