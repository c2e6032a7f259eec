"""One look for every picture: colours that colour-blind readers tell apart, quiet axes, plain type.

Lines use six colours of Okabe and Ito's set, darkened where they would be pale on white. Signed quantities (atoms,
residuals) run from blue through near-white to orange, magnitudes from black to white, and positive
quantities (noise) along viridis. Figures are built as objects inside `looks`, which leaves matplotlib's
settings as it found them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from septum.errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

LINES = ("#0072B2", "#D55E00", "#009E73", "#B65C92", "#B58100", "#3D9BD1")
INK, FAINT, RULE, PAPER = "#1b2531", "#66727f", "#cfd6de", "#ffffff"
WIDTH = 7.2  # inches: the text width of an A4 or letter page

_SIGNED = ("#0a3a78", "#2272b5", "#8abbdd", "#f7f5f0", "#f6b26b", "#e0701a", "#9c3a00")

_SETTINGS: dict[str, Any] = {
    "font.family": ["DejaVu Sans"],
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9.0,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.8,
    "lines.solid_capstyle": "round",
    "figure.facecolor": PAPER,
    "axes.facecolor": "none",
    "savefig.facecolor": "auto",
    "image.composite_image": False,
    "image.interpolation": "none",
    "svg.fonttype": "path",
    "text.usetex": False,
    "text.parse_math": True,
}


@contextmanager
def looks(**more: Any) -> Iterator[Any]:
    """matplotlib, with septum's settings for the length of the block."""
    matplotlib = _matplotlib()
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS | more)
        yield matplotlib


def blank(width: float = WIDTH, height: float = 3.6, **options: Any) -> "Figure":
    """An empty figure, in inches; call it inside `looks`."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), **options)


def canvas(
    figure: "Figure", left: float = 0.0, bottom: float = 0.0, width: float = 1.0, height: float = 1.0
) -> "Axes":
    """Axes without a frame over a part of the figure, measured in figure fractions."""
    axes = figure.add_axes((left, bottom, width, height))
    axes.set_axis_off()
    return axes


def signed() -> "Colormap":
    """Blue, near-white, orange: for what has a sign."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("septum-signed", _SIGNED, N=256)


def positive() -> "Colormap":
    """Dark to light: for what is at least zero."""
    from matplotlib import colormaps

    return colormaps["viridis"]


def _matplotlib() -> Any:
    try:
        import matplotlib
        import matplotlib.figure
    except ImportError as error:
        raise MissingExtraError("matplotlib") from error
    return matplotlib
