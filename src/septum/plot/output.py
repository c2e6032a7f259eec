"""Figures as bytes and as files: the same figure gives the same bytes, and files appear whole.

PNG and SVG (and PDF, by its ending) carry no date and no version, so pictures can be compared; SVG ids
come from a fixed salt.
"""

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from septum.dmri.output import Outputs
from septum.errors import InvalidInputError
from septum.plot.style import looks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_UNDATED: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "ModDate": None, "Creator": None, "Producer": None},
}


def save(figure: "Figure", path: str | Path, *, dpi: float = 200, force: bool = True) -> Path:
    """Write a figure to `path`, a .png, .svg or .pdf, whole or not at all."""
    path = Path(path)
    kind = path.suffix.lower().lstrip(".")
    if kind not in _UNDATED:
        raise InvalidInputError(
            f"cannot tell the kind of picture from {path.name!r}: end it in .png, .svg or .pdf"
        )
    content = _bytes(figure, kind, dpi=dpi)
    with Outputs(force=force) as outputs:
        outputs.bytes(path, content)
    return path


def png(figure: "Figure", *, dpi: float = 200, transparent: bool = False) -> bytes:
    """A figure as PNG."""
    return _bytes(figure, "png", dpi=dpi, transparent=transparent)


def svg(figure: "Figure", *, text: bool = False, transparent: bool = False) -> str:
    """A figure as SVG; with `text` its letters stay letters, in the reader's font, else they are outlines."""
    settings = {"svg.fonttype": "none"} if text else {}
    return _bytes(figure, "svg", transparent=transparent, settings=settings).decode("utf-8")


def _bytes(
    figure: "Figure",
    kind: str,
    *,
    dpi: float = 100,
    transparent: bool = False,
    settings: dict[str, Any] | None = None,
) -> bytes:
    stream = io.BytesIO()
    with looks(**{"svg.hashsalt": "septum"} | (settings or {})):
        figure.savefig(stream, format=kind, dpi=dpi, transparent=transparent, metadata=_UNDATED[kind])
    return stream.getvalue()
