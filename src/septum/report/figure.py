"""Pictures as parts of a page: matplotlib figures, PNG bytes or SVG text become HTML that fetches nothing.

A figure on white goes in as SVG whose ink follows the page's light or dark theme and whose letters are the
page's own, unless that would be large; any other figure goes in as PNG, as it is. SVG text from elsewhere becomes an `img`,
inside which no script runs.
"""

import html
import re
from typing import Any

from septum.errors import InvalidTypeError
from septum.plot.output import png, svg
from septum.plot.style import FAINT, INK, LINES, PAPER, RULE
from septum.report.raster import data_uri

LARGEST_SVG = 350_000
_DPI = 150

_THEME = {INK: "var(--ink)", FAINT: "var(--faint)", RULE: "var(--rule)", PAPER: "var(--card)"} | {
    colour: f"var(--line-{i + 1})" for i, colour in enumerate(LINES)
}


def embed(picture: Any, name: str, alt: str) -> str:
    """HTML for one picture; `name` keeps its ids apart from those of other pictures."""
    if hasattr(picture, "savefig"):
        drawn = svg(picture, text=True, transparent=True) if _is_on_paper(picture) else ""
        if drawn and len(drawn) <= LARGEST_SVG:
            return themed(drawn, name, alt)
        picture = png(picture, dpi=_DPI)
    if isinstance(picture, (bytes, bytearray)):
        return _image(data_uri(bytes(picture)), alt)
    if isinstance(picture, str) and "<svg" in picture:
        return _image(data_uri(picture.encode("utf-8"), "image/svg+xml"), alt)
    raise InvalidTypeError(
        f"picture {name!r} must be a matplotlib Figure, PNG bytes or SVG text, not {type(picture).__name__}"
    )


def _is_on_paper(figure: Any) -> bool:
    """Whether a figure is ink on white, and so can be set in the page's colours."""
    return all(part == 1.0 for part in figure.get_facecolor()[:3])


def themed(drawn: str, name: str, alt: str) -> str:
    """matplotlib's SVG as an inline element in the page's colours and letters."""
    body = drawn[drawn.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r"<style[^>]*>.*?</style>", "", body, flags=re.DOTALL)
    opening, rest = body.split(">", 1)
    box = re.search(r'viewBox="([^"]+)"', opening)
    prefix = "p-" + re.sub(r"[^A-Za-z0-9]+", "-", name) + "-"
    used = set(re.findall(r'(?:url\(#|xlink:href="#)([^)"]+)', rest))
    rest = re.sub(r' id="([^"]+)"', lambda m: f' id="{prefix}{m[1]}"' if m[1] in used else "", rest)
    rest = re.sub(r'xlink:href="#', f'xlink:href="#{prefix}', rest)
    rest = rest.replace("url(#", f"url(#{prefix}")
    rest = re.sub(r'base64,[^"]+', lambda m: re.sub(r"\s+", "", m[0]), rest)
    rest = re.sub(r"font-family: [^;\"]+;?", "", rest)
    for colour, variable in _THEME.items():
        rest = re.sub(rf"(?<=[ :\"]){colour}(?=[;\"])", variable, rest, flags=re.IGNORECASE)
    words = html.escape(alt, quote=True)
    size = box.group(1) if box else "0 0 100 100"
    narrowest = round(float(size.split()[2]))
    return (
        f'<svg class="plot" role="img" aria-label="{words}" viewBox="{size}" style="min-width: {narrowest}px">'
        f"{rest.strip()}"
    )


def _image(uri: str, alt: str) -> str:
    return f'<img class="paper" src="{uri}" alt="{html.escape(alt, quote=True)}">'
