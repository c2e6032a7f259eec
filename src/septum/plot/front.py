"""The Pareto front: attainment against the number of atoms, for one search or several.

Attainment is drawn as what is still missing, 1 - attainment, on a logarithmic scale that counts upwards to 100%:
there the last per cents, which cost most atoms, can be told apart.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from septum.errors import InvalidInputError
from septum.plot.style import LINES, WIDTH, blank, looks
from septum.sweep import Front

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Rounding can bring an attainment to 1, which a logarithmic scale of what is missing cannot show.
_LEAST_MISSING = 1e-4


def front(fronts: Front | Mapping[str, Front], *, title: str = "", height: float = 3.6) -> "Figure":
    """Draw one front, or several as {label: front}.

    Open circles are sizes that the growing fit passed through, full ones fits of their own.
    """
    named = {"": fronts} if isinstance(fronts, Front) else dict(fronts)
    if not any(len(one) for one in named.values()):
        raise InvalidInputError(
            "there is nothing to draw: the front has no points, because zero codes are optimal"
        )
    with looks():
        figure = blank(WIDTH, height, layout="constrained")
        axes = figure.add_subplot()
        for k, (label, one) in enumerate(named.items()):
            _draw(axes, one, label, LINES[k % len(LINES)])
        axes.set_xlabel("atoms, all modes together")
        axes.set_ylabel("attainment")
        _scale(axes)
        if title:
            axes.set_title(title)
        if len(named) > 1:
            axes.legend(loc="lower right")
    return figure


def _draw(axes: "Axes", one: Front, label: str, colour: str) -> None:
    if not len(one):
        return
    missing = np.maximum(1.0 - one.attainment, _LEAST_MISSING)
    own = np.array([point.source == "fit" for point in one])
    axes.plot(one.total, missing, color=colour, label=label or None, drawstyle="steps-post", zorder=2)
    common: dict[str, Any] = {"color": colour, "markersize": 5.0, "linestyle": "none", "zorder": 3}
    axes.plot(one.total[own], missing[own], "o", markeredgecolor="white", **common)
    axes.plot(one.total[~own], missing[~own], "o", markerfacecolor="white", markeredgecolor=colour, **common)


def _scale(axes: "Axes") -> None:
    """Logarithmic in the atoms and in what is missing; ticks say the attainment itself."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.invert_yaxis()
    axes.margins(x=0.04, y=0.08)
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, position: f"{value:g}"))
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, position: f"{100 * (1 - value):.4g}%"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_minor_formatter(NullFormatter())
