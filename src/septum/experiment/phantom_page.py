"""The phantom study as a record: the paper's tables beside what was measured, the four questions, and pictures."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

from septum.array import Float
from septum.dmri import rician
from septum.experiment import phantom as study_of
from septum.experiment.paper import DENOISING, SLICES
from septum.experiment.picture import (
    angular_sheet,
    close_up,
    field_of,
    joint_fields,
    main_direction,
    used_most,
)
from septum.experiment.protocol import PATCH
from septum.experiment.roster import BY_NAME, ROWS
from septum.experiment.score import Difference, angles, paired, spread
from septum.experiment.stage import Result, Study
from septum.report.record import Cell, Column, Picture, Record, Section, Table, Text, versions

Trials = dict[tuple[str, str], list[Result]]
Beside = dict[str, list[Result]]

# The metric that judges each protocol: the printed one as the paper does, the centred one against the truth.
JUDGE = {"printed": "reference", "centred": "corrected"}
METRIC_WORDS = {
    "reference": "against SNR 30",
    "truth": "against truth",
    "corrected": "against truth, noise floor removed",
}
QUESTIONS = (
    ("angular or spatial-angular", "spatial-angular", (("Curve-SR", "I-SR"), ("KSVD-KSVD", "I-KSVD"))),
    ("fixed or learned", "learned", (("I-KSVD", "I-SR"), ("Proposed", "Curve-SR"))),
    ("separate or joint", "joint", (("Proposed", "KSVD-KSVD"), ("KDRSDL", "KSVD-KSVD"))),
    ("local or global", "global", (("Proposed", "KDRSDL"), ("Proposed", "KSVD-KSVD"))),
)
WHOLE = "septum denoise, whole volume"
SQUARES = f"septum denoise, {PATCH} x {PATCH} squares"
FINE = f"Proposed, stride {study_of.FINE_STRIDE}"
WINDOW = (slice(14, 30), slice(14, 30))


def page(
    study: Study, size: Any, floor: list[Result], trials: Trials, beside: Beside
) -> tuple[Record, dict[str, Any]]:
    """The record of a study and its pictures."""
    pictures: dict[str, Any] = {}
    sections = [
        Section("In short", tuple(_in_short(size, floor, trials, beside))),
        Section("What was compared", (_checklist(trials), _organisation())),
        Section("Bounds", (_bounds(size, floor),)),
    ]
    for protocol in size.protocols:
        sections.append(Section(_title(protocol), tuple(_denoising(size, protocol, trials, floor, beside))))
    sections.append(Section("The four questions", tuple(_questions(size, trials))))
    if size.is_crossed:
        sections.append(Section("Spread", (_spreads(size, trials),)))
    sections += [
        Section("Dictionaries", tuple(_dictionaries(pictures, size, trials))),
        Section("Close-ups", tuple(_close_ups(study, size, pictures, trials, beside))),
    ]
    record = Record(
        title="The phantom study (section 7)" + (", small" if study.small else ""),
        sections=tuple(sections),
        summary=(
            f"Dictionaries from {size.n_patches} patches of {PATCH} x {PATCH} voxels at SNR 30, tried on slices "
            f"{', '.join(map(str, size.test))} at SNR 10; {size.repetitions} repetitions, each with training patches "
            f"and noise of its own; seed {study.seed}."
        ),
        command=study.command,
        seeds={"first repetition": study.seed, "repetitions": size.repetitions},
        versions=versions(),
    )
    return record, pictures


# --- values -------------------------------------------------------------------------------------


def averages(results: Sequence[Result], metric: str) -> list[float]:
    """The mean over slices in each repetition, under the repetition's own noise."""
    return [float(np.mean(own_noise(r)[metric])) for r in results]


def own_noise(result: Result) -> dict[str, list[float]]:
    """The scores under the noise of the repetition: the first that was asked for."""
    return next(iter(result.numbers["psnr"].values()))  # type: ignore[no-any-return]


def by_slice(results: Sequence[Result], metric: str) -> list[float]:
    """The mean over repetitions of each slice."""
    return [float(v) for v in np.mean([own_noise(r)[metric] for r in results], axis=0)]


def difference(trials: Trials, protocol: str, first: str, second: str) -> Difference | None:
    """How much higher the first method is, repetition by repetition; None where one was not run."""
    pair = [trials.get((protocol, name)) for name in (first, second)]
    if pair[0] is None or pair[1] is None:
        return None
    return paired(averages(pair[0], JUDGE[protocol]), averages(pair[1], JUDGE[protocol]))


# --- words and tables ---------------------------------------------------------------------------


def _title(protocol: Any) -> str:
    return "Table 3, the paper's protocol" if protocol.name == "printed" else "Table 3, centred patches"


def _in_short(size: Any, floor: list[Result], trials: Trials, beside: Beside) -> list[Any]:
    items: list[Any] = []
    raw = float(np.mean([f.numbers["raw"]["reference"] for f in floor]))
    for protocol in size.protocols:
        metric = JUDGE[protocol.name]
        scores = {n: float(np.mean(averages(trials[protocol.name, n], metric))) for n in size.methods}
        order = sorted(scores, key=lambda n: -scores[n])
        told = ", ".join(f"{n} {scores[n]:.2f}" for n in order)
        how = "In the paper's protocol" if protocol.name == "printed" else "With centred patches"
        items.append(Text(f"{how} (PSNR in dB {METRIC_WORDS[metric]}, mean over slices and repetitions): {told}."))
    if beside:
        cubes, squares, fine = (float(np.mean(averages(beside[k], "corrected"))) for k in (WHOLE, SQUARES, FINE))
        items.append(
            Text(
                f"septum's own denoiser, from the noisy volume alone, reaches {cubes:.2f} dB {METRIC_WORDS['truth']}, "
                f"and {squares:.2f} dB where it may not look across slices; Proposed at stride "
                f"{study_of.FINE_STRIDE} reaches {fine:.2f} dB."
            )
        )
    items.append(
        Text(
            f"The raw data have {raw:.1f} dB against SNR 30 by this count, above every average that the paper prints "
            "(16.9 to 18.2 dB): it counts the error or the peak otherwise than by its formula, and only its order compares.",
            tone="note",
        )
    )
    return items


def _checklist(trials: Trials) -> Table:
    mark = {True: "yes", False: ""}
    names = {name for _, name in trials}
    rows: list[tuple[Cell, ...]] = [
        (
            row.name, mark[not row.is_joint_domain], mark[row.is_joint_domain], mark[not row.is_learned],
            mark[row.is_learned], mark[row.learning == "separate"], mark[row.learning == "joint"],
            mark[row.optimality == "local"], mark[row.optimality == "global"], row.name in DENOISING,
        )
        for row in ROWS if row.name in names
    ]  # fmt: skip
    labels = ("method", "angular", "spatial-angular", "fixed", "learned", "separate", "joint", "local", "global",
              "in the paper's table 3")  # fmt: skip
    return Table("Table 1: properties", tuple(map(Column, labels)), tuple(rows))


def _organisation() -> Table:
    sides = ("I", "Curve", "KSVD", "KDRSDL", "Proposed", "PCA")
    tops = ("SR", "KSVD", "KDRSDL", "Proposed", "PCA")
    rows = tuple(
        (s, *(", ".join(row.name for row in ROWS if (row.spatial, row.angular) == (s, a)) for a in tops)) for s in sides
    )
    return Table(
        "Table 2: spatial dictionaries down, angular ones across", tuple(map(Column, ("spatial", *tops))), rows,
        "The methods that the paper's table 2 names were all run; PCA is added.",
    )  # fmt: skip


def _bounds(size: Any, floor: list[Result]) -> Table:
    words = {
        "raw": "raw data, SNR 10",
        "floor": "perfect denoising that keeps the noise floor",
        "truth": "the truth itself",
    }
    rows: list[tuple[Cell, ...]] = [
        (label, *(float(np.mean([f.numbers[key][metric] for f in floor])) for metric in ("reference", "truth")))
        for key, label in words.items()
    ]
    columns = (Column("image"), *(Column(METRIC_WORDS[m], "dB", 2) for m in ("reference", "truth")))
    return Table(
        "What could be reached", columns, tuple(rows),
        "Perfect denoising averages the magnitudes, whose mean is above the signal where that is weak.",
    )  # fmt: skip


def _denoising(size: Any, protocol: Any, trials: Trials, floor: list[Result], beside: Beside) -> list[Any]:
    if protocol.name == "printed":
        told = (
            "No centring, stride 8, plain lasso, one alpha a method: the one with the best PSNR on the test slices "
            f"themselves, as the paper chooses it. Proposed learns at alpha {protocol.learning_alpha:g}."
        )
    else:
        told = (
            "The means of every direction and voxel of a patch are taken out and put back; alpha is chosen on slices "
            f"{' and '.join(map(str, study_of.TUNING))}; the lasso's support is refitted. The noise level alone "
            "would say alpha = sigma sqrt(2 log(r1 r2 T)), 5.3 sigma at the full sizes, which is the largest alpha tried."
        )
    items: list[Any] = [Text(told), _scores(size, protocol, trials, floor, beside), _details(size, protocol, trials)]
    rho = _order_agreement(size, protocol, trials)
    if rho is not None:
        items.append(
            Text(f"Spearman's correlation between these averages and the paper's, over its methods: {rho:.2f}.")
        )
    items.append(_alphas(size, protocol, trials))
    return items


def _scores(size: Any, protocol: Any, trials: Trials, floor: list[Result], beside: Beside) -> Table:
    metric = JUDGE[protocol.name]
    printed = protocol.name == "printed"
    rows: list[tuple[Cell, ...]] = [_score_row("raw data", [f.numbers["raw"][metric] for f in floor], size, printed)]
    rows += [
        _score_row(name, [own_noise(r)[metric] for r in trials[protocol.name, name]], size, printed) for name in size.methods
    ]
    if not printed:
        rows += [_score_row(label, [own_noise(r)[metric] for r in found], size, printed) for label, found in beside.items()]
    columns = [Column("method")]
    for z in size.test:
        columns.append(Column(f"slice {z}", "dB", 2))
        if printed:
            columns.append(Column(f"slice {z}, paper", "dB", 3, role="paper"))
    columns += [Column("average", "dB", 2, better="higher"), Column("deviation", "dB", 2)]
    if printed:
        columns.append(Column("average, paper", "dB", 3, role="paper"))
    return Table(
        f"PSNR {METRIC_WORDS[metric]}", tuple(columns), tuple(rows),
        "Means over repetitions; the deviation is that of a repetition's average.",
    )  # fmt: skip


def _score_row(name: str, found: Sequence[Sequence[float]], size: Any, printed: bool) -> tuple[Cell, ...]:
    paper = DENOISING.get(name)
    cells: list[Cell] = [name]
    for z, value in zip(size.test, np.mean(found, axis=0), strict=True):
        cells.append(float(value))
        if printed:
            cells.append(None if paper is None else paper[SLICES.index(z)])
    means = [float(np.mean(f)) for f in found]
    cells += [float(np.mean(means)), spread(means)]
    if printed:
        cells.append(None if paper is None else paper[-1])
    return tuple(cells)


def _details(size: Any, protocol: Any, trials: Trials) -> Table:
    rows = []
    others = [m for m in study_of.METRICS if m != JUDGE[protocol.name]]
    for name in size.methods:
        results = trials[protocol.name, name]
        first = results[0].numbers
        tried = [alpha for alpha, _ in first["scores"]]
        edge = first["alpha"] in (tried[0], tried[-1]) and len(tried) > 1
        is_cut = edge and first["alpha"] == min(tried)
        atoms = [n for n in first["facts"].get("atoms") or () if n is not None]
        attainment = first["facts"].get("attainment")
        rows.append(
            (name, *(float(np.mean(averages(results, m))) for m in others), first["alpha"], is_cut,
             max(r.numbers["gap"] for r in results), first["nonzeros"], " x ".join(map(str, atoms)),
             None if attainment is None else 100 * attainment,
             float(np.mean([r.numbers["learning_seconds"] for r in results])), first["coding_seconds"])
        )  # fmt: skip
    columns = (
        Column("method"), *(Column(METRIC_WORDS[m], "dB", 2) for m in others), Column("alpha"),
        Column("the least alpha tried"), Column("largest lasso gap"), Column("nonzeros a patch", digits=0),
        Column("atoms"), Column("attainment of learning", "%", 1), Column("learning", "s", 1, role="timing"),
        Column("coding, all alphas", "s", 1, role="timing"),
    )  # fmt: skip
    return Table(
        "How each was run", columns, tuple(rows),
        "Alpha in units of white matter's b0 signal; sigma is 0.1. The gap is relative to half the patch's energy.",
    )  # fmt: skip


def _alphas(size: Any, protocol: Any, trials: Trials) -> Table:
    every = sorted({a for n in size.methods for a, _ in trials[protocol.name, n][0].numbers["scores"]}, reverse=True)
    rows = [
        (name, *(dict(map(tuple, trials[protocol.name, name][0].numbers["scores"])).get(a) for a in every))
        for name in size.methods
    ]
    where = "the test slices" if protocol.name == "printed" else "the tuning slices"
    return Table(
        f"PSNR against SNR 30 on {where}, by alpha",
        (Column("method"), *(Column(f"{a:g}", "dB", 2) for a in every)), tuple(rows),
        "The first repetition; empty: not tried.",
    )  # fmt: skip


def _order_agreement(size: Any, protocol: Any, trials: Trials) -> float | None:
    names = [n for n in size.methods if n in DENOISING]
    if len(names) < 3:
        return None
    ours = [float(np.mean(averages(trials[protocol.name, n], JUDGE[protocol.name]))) for n in names]
    return float(stats.spearmanr(ours, [DENOISING[n][-1] for n in names]).statistic)


def _questions(size: Any, trials: Trials) -> list[Any]:
    rows = []
    for question, answer, pairs in QUESTIONS:
        for first, second in pairs:
            theirs = DENOISING[first][-1] - DENOISING[second][-1]
            cells: list[Cell] = [question, f"{first} over {second}", theirs]
            for protocol in size.protocols:
                found = difference(trials, protocol.name, first, second)
                cells += [None, None, ""] if found is None else [found.mean, found.half_width, _said(found, theirs)]
            rows.append((*cells[:1], answer, *cells[1:]))
    columns = [Column("question"), Column("the paper's answer"), Column("difference")]
    columns.append(Column("paper", "dB", 2, role="paper"))
    for protocol in size.protocols:
        columns += [
            Column(f"{protocol.name}", "dB", 2),
            Column(f"{protocol.name}, ±", "dB", 2),
            Column(f"{protocol.name}, as the paper?"),
        ]
    return [
        Text(
            "Differences of averages, repetition by repetition, with the half-width of their 95% interval. "
            "The printed protocol is judged against SNR 30, the centred one against the truth with the noise floor removed."
        ),
        Table("Answers", tuple(columns), tuple(rows)),
    ]


def _said(found: Difference, theirs: float) -> str:
    if found.verdict in ("undecided", "one pair"):
        return found.verdict
    return "agrees" if (found.mean > 0) == (theirs > 0) else "the opposite"


def _spreads(size: Any, trials: Trials) -> Table:
    """Deviations over noise at the first training seed, and over training at the first noise seed."""
    rows = []
    for name in size.methods:
        results = trials["centred", name]
        noise = [float(np.mean(v["corrected"])) for v in results[0].numbers["psnr"].values()]
        common = next(iter(results[0].numbers["psnr"]))
        training = [float(np.mean(r.numbers["psnr"][common]["corrected"])) for r in results]
        rows.append((name, spread(noise), spread(training) if BY_NAME[name].is_learned else None))
    return Table(
        "Deviation over seeds, centred patches",
        (Column("method"), Column("noise", "dB", 3), Column("training patches", "dB", 3)), tuple(rows),
        "Of the average over slices; fixed dictionaries have no training.",
    )  # fmt: skip


# --- pictures -----------------------------------------------------------------------------------


def _dictionaries(pictures: dict[str, Any], size: Any, trials: Trials) -> list[Any]:
    from septum import plot

    directions = study_of.directions()
    items: list[Any] = [
        Text(
            "Learned in the paper's protocol, first repetition, and ordered by how many test patches use an atom. "
            "Spatial atoms are patches, angular atoms orientation distributions."
        )
    ]
    for name in ("Curve-SR", "KSVD-KSVD", "KDRSDL", "Proposed"):
        found = trials.get(("printed", name))
        if found is None:
            continue
        arrays = found[0].arrays
        slug = name.lower()
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
    found = trials.get(("printed", "Proposed"))
    if found is not None:
        arrays = found[0].arrays
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


def _close_ups(study: Study, size: Any, pictures: dict[str, Any], trials: Trials, beside: Beside) -> list[Any]:
    phantom = study_of.volume(study.seed, *size.slices)
    z, seed = size.test[0], study.seed
    place = z - size.slices[0]
    gradients = phantom.gradients
    inside = phantom.mask[:, :, place]
    noisy = study_of.one_slice(phantom, place).with_noise(study_of.SNR, seed=seed).data[:, :, 0]
    clean = study_of.one_slice(phantom, place).with_noise(study_of.REFERENCE_SNR, seed=seed).data[:, :, 0]
    first, weighted = int(gradients.b0s[0]), gradients.weighted
    images: dict[str, tuple[str, Float, Float]] = {
        "truth": ("truth", phantom.truth[:, :, place, first], phantom.truth[:, :, place][..., weighted]),
        "snr-30": ("SNR 30", clean[..., first], clean[..., weighted]),
        "noisy": ("noisy, SNR 10", noisy[..., first], noisy[..., weighted]),
    }
    for protocol, name in (("printed", "I-SR"), ("printed", "Proposed"), ("centred", "Proposed")):
        found = trials.get((protocol, name))
        if found is not None:
            image = np.maximum(found[0].arrays["image"].astype(np.float64), 0.0)
            image = rician.correct(image, study_of.SIGMA) if protocol == "centred" else image
            images[f"{name.lower()}-{protocol}"] = (f"{name}, {protocol} protocol", noisy[..., first], image)
    if beside:
        image = beside[WHOLE][0].arrays["image"].astype(np.float64)
        images["septum"] = (WHOLE, image[..., first], image[..., weighted])
    rows, items = [], []
    certain = inside & phantom.white_matter[:, :, place] & (phantom.shares[:, :, place, 0] > 0.6)
    for key, (label, b0, dwi) in images.items():
        field = field_of(b0, dwi, gradients, phantom.affine, inside)
        error = angles(main_direction(field)[certain], phantom.directions[:, :, place, 0][certain])
        rows.append((label, float(np.mean(error)), float(np.percentile(error, 90))))
        pictures[f"odf-{key}"] = close_up(field, WINDOW, f"{label}, slice {z}")
        items.append(Picture(f"odf-{key}", f"Orientation distributions of a part of slice {z}: {label}"))
    table = Table(
        "Error of the main direction", (Column("image"), Column("mean", "degrees", 2), Column("90% below", "degrees", 2)),
        tuple(rows),
        f"In the {int(certain.sum())} voxels of slice {z} that are mostly white matter with one direction above 60%. "
        "Methods that denoise the weighted volumes alone use the noisy b0.",
    )  # fmt: skip
    return [*items, table]
