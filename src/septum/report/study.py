"""The report of an experiment: its record as record.json, and the page that shows it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from septum.dmri.output import Outputs
from septum.report.html import render
from septum.report.record import Record


def study_report(
    path: str | Path,
    record: Record,
    pictures: Mapping[str, Any] | None = None,
    *,
    record_path: str | Path | None = None,
    force: bool = False,
    outputs: Outputs | None = None,
) -> Record:
    """Write a record as a page (and as JSON, where `record_path` says), whole or not at all.

    Parameters
    ----------
    path : the HTML file.
    record : Record
        Its sections name the pictures they show.
    pictures : dict
        Name -> matplotlib Figure, PNG bytes, SVG text, `Viewer`, or the `Words` of a certificate.
    force : bool
        Overwrite files that exist.
    outputs : Outputs, optional
        Add the files to a set that the caller commits; then `force` is that set's.
    """
    page = render(record, pictures)
    if outputs is not None:
        _stage(outputs, path, page, record_path, record)
        return record
    with Outputs(force=force) as own:
        _stage(own, path, page, record_path, record)
    return record


def _stage(
    outputs: Outputs, path: str | Path, page: str, record_path: str | Path | None, record: Record
) -> None:
    outputs.text(path, page)
    if record_path is not None:
        outputs.text(record_path, record.to_json())
