"""The record of a run: everything a report says, as data, without its pictures.

A record is a title, how it was made (command, versions, seeds, the inputs' hashes) and sections of items:
`Text`, `Numbers`, `Table` and `Picture` (its name, its words and not its pixels). `to_json` writes
one, `from_json` reads it back, equal. `values` lays every number out under a path of names, and `compare` sets
two records side by side so: text, timings and versions may differ between two runs, nothing else may.

Not-a-number is None, and an infinity the string that shows it, since JSON knows neither.
"""

import json
import math
import platform
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import numpy as np

from septum import __version__
from septum.errors import InvalidInputError

Cell = str | int | float | bool | None
Role = Literal["value", "paper", "timing"]
Better = Literal["", "higher", "lower"]

_FORMAT = "septum-record"
_SCHEMA = 1
_RELEVANT = (
    "numpy",
    "scipy",
    "scikit-learn",
    "numba",
    "nibabel",
    "dipy",
    "curvelets",
    "PyWavelets",
    "matplotlib",
)


def plain_cell(value: Any) -> Cell:
    """A table's cell or a number as JSON knows it."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return value if math.isfinite(value) else ("∞" if value > 0 else "−∞")
    return str(value)


@dataclass(frozen=True)
class Text:
    """A paragraph; `tone` "note" sets it apart, as a caution."""

    body: str
    tone: Literal["", "note"] = ""


@dataclass(frozen=True)
class Number:
    """One number with its name; `digits` decimals, else four significant ones. Timings are not compared."""

    label: str
    value: Cell
    unit: str = ""
    note: str = ""
    digits: int | None = None
    role: Role = "value"

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", plain_cell(self.value))


@dataclass(frozen=True)
class Numbers:
    """Numbers shown together, large."""

    items: tuple[Number, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "items", tuple(self.items))


@dataclass(frozen=True)
class Column:
    """A column of a table. `role` "paper" marks printed numbers, "timing" those that no comparison checks.

    `better` says which of its numbers is set in bold.
    """

    label: str
    unit: str = ""
    digits: int | None = None
    role: Role = "value"
    better: Better = ""


@dataclass(frozen=True)
class Table:
    """Rows of cells under columns; the first column names the row. Columns may be given as their labels."""

    name: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""

    def __post_init__(self) -> None:
        columns = tuple(c if isinstance(c, Column) else Column(str(c)) for c in self.columns)
        rows = tuple(tuple(plain_cell(cell) for cell in row) for row in self.rows)
        for row in rows:
            if len(row) != len(columns):
                raise InvalidInputError(
                    f"table {self.name!r} has {len(columns)} columns but a row of {len(row)} cells"
                )
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "rows", rows)


@dataclass(frozen=True)
class Picture:
    """A place for a picture: the name it is handed over by, what it shows to who cannot see it, its caption."""

    name: str
    alt: str
    caption: str = ""


Item = Text | Numbers | Table | Picture
_KINDS: dict[str, type] = {"text": Text, "numbers": Numbers, "table": Table, "picture": Picture}


@dataclass(frozen=True)
class Section:
    """A titled part of a report."""

    title: str
    items: tuple[Item, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "items", tuple(self.items))

    @property
    def slug(self) -> str:
        """The title as an HTML id."""
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-") or "section"


@dataclass(frozen=True)
class Record:
    """A run, in words and numbers.

    `inputs` are dicts with `Name`, `Bytes` and `SHA256`, as in a sidecar; `seeds` and `versions` map names
    to values; `command` is the line that does it again.
    """

    title: str
    sections: tuple[Section, ...] = ()
    summary: str = ""
    command: str = ""
    inputs: tuple[Mapping[str, Any], ...] = ()
    seeds: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sections", tuple(self.sections))
        object.__setattr__(self, "inputs", tuple(dict(i) for i in self.inputs))
        object.__setattr__(self, "seeds", {str(k): _plain(v) for k, v in self.seeds.items()})
        object.__setattr__(self, "versions", {str(k): str(v) for k, v in self.versions.items()})

    def section(self, title: str) -> Section:
        """The section of that title."""
        for section in self.sections:
            if section.title == title:
                return section
        raise InvalidInputError(
            f"the record has no section {title!r}; it has {[s.title for s in self.sections]}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists and numbers."""
        return {
            "format": _FORMAT,
            "schema": _SCHEMA,
            "title": self.title,
            "summary": self.summary,
            "command": self.command,
            "versions": dict(self.versions),
            "seeds": dict(self.seeds),
            "inputs": [dict(i) for i in self.inputs],
            "sections": [
                {"title": s.title, "items": [_item_to_dict(item) for item in s.items]} for s in self.sections
            ],
        }

    @classmethod
    def from_dict(cls, content: Any) -> "Record":
        """The inverse of `to_dict`."""
        if not isinstance(content, dict) or content.get("format") != _FORMAT:
            raise InvalidInputError("this JSON is not a record: give a record.json that septum wrote")
        if content.get("schema") != _SCHEMA:
            raise InvalidInputError(
                f"the record has schema {content.get('schema')!r}; this version reads {_SCHEMA}"
            )
        try:
            sections = tuple(
                Section(s["title"], tuple(_item_from_dict(item) for item in s["items"]))
                for s in content["sections"]
            )
            return cls(
                title=content["title"],
                sections=sections,
                summary=content["summary"],
                command=content["command"],
                inputs=tuple(content["inputs"]),
                seeds=content["seeds"],
                versions=content["versions"],
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise InvalidInputError(f"the record is damaged ({type(error).__name__}: {error})") from error

    def to_json(self) -> str:
        """The text of a record.json."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Record":
        """A record from the text of its record.json."""
        try:
            content = json.loads(text)
        except json.JSONDecodeError as error:
            raise InvalidInputError(f"the record is not valid JSON: {error}") from error
        return cls.from_dict(content)

    @classmethod
    def read(cls, path: str | Path) -> "Record":
        """A record from its file."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInputError(f"cannot read the record {path}: {error}") from error
        return cls.from_json(text)


def versions() -> dict[str, str]:
    """septum, Python and the packages whose version can change a number."""
    found = {"septum": __version__, "python": platform.python_version()}
    for name in _RELEVANT:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


@dataclass(frozen=True)
class Difference:
    """A value that two records do not share; what is absent is the string "absent"."""

    where: str
    this: Cell
    other: Cell

    def __str__(self) -> str:
        return f"{self.where}: {self.this!r} here, {self.other!r} there"


def compare(record: Record, other: Record, *, rtol: float = 1e-6, atol: float = 0.0) -> list[Difference]:
    """What differs between two records; numbers agree within `rtol` (relative) or `atol` (absolute)."""
    mine, theirs = dict(values(record)), dict(values(other))
    found = []
    for where in [*mine, *(w for w in theirs if w not in mine)]:
        a, b = mine.get(where, "absent"), theirs.get(where, "absent")
        if not _agree(a, b, rtol, atol):
            found.append(Difference(where, a, b))
    return found


def values(record: Record) -> Iterator[tuple[str, Cell]]:
    """Every value that two runs must share, under the path of names that leads to it."""
    for i, given in enumerate(record.inputs):
        yield f"input {i + 1} / SHA256", plain_cell(given.get("SHA256"))
    for name, seed in record.seeds.items():
        yield f"seed / {name}", seed if isinstance(seed, (str, int, float, bool)) else json.dumps(seed)
    for section in record.sections:
        for item in section.items:
            if isinstance(item, Numbers):
                yield from _number_values(section.title, item.items)
            elif isinstance(item, Table):
                yield from _table_values(section.title, item)


def _number_values(title: str, items: Iterable[Number]) -> Iterator[tuple[str, Cell]]:
    for number in items:
        if number.role != "timing":
            yield f"{title} / {number.label}", number.value


def _table_values(title: str, table: Table) -> Iterator[tuple[str, Cell]]:
    for i, row in enumerate(table.rows):
        for column, cell in zip(table.columns, row, strict=True):
            if column.role != "timing":
                yield f"{title} / {table.name} / row {i + 1} ({row[0]}) / {column.label}", cell


def _agree(a: Cell, b: Cell, rtol: float, atol: float) -> bool:
    if _is_number(a) and _is_number(b):
        return math.isclose(float(a), float(b), rel_tol=rtol, abs_tol=atol)  # type: ignore[arg-type]
    return type(a) is type(b) and a == b


def _is_number(value: Cell) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain_cell(v) for v in value]
    return plain_cell(value)


def _item_to_dict(item: Item) -> dict[str, Any]:
    if isinstance(item, Numbers):
        return {"kind": "numbers", "items": [dict(vars(number)) for number in item.items]}
    if isinstance(item, Table):
        return {
            "kind": "table",
            "name": item.name,
            "caption": item.caption,
            "columns": [dict(vars(column)) for column in item.columns],
            "rows": [list(row) for row in item.rows],
        }
    kind = "text" if isinstance(item, Text) else "picture"
    return {"kind": kind, **vars(item)}


def _item_from_dict(content: dict[str, Any]) -> Item:
    fields = {key: value for key, value in content.items() if key != "kind"}
    kind = content["kind"]
    if kind not in _KINDS:
        raise InvalidInputError(f"the record holds an item of unknown kind {kind!r}")
    if kind == "numbers":
        return Numbers(tuple(Number(**number) for number in fields["items"]))
    if kind == "table":
        fields["columns"] = tuple(Column(**column) for column in fields["columns"])
        fields["rows"] = tuple(tuple(row) for row in fields["rows"])
    return _KINDS[kind](**fields)
