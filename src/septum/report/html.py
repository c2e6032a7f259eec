"""A record and its pictures as one HTML page: nothing is fetched, every name is escaped.

`render` walks the record's items and lets the templates (`templates/`) lay them out; styles and scripts are written
into the page, and a content policy forbids any other source. A picture may be a matplotlib Figure, PNG
bytes, SVG text, a `Viewer` or the `Words` of a certificate; its place is where the record names it.
The same record and pictures give the same bytes.
"""

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from septum.errors import InvalidInputError, MissingExtraError
from septum.plot.comparison import before_after
from septum.report.figure import embed
from septum.report.record import Cell, Picture, Record, Table
from septum.report.viewer import Viewer
from septum.report.words import Words

LARGEST_PAGE = 10_000_000

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def render(record: Record, pictures: Mapping[str, Any] | None = None) -> str:
    """The page of a record; `pictures` maps the names of its `Picture` items to what they show."""
    given = dict(pictures or {})
    named = [i.name for s in record.sections for i in s.items if isinstance(i, Picture)]
    _check_names(named, list(given))
    page = (
        _environment()
        .get_template("report.html")
        .render(
            record=record,
            blocks={name: _block(given[name], name) for name in given},
            pictures=given,
            sections=_with_ids(record),
            style=_text("report.css"),
            script=_text("report.js"),
        )
    )
    size = len(page.encode("utf-8"))
    if size > LARGEST_PAGE:
        raise InvalidInputError(
            f"the report would be {size / 1e6:.1f} MB, more than 10: give it fewer or smaller pictures"
        )
    return page


def show_cell(cell: Cell, digits: int | None = None) -> str:
    """A number as it is printed: `digits` decimals, else four significant ones."""
    if cell is None:
        return "–"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:d}".replace("-", "−")
    if isinstance(cell, float):
        text = f"{cell:.4g}" if digits is None else f"{cell:.{digits}f}"
        return text.replace("-", "−")
    return cell


def show_large(cell: Cell, digits: int | None = None) -> str:
    """A number as a headline: 79 135, and 9.267 · 10⁸ rather than 9.267e+08."""
    if isinstance(cell, int) and abs(cell) >= 10_000:
        return f"{cell:,}".replace(",", "\u202f").replace("-", "−")
    text = show_cell(cell, digits)
    mantissa, mark, power = text.partition("e")
    if not isinstance(cell, float) or not mark:
        return text
    return f"{mantissa} · 10{str(int(power.replace('−', '-'))).translate(_RAISED)}"


def best_rows(table: Table, position: int) -> set[int]:
    """The rows that hold the best number of a column."""
    column = table.columns[position]
    numbers = {
        i: float(row[position])  # type: ignore[arg-type]
        for i, row in enumerate(table.rows)
        if isinstance(row[position], (int, float)) and not isinstance(row[position], bool)
    }
    if not column.better or len(numbers) < 2:
        return set()
    target = max(numbers.values()) if column.better == "higher" else min(numbers.values())
    return {i for i, value in numbers.items() if value == target}


def _block(picture: Any, name: str) -> dict[str, Any]:
    """What the template needs to show one picture."""
    if isinstance(picture, Viewer):
        opening = picture.middle()
        still = before_after(opening["before"], opening["after"], opening["residual"])
        words = "One slice before and after, and what was taken away."
        return {"kind": "viewer", "pack": picture.pack(), "still": embed(still, f"{name}-still", words)}
    if isinstance(picture, Words):
        return {"kind": "certificate", "words": picture}
    return {"kind": "picture", "picture": picture}


def _with_ids(record: Record) -> list[dict[str, Any]]:
    """The sections with ids that differ even where titles do not."""
    taken: dict[str, int] = {}
    out = []
    for section in record.sections:
        count = taken[section.slug] = taken.get(section.slug, 0) + 1
        out.append({"id": section.slug if count == 1 else f"{section.slug}-{count}", "section": section})
    return out


def _check_names(named: list[str], given: list[str]) -> None:
    for name in named:
        if name not in given:
            raise InvalidInputError(f"the record names a picture {name!r} that was not given")
        if named.count(name) > 1:
            raise InvalidInputError(
                f"the record names the picture {name!r} twice: give each place its own name"
            )
    for name in given:
        if name not in named:
            raise InvalidInputError(f"the picture {name!r} has no place in the record")


def _kind(item: Any) -> str:
    return type(item).__name__.lower()


def _is_numeric(table: Table, position: int) -> bool:
    cells = [row[position] for row in table.rows if row[position] is not None]
    return bool(cells) and all(isinstance(c, (int, float)) and not isinstance(c, bool) for c in cells)


@cache
def _text(name: str) -> Any:
    from markupsafe import Markup

    return Markup(resources.files("septum.report").joinpath("templates", name).read_text(encoding="utf-8"))


@cache
def _environment() -> Any:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
        from markupsafe import Markup
    except ImportError as error:
        raise MissingExtraError("jinja2") from error
    environment = Environment(
        loader=PackageLoader("septum.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        kind=_kind,
        show=show_cell,
        show_large=show_large,
        best_rows=best_rows,
        is_numeric=_is_numeric,
        embed=lambda picture, name, alt: Markup(embed(picture, name, alt)),
        safe=Markup,
    )
    return environment
