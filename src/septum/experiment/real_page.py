"""The real-image study as a record: dictionaries, what was taken away, orientation distributions before and after."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from septum.array import Float
from septum.dmri.harmonic import degrees
from septum.dmri.image import DwiImage
from septum.dmri.mask import foreground
from septum.dmri.odf import OdfField, peaks
from septum.experiment import real as study_of
from septum.experiment.picture import (
    ORDER,
    angular_sheet,
    close_up,
    field_of,
    joint_fields,
    main_direction,
    used_most,
)
from septum.experiment.protocol import PATCH
from septum.experiment.score import angles
from septum.experiment.stage import Result, Study
from septum.report.record import (
    Cell,
    Column,
    Number,
    Numbers,
    Picture,
    Record,
    Section,
    Table,
    Text,
    versions,
)

WHOLE = "septum denoise, whole volume"
WINDOW = 18
ANISOTROPIC = 0.5  # quantile of the anisotropy above which directions are compared


def page(
    study: Study, size: Any, image: DwiImage, slices: list[int], found: Mapping[str, Result], entire: Result
) -> tuple[Record, dict[str, Any]]:
    """The record of a study and its pictures."""
    pictures: dict[str, Any] = {}
    path = image.path
    name = "" if path is None else path.name
    sections = (
        Section("In short", tuple(_in_short(image, name, slices, entire))),
        Section("What was taken away", (_removed(image, slices, found, entire),)),
        Section("Dictionaries", tuple(_dictionaries(pictures, image, found))),
        Section("Before and after", tuple(_before_after(pictures, image, slices, found, entire))),
        Section("Orientations", tuple(_orientations(pictures, image, slices, found, entire))),
    )
    inputs = () if path is None else ({"Name": name, "Bytes": path.stat().st_size, "SHA256": study_of.sha256(path)},)
    record = Record(
        title="A real image (section 7)" + (", small" if study.small else ""),
        sections=sections,
        summary=(
            f"{name}: {' x '.join(map(str, image.shape[:3]))} voxels, {len(image.gradients.weighted)} directions; "
            f"dictionaries from {size.n_patches} patches of {PATCH} x {PATCH} voxels of the image itself; seed {study.seed}."
        ),
        command=study.command,
        inputs=inputs,
        seeds={"patches and learning": study.seed},
        versions=versions(),
    )
    return record, pictures


def _in_short(image: DwiImage, name: str, slices: list[int], entire: Result) -> list[Any]:
    from septum.dmri.sample import CREDIT, sample

    items: list[Any] = [
        Text(
            "A real image has no truth to be compared with. What can be seen: whether atoms look like anatomy, whether "
            "what is taken away looks like noise of the estimated level, and whether neighbours agree on directions."
        ),
        Numbers(
            (
                Number("noise level", entire.numbers["sigma"], note="sigma, estimated from the image"),
                Number("slices coded in two dimensions", len(slices)),
            )
        ),
    ]
    if image.path is not None and image.path == sample().dwi:
        items.append(Text(CREDIT, tone="note"))
    return items


def _removed(image: DwiImage, slices: list[int], found: Mapping[str, Result], entire: Result) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for name, result in found.items():
        n = result.numbers
        atoms = " x ".join(str(k) for k in n["facts"]["atoms"] if k is not None)
        attainment = n["facts"].get("attainment")
        rows.append(
            (name, atoms, n["removed"], n["nonzeros"], n["gap"], None if attainment is None else 100 * attainment,
             n["learning_seconds"])
        )  # fmt: skip
    before = study_of.slab(image, slices)
    after = entire.arrays["image"][:, :, slices][..., image.gradients.weighted]
    removed = float(np.sqrt(np.mean((before - after) ** 2))) / entire.numbers["sigma"]
    rows.append((WHOLE, "", removed, None, None, None, entire.numbers["seconds"]))
    columns = (
        Column("method"), Column("atoms"), Column("removed, in sigma", digits=3), Column("nonzeros a patch", digits=1),
        Column("largest lasso gap"), Column("attainment of learning", "%", 1), Column("time", "s", 1, role="timing"),
    )  # fmt: skip
    return Table(
        "Residuals", columns, tuple(rows),
        "The root mean square of before minus after, over the slices coded, in units of the estimated sigma: near 1 is "
        "noise of that level. Time is learning, and for the whole volume everything.",
    )  # fmt: skip


def _dictionaries(pictures: dict[str, Any], image: DwiImage, found: Mapping[str, Result]) -> list[Any]:
    from septum import plot

    directions = image.bvecs[image.gradients.weighted]
    items: list[Any] = [
        Text(
            "Atoms of centred patches, the most used first. An angular atom is shown as the orientation distribution of "
            "what it adds, so it has no isotropic part."
        )
    ]
    for name in ("KSVD-KSVD", "KDRSDL", "Proposed"):
        if name not in found:
            continue
        arrays, slug = found[name].arrays, name.lower()
        pictures[f"spatial-{slug}"] = plot.atoms(
            arrays["spatial"], (PATCH, PATCH), use=used_most(arrays["use"], 1), title=f"Spatial, {name}"
        )
        pictures[f"angular-{slug}"] = angular_sheet(
            arrays["angular"], directions, used_most(arrays["use"], 0), f"Angular, {name}"
        )
        items += [
            Picture(f"spatial-{slug}", f"Spatial atoms of {name} as patches, most used first"),
            Picture(f"angular-{slug}", f"Angular atoms of {name} as orientation distributions, most used first"),
        ]
    if "Proposed" in found:
        arrays = found["Proposed"].arrays
        pictures["joint-proposed"] = joint_fields(
            arrays["angular"], arrays["spatial"], directions, arrays["use"], "Joint atoms, Proposed"
        )
        items.append(
            Picture(
                "joint-proposed",
                "The eight joint atoms of Proposed used most often, as fields of orientation distributions",
                "Shapes are drawn where the spatial atom is positive.",
            )
        )
    return items


def _before_after(
    pictures: dict[str, Any], image: DwiImage, slices: list[int], found: Mapping[str, Result], entire: Result
) -> list[Any]:
    from septum import plot

    middle = len(slices) // 2
    volume = int(image.gradients.weighted[0])
    before = image.data[:, :, slices[middle], volume]
    items: list[Any] = []
    shown = {
        WHOLE: entire.arrays["image"][:, :, slices[middle], volume],
        **{name: found[name].arrays["image"][:, :, middle, 0] for name in ("Proposed",) if name in found},
    }
    for name, after in shown.items():
        slug = f"before-after-{'septum' if name == WHOLE else name.lower()}"
        pictures[slug] = plot.before_after(before, after, before - after)
        items.append(
            Picture(slug, f"One direction of slice {slices[middle]} before, after and the residual: {name}", name)
        )
    return items


def _orientations(
    pictures: dict[str, Any], image: DwiImage, slices: list[int], found: Mapping[str, Result], entire: Result
) -> list[Any]:
    middle = len(slices) // 2
    z = slices[middle]
    first, weighted = int(image.gradients.b0s[0]), image.gradients.weighted
    noisy = image.data[:, :, z]
    after = entire.arrays["image"][:, :, z]
    order = _order(image)
    inside = foreground(image)[:, :, z]
    images: dict[str, tuple[str, Float, Float]] = {"noisy": ("as measured", noisy[..., first], noisy[..., weighted])}
    for name in ("I-SR", "Proposed"):
        if name in found:
            images[name.lower()] = (name, noisy[..., first], found[name].arrays["image"][:, :, middle])
    images["septum"] = (WHOLE, after[..., first], after[..., weighted])
    fields = {
        key: field_of(b0, dwi, image.gradients, image.affine, inside, order) for key, (_, b0, dwi) in images.items()
    }
    compared = _anisotropic(fields["septum"], inside)
    window = _window(compared)
    rows, items = [], []
    for key, (label, _, _) in images.items():
        field = fields[key]
        pictures[f"odf-{key}"] = close_up(field, window, f"{label}, slice {z}")
        items.append(Picture(f"odf-{key}", f"Orientation distributions of a part of slice {z}: {label}"))
        counts = (peaks(field).values[:, :, 0] > 0).sum(axis=-1)
        rows.append((label, float(counts[compared].mean()), _disagreement(main_direction(field), compared)))
    table = Table(
        "Peaks", (Column("image"), Column("peaks a voxel", digits=2), Column("angle to the neighbours", "degrees", 2)),
        tuple(rows),
        f"In the {int(compared.sum())} more anisotropic voxels of slice {z}, the same for every image. The angle is that "
        "between main directions of voxels side by side; fibres turn slowly, noise does not. Smoothing lowers it too.",
    )  # fmt: skip
    return [*items, table]


def _order(image: DwiImage) -> int:
    """The highest even order, up to 8, that the best sampled shell can carry."""
    most = max(len(shell) for shell in image.gradients.shells)
    return max([order for order in range(2, ORDER + 1, 2) if len(degrees(order)) <= most], default=2)


def _anisotropic(field: OdfField, inside: NDArray[np.bool_]) -> NDArray[np.bool_]:
    anisotropy = field.generalized_anisotropy()[:, :, 0]
    inside = inside & field.mask[:, :, 0]
    return np.asarray(inside & (anisotropy >= np.quantile(anisotropy[inside], ANISOTROPIC)))


def _window(where: NDArray[np.bool_]) -> tuple[slice, slice]:
    """The square that holds most of the voxels compared."""
    sides = [min(WINDOW, n) for n in where.shape]
    total = np.zeros((where.shape[0] + 1, where.shape[1] + 1))
    total[1:, 1:] = where.cumsum(axis=0).cumsum(axis=1)
    w, h = sides
    counts = total[w:, h:] - total[:-w, h:] - total[w:, :-h] + total[:-w, :-h]
    x, y = np.unravel_index(int(np.argmax(counts)), counts.shape)
    return slice(int(x), int(x) + w), slice(int(y), int(y) + h)


def _disagreement(directions: Float, where: NDArray[np.bool_]) -> float:
    """The mean angle between the main directions of voxels side by side."""
    found = []
    for axis in (0, 1):
        both = np.logical_and(*(np.take(where, s, axis=axis) for s in _sides(where.shape[axis])))
        a, b = (np.take(directions, s, axis=axis)[both] for s in _sides(where.shape[axis]))
        found.append(angles(a, b))
    every = np.concatenate(found)
    return float(every.mean()) if every.size else float("nan")


def _sides(n: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    return np.arange(n - 1), np.arange(1, n)
