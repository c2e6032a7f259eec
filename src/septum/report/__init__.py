"""Reports: what was done, with what, and how good it is, as one HTML file and one JSON record.

A `Record` holds words, numbers and tables and goes to `record.json` and back; `compare` finds what differs
between two of them. `html.render` turns a record, its pictures and a `Viewer` into one page that fetches
nothing. `denoising_report` and `study_report` are the two ways in: they take plain arrays and write the page
whole or not at all. `words` says what a certificate means; `shell` tabulates an image shell by shell.
"""

import importlib
from typing import Any

_HOME = {
    "Column": "record",
    "Difference": "record",
    "Number": "record",
    "Numbers": "record",
    "Picture": "record",
    "Record": "record",
    "Section": "record",
    "Table": "record",
    "Text": "record",
    "Viewer": "viewer",
    "certificate_words": "words",
    "compare": "record",
    "denoising_report": "denoising",
    "render": "html",
    "shell_table": "shell",
    "study_report": "study",
    "versions": "record",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'septum.report' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"septum.report.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
