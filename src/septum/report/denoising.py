"""The report of a denoised image, from plain arrays: look first, then how good it is, then the numbers.

`denoising_report` decides what goes where; each section is a function that returns its items and adds its
pictures. Whatever is not given is left out.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from septum.certificate import Certificate
from septum.dmri.output import Outputs
from septum.plot.atom import angular_atoms, atoms, joint_atoms, joint_use
from septum.plot.trace import convergence
from septum.report.record import (
    Column,
    Item,
    Number,
    Numbers,
    Picture,
    Record,
    Section,
    Table,
    Text,
    versions,
)
from septum.report.shell import shell_table
from septum.report.study import study_report
from septum.report.viewer import Viewer
from septum.report.words import certificate_words

Pictures = dict[str, Any]


def denoising_report(
    path: str | Path,
    *,
    before: ArrayLike,
    after: ArrayLike,
    title: str = "Denoised diffusion MRI",
    summary: str = "",
    command: str = "",
    residual: ArrayLike | None = None,
    noise: ArrayLike | float | None = None,
    truth: ArrayLike | None = None,
    mask: ArrayLike | None = None,
    affine: ArrayLike | None = None,
    bvals: ArrayLike | None = None,
    bvecs: ArrayLike | None = None,
    dictionaries: Sequence[ArrayLike] = (),
    atom_bvecs: ArrayLike | None = None,
    codes: Any = None,
    patch_shape: tuple[int, ...] | None = None,
    certificate: Certificate | None = None,
    history: Mapping[str, Any] | None = None,
    alpha: float | None = None,
    centring: str = "",
    numbers: Mapping[str, Any] | Sequence[Number] = (),
    parameters: Mapping[str, Any] | None = None,
    timings: Mapping[str, float] | None = None,
    seeds: Mapping[str, Any] | None = None,
    inputs: Sequence[Mapping[str, Any]] = (),
    closeups: Sequence[tuple[str, Any]] = (),
    tables: Sequence[Table] = (),
    notes: Sequence[str] = (),
    record_path: str | Path | None = None,
    force: bool = False,
    outputs: Outputs | None = None,
) -> Record:
    """Write the HTML report of a denoised image, and return its record.

    Parameters
    ----------
    path : the HTML file; `record_path` the JSON beside it, if wanted.
    before, after, residual, truth : arrays (x, y, z, n)
    noise : a number, or a map (x, y, z) or (x, y, z, n), in the image's units
    mask : array (x, y, z), True inside; affine : (4, 4), bvals : (n,), bvecs : (n, 3)
    dictionaries : [angular (n_directions, r_1), spatial (n_voxels, r_2)], most used first
        Angular atoms are drawn on the sphere where `atom_bvecs` (n_directions, 3) says which directions they
        live on; without it, where their size is that of `bvecs`.
    codes : sparse array (n_samples, r_1, r_2), or counts (r_1, r_2)
        Which joint atoms are used, and how often.
    patch_shape : the shape of a spatial atom, 2-D or 3-D
    certificate, history, alpha, centring : what learning returned; `centring` as words
    numbers : name -> number, or `Number`s; shown large at the top
    parameters, timings, seeds : name -> value
    inputs : dicts with Name, Bytes and SHA256
    closeups : (caption, picture) pairs, for example fields of orientation distributions
    tables : further tables; notes : sentences the reader should know
    force, outputs : as in `study_report`
    """
    level = None if noise is None or np.ndim(noise) == 0 else noise
    viewer = Viewer(
        before, after, residual, level, bvals=bvals, bvecs=bvecs, mask=mask, affine=affine
    )  # fmt: skip
    pictures: Pictures = {}
    parts: list[tuple[str, list[Item]]] = [
        ("Before and after", [*_glance(numbers, notes), *_look(pictures, viewer)]),
        ("How good the dictionary is", _proof(pictures, certificate, history, alpha, centring, codes)),
        (
            "The dictionary",
            _dictionary(
                pictures, dictionaries, codes, bvecs if atom_bvecs is None else atom_bvecs, patch_shape
            ),
        ),
        ("Fibre directions", _closeups(pictures, closeups)),
        ("Numbers", _numbers(before, after, bvals, mask, noise, truth, tables)),
        ("Settings and times", _settings(parameters, timings)),
    ]
    record = Record(
        title=title,
        summary=summary,
        command=command,
        sections=tuple(Section(name, tuple(items)) for name, items in parts if items),
        inputs=tuple(inputs),
        seeds=seeds or {},
        versions=versions(),
    )
    return study_report(path, record, pictures, record_path=record_path, force=force, outputs=outputs)


def _glance(numbers: Mapping[str, Any] | Sequence[Number], notes: Sequence[str]) -> list[Item]:
    """The numbers at the top, and what the reader should know."""
    shown = _named(numbers) if isinstance(numbers, Mapping) else tuple(numbers)
    items: list[Item] = [Numbers(shown)] if shown else []
    return items + [Text(note, "note") for note in notes]


def _look(pictures: Pictures, viewer: Viewer) -> list[Item]:
    pictures["viewer"] = viewer
    alt = "The image before and after, slice by slice and direction by direction, with what was taken away."
    caption = (
        "Drag the divider, or move it with the arrow keys. Before and after share one grey scale in each volume. "
        "What was taken away should look like noise: where edges of anatomy show in it, detail was lost. Where the signal "
        "is weak it holds the noise floor too, which is never negative."
    )
    return [Picture("viewer", alt, caption)]


def _proof(
    pictures: Pictures,
    certificate: Certificate | None,
    history: Mapping[str, Any] | None,
    alpha: float | None,
    centring: str,
    codes: Any,
) -> list[Item]:
    """The certificate in words and numbers, and how the objective met its bound."""
    items: list[Item] = []
    if certificate is not None:
        n_samples = len(certificate.attainment_by_sample) or None
        words = certificate_words(certificate, alpha=alpha, n_samples=n_samples, centring=centring)
        pictures["certificate"] = words
        items.append(Picture("certificate", " ".join((words.headline, *words.details))))
        items.append(Numbers(_certificate_numbers(certificate, alpha)))
    if history is not None and len(history["objective"]):
        largest = _largest_decrease(history)
        pictures["convergence"] = convergence(history, relative_to=largest, size=(9.6, 3.8))
        items.append(
            Picture(
                "convergence",
                "A falling curve: what is missing from the proven limit, against iterations.",
                "How learning closed in on the proven limit: the share of the possible improvement that was still "
                "missing after each iteration, on a logarithmic scale. Dots are where atoms were added.",
            )
        )
    return items


def _certificate_numbers(certificate: Certificate, alpha: float | None) -> tuple[Number, ...]:
    share = 100.0 * certificate.gap / certificate.objective if certificate.objective > 0 else None
    found = [
        Number("Attainment", 100.0 * certificate.attainment, "%", digits=2),
        Number("Gap over score", share, "%", digits=2),
        Number("Score", certificate.objective),
        Number("Proven limit", certificate.lower_bound),
        Number("Polar", certificate.polar.upper, note="at most 1 at the optimum"),
    ]
    return (*found, Number("α", alpha)) if alpha is not None else tuple(found)


def _largest_decrease(history: Mapping[str, Any]) -> float | None:
    """f(0) - bound, from a step whose attainment tells: f - bound = (1 - attainment) (f(0) - bound)."""
    gap = np.asarray(history["objective"], dtype=float) - np.asarray(history["lower_bound"], dtype=float)
    missing = 1.0 - np.asarray(history["attainment"], dtype=float)
    known = np.flatnonzero(np.isfinite(missing) & (missing > 1e-9) & (gap > 0))
    return float(gap[known[0]] / missing[known[0]]) if known.size else None


def _dictionary(
    pictures: Pictures,
    dictionaries: Sequence[ArrayLike],
    codes: Any,
    bvecs: ArrayLike | None,
    patch_shape: tuple[int, ...] | None,
) -> list[Item]:
    """Both dictionaries, and the joint atoms sorted by use."""
    if len(dictionaries) != 2:
        return _modes(pictures, dictionaries)
    angular, spatial = (np.asarray(d, dtype=np.float64) for d in dictionaries)
    directions = None if bvecs is None or np.shape(bvecs) != (len(angular), 3) else np.asarray(bvecs)
    use = None if codes is None else joint_use(codes)
    counts = [Number("Angular atoms", angular.shape[1]), Number("Spatial atoms", spatial.shape[1])]
    if use is not None:
        counts.append(Number("Joint atoms in use", int((use > 0).sum()), note=f"of {use.size} pairs"))
    items: list[Item] = [Numbers(tuple(counts))]
    disc = "Discs are half of the sphere of directions, seen from above" if directions is not None else ""
    if use is not None:
        pictures["joint-atoms"] = joint_atoms(angular, spatial, use, bvecs=directions, shape=patch_shape)
        items.append(
            Picture(
                "joint-atoms",
                "The joint atoms used most: a spatial patch and an angular pattern each.",
                "Joint atoms, the most used first: the patch in space beside its pattern over directions, and its "
                f"share of all uses. Orange is positive, blue negative. {disc + '.' if disc else ''}",
            )
        )
    pictures["spatial-atoms"] = atoms(spatial, patch_shape, use=None if use is None else use.sum(axis=0))
    pictures["angular-atoms"] = (
        atoms(angular, use=None if use is None else use.sum(axis=1))
        if directions is None
        else angular_atoms(angular, directions, use=None if use is None else use.sum(axis=1))
    )
    items.append(Picture("spatial-atoms", "The spatial atoms.", _sheet_caption("Spatial", spatial.shape[1])))
    items.append(Picture("angular-atoms", "The angular atoms.", _sheet_caption("Angular", angular.shape[1])))
    return items


def _modes(pictures: Pictures, dictionaries: Sequence[ArrayLike]) -> list[Item]:
    """Any other number of modes: the atoms of each as curves."""
    items: list[Item] = []
    for k, dictionary in enumerate(dictionaries):
        pictures[f"atoms-{k + 1}"] = atoms(dictionary)
        name = f"Mode {k + 1}:"
        items.append(
            Picture(f"atoms-{k + 1}", f"{name} its atoms.", _sheet_caption(name, np.shape(dictionary)[1]))
        )
    return items


def _sheet_caption(name: str, count: int, limit: int = 60) -> str:
    return f"{name} atoms, the most used first" + (f": {limit} of {count}." if count > limit else ".")


def _closeups(pictures: Pictures, closeups: Sequence[tuple[str, Any]]) -> list[Item]:
    items: list[Item] = []
    for i, (caption, picture) in enumerate(closeups):
        pictures[f"closeup-{i + 1}"] = picture
        items.append(Picture(f"closeup-{i + 1}", f"Orientation distributions: {caption}", caption))
    return items


def _numbers(
    before: ArrayLike,
    after: ArrayLike,
    bvals: ArrayLike | None,
    mask: ArrayLike | None,
    noise: ArrayLike | float | None,
    truth: ArrayLike | None,
    tables: Sequence[Table],
) -> list[Item]:
    items: list[Item] = []
    if bvals is not None:
        items.append(shell_table(before, after, bvals, mask=mask, noise=noise, truth=truth))
    return [*items, *tables]


def _settings(parameters: Mapping[str, Any] | None, timings: Mapping[str, float] | None) -> list[Item]:
    items: list[Item] = []
    if parameters:
        rows = tuple((str(name), _told(value)) for name, value in parameters.items())
        items.append(Table("Settings", (Column("Setting"), Column("Value")), rows))
    if timings:
        columns = (Column("Step"), Column("Seconds", digits=1, role="timing"))
        items.append(Table("Times", columns, tuple((str(k), float(v)) for k, v in timings.items())))
    return items


def _named(numbers: Mapping[str, Any]) -> tuple[Number, ...]:
    return tuple(Number(str(name), value) for name, value in numbers.items())


def _told(value: Any) -> Any:
    """A setting as a cell: sequences as words, paths by their names."""
    if isinstance(value, Path):
        return value.name
    if isinstance(value, (list, tuple, np.ndarray)):
        return " × ".join(str(v) for v in value)
    return "none" if value is None else value
