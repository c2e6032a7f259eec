"""Section 6: the synthetic study, from nothing.

For each alpha of the paper: the known optimum; the paper's algorithm as printed, the same with its growth
corrected, and the default solver; then random starts at the sizes that growth found (the paper's third
remark), the atoms against those the data was made from, and the remark that alpha above 1 gives zero.
"""

from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Literal

import numpy as np

from septum.array import Float
from septum.certificate import certify_factors
from septum.datasets import make_separable
from septum.datasets.separable import SIDE, angular_atoms, spatial_atoms
from septum.experiment.paper import SYNTHETIC
from septum.experiment.stage import Result, Study
from septum.learning import Learned, fast, palm
from septum.learning.history import GROWTH_LIMIT, Settings
from septum.optimum import global_optimum
from septum.problem import Problem
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
from septum.spectral import largest_singular_values

ALPHAS = (0.95, 0.90, 0.85, 0.75)
VARIANTS = {
    "printed": "as printed",
    "palm": "growth corrected",
    "fast": "septum's default",
}
TOLERANCE = 0.02
# Codes beside random dictionaries: zero, which stay zero where no joint atom correlates by more than alpha with a
# sample; and correlations, which let the dictionaries turn towards the data before the codes have shrunk.
START_CODES: dict[Literal["zero", "correlations"], str] = {"zero": "zero codes", "correlations": "correlations as codes"}
Starts = dict[tuple[float, str], list[float]]
HISTORY = ("objective", "lower_bound", "attainment", "seconds", "atoms")


@dataclass(frozen=True)
class Size:
    """How large a study is. The caps on the paper's algorithm are steps in the small study, seconds in the full one."""

    n_samples: int
    max_time: float | None
    max_iter: int
    max_inner: int
    random_starts: int
    alphas: tuple[float, ...]


FULL = Size(1200, 600.0, 100_000, 500, 10, ALPHAS)
SMALL = Size(200, None, 12, 60, 3, ALPHAS)


def run(study: Study) -> tuple[Record, dict[str, Any]]:
    """Every stage, then the record and its pictures."""
    size = SMALL if study.small else FULL
    if study.cap is not None:
        size = replace(size, max_time=study.cap)
    study.report(0.0, "the known optimum")
    optima = [study.stage(optimum, n_samples=size.n_samples, seed=study.seed, alpha=a) for a in size.alphas]
    jobs = [
        dict(common(study, size, alpha), variant=variant) for alpha in reversed(size.alphas) for variant in VARIANTS
    ]
    learned = study.stages(learn, jobs, begin=0.02, end=0.7, text="learning")
    by_run = {(job["alpha"], job["variant"]): result for job, result in zip(jobs, learned, strict=True)}
    at_paper_sizes = study.stages(
        learn,
        [dict(common(study, size, a), variant="fast", caps=list(SYNTHETIC[a][:2])) for a in size.alphas],
        begin=0.7,
        end=0.72,
        text="learning at the paper's sizes",
    )
    paper_sized = dict(zip(size.alphas, at_paper_sizes, strict=True))
    starts = [
        dict(common(study, size, alpha), sizes=by_run[alpha, "palm"].numbers["sizes"], start_seed=s, start_codes=codes)
        for alpha in size.alphas
        for codes in START_CODES
        for s in range(size.random_starts)
    ]
    # One local descent takes a small part of what growth as a whole may take.
    for start in starts:
        start["max_time"] = None if size.max_time is None else size.max_time / 20
    descents = study.stages(random_start, starts, begin=0.72, end=0.97, text="random starts")
    zero = study.stage(zero_remark, n_samples=size.n_samples, seed=study.seed)
    study.report(0.98, "tables and pictures")
    found: Starts = {(a, codes): [] for a in size.alphas for codes in START_CODES}
    for start, result in zip(starts, descents, strict=True):
        found[start["alpha"], start["start_codes"]].append(result.numbers["attainment"])
    return _record(study, size, dict(zip(size.alphas, optima, strict=True)), by_run, paper_sized, found, zero)


def common(study: Study, size: Size, alpha: float) -> dict[str, Any]:
    return {
        "n_samples": size.n_samples,
        "seed": study.seed,
        "alpha": alpha,
        "max_time": size.max_time,
        "max_iter": size.max_iter,
        "max_inner": size.max_inner,
    }


# --- stages -------------------------------------------------------------------------------------


def optimum(*, n_samples: int, seed: int, alpha: float) -> Result:
    """f* and r~."""
    best = global_optimum(make_separable(n_samples, random_state=seed).X, alpha)
    return Result({"value": best.value, "rank": best.rank}, {})


def learn(
    *,
    n_samples: int,
    seed: int,
    alpha: float,
    variant: str,
    max_time: float | None,
    max_iter: int,
    max_inner: int,
    caps: list[int] | None = None,
) -> Result:
    """One algorithm at one alpha; the paper's start is one random atom a side."""
    problem = Problem.of(make_separable(n_samples, random_state=seed).X, alpha)
    settings = _settings(problem, seed, max_time, max_iter, caps)
    began = perf_counter()
    if variant == "fast":
        answer = fast.learn(problem, settings)
    else:
        growth = {"palm": "exact", "printed": "printed"}[variant]
        options = palm.PalmOptions(growth=growth, max_inner=max_inner)  # type: ignore[arg-type]
        answer = palm.learn(problem, _from_random(settings), options)
    return _result(problem, answer, perf_counter() - began, max_time)


def random_start(
    *,
    n_samples: int,
    seed: int,
    alpha: float,
    sizes: list[int],
    start_seed: int,
    start_codes: Literal["zero", "correlations"],
    max_time: float | None,
    max_iter: int,
    max_inner: int,
) -> Result:
    """One local descent of the paper's algorithm from random dictionaries of given sizes, without growth."""
    problem = Problem.of(make_separable(n_samples, random_state=seed).X, alpha)
    rng = np.random.default_rng([start_seed, seed])
    start = [rng.standard_normal((d, r)) for d, r in zip(problem.shape, sizes, strict=True)]
    settings = _settings(problem, seed, max_time, 1, sizes, start=[A / np.linalg.norm(A, axis=0) for A in start])
    began = perf_counter()
    answer = palm.learn(problem, settings, palm.PalmOptions(max_inner=10 * max_inner, start_codes=start_codes))
    return _result(problem, answer, perf_counter() - began, max_time)


def zero_remark(*, n_samples: int, seed: int) -> Result:
    """The remark that alpha above 1 gives zero: the largest singular value says exactly when."""
    X = make_separable(n_samples, random_state=seed).X
    top = float(largest_singular_values(X).max())
    ranks = {f"{alpha:g}": global_optimum(X, alpha).rank for alpha in (1.0, 1.005, 1.01, 1.02, 1.05)}
    at_top = Problem.of(X, top * (1 + 1e-9))
    answer = fast.learn(at_top, _settings(at_top, seed, None, 10, None))
    certificate = certify_factors(at_top, answer.factors)
    return Result({"largest": top, "ranks": ranks, "verdict": certificate.verdict, "codes": answer.factors.codes.nnz}, {})


def _settings(
    problem: Problem,
    seed: int,
    max_time: float | None,
    max_iter: int,
    caps: list[int] | None,
    start: list[Float] | None = None,
) -> Settings:
    return Settings(
        caps=tuple(GROWTH_LIMIT * d for d in problem.shape) if caps is None else tuple(caps),
        is_capped=caps is not None,
        tol=TOLERANCE if caps is None else 1e-9,
        min_gain=0.0,
        max_iter=max_iter,
        max_time=max_time,
        init="spectral",
        start=start,
        rng=np.random.default_rng(seed),
        n_jobs=1,
        verbose=0,
        callback=None,
    )


def _from_random(settings: Settings) -> Settings:
    return Settings(**{**settings.__dict__, "init": "random"})


def _result(problem: Problem, answer: Learned, seconds: float, max_time: float | None) -> Result:
    """Everything claimed is recomputed from the factors."""
    certificate = certify_factors(problem, answer.factors)
    ordered = answer.factors.ordered()
    sizes = list(ordered.sizes)
    total = float(np.prod(sizes)) * problem.n_samples
    numbers = {
        "sizes": sizes,
        "attainment": certificate.attainment,
        "gap": certificate.gap,
        "sparsity": 100.0 * ordered.codes.nnz / total if total else 0.0,
        "seconds": seconds,
        "stopped": answer.stopped_because,
        "is_capped": max_time is not None and seconds >= max_time,
        "steps": len(answer.history["objective"]),
    }
    inner = [np.asarray(trace) for trace in answer.history["inner_objective"]]
    arrays = {
        "inner": np.concatenate(inner) if inner else np.zeros(0),
        "lengths": np.array([len(trace) for trace in inner]),
        **{f"dictionary_{k}": A for k, A in enumerate(ordered.dictionaries)},
        **{name: np.asarray(answer.history[name]) for name in HISTORY},
        "usage_0": ordered.usage()[0],
        "usage_1": ordered.usage()[1],
    }
    return Result(numbers, arrays)


# --- tables and pictures ------------------------------------------------------------------------


def matches(found: Float, original: Float) -> Float:
    """For every original atom, the largest |cosine| with any atom found."""
    if found.shape[1] == 0:
        return np.zeros(original.shape[1])
    return np.abs(original.T @ found).max(axis=1)


def _record(
    study: Study,
    size: Size,
    optima: dict[float, Result],
    runs: dict[tuple[float, str], Result],
    paper_sized: dict[float, Result],
    random: Starts,
    zero: Result,
) -> tuple[Record, dict[str, Any]]:
    pictures: dict[str, Any] = {}
    sections = [
        Section("In short", (Text(_in_short(size, runs)),)),
        Section("The original atoms", tuple(_originals(pictures))),
        Section("Objective against iterations", tuple(_convergence(pictures, size, runs))),
        Section("Sizes", (_size_table(size, optima, runs), _paper_size_table(size, paper_sized))),
        Section("Atoms that were found", tuple(_found(pictures, size, runs, paper_sized))),
        Section("Growth against random starts", tuple(_starts(pictures, size, runs, random))),
        Section("Alpha above one", tuple(_zero_items(zero))),
    ]
    record = Record(
        title="The synthetic study (section 6)" + (", small" if study.small else ""),
        sections=tuple(sections),
        summary=f"{size.n_samples} samples of 10 x 100, {len(size.alphas)} values of alpha, seed {study.seed}.",
        command=study.command,
        seeds={"data and starts": study.seed},
        versions=versions(),
    )
    return record, pictures


def _in_short(size: Size, runs: dict[tuple[float, str], Result]) -> str:
    best = [runs[a, "fast"].numbers for a in size.alphas]
    told = "; ".join(
        f"alpha {a:g}: {100 * n['attainment']:.1f}% with {sum(n['sizes'])} atoms"
        for a, n in zip(size.alphas, best, strict=True)
    )
    if size.max_time is None:
        cap = "steps and iterations are capped, and with fewer samples the paper's numbers are no yardstick"
    else:
        cap = f"each run is capped at {size.max_time:g} s"
    return (
        "The optimum is known before any learning; what is learnt is a dictionary far smaller than the optimum's own. "
        f"The default solver reaches, of the largest possible decrease: {told}. "
        f"The paper's algorithm is run as printed and with its one-sided growth corrected; {cap}."
    )


def _originals(pictures: dict[str, Any]) -> list[Any]:
    from septum import plot

    pictures["original-spatial"] = plot.atoms(spatial_atoms(), (SIDE, SIDE), title="Spatial")
    pictures["original-angular"] = plot.atoms(angular_atoms(), title="Angular")
    return [
        Text(
            "The pictures of the paper's atoms are lost; these are made so that the size of the explicit optimum "
            "agrees with the paper's at all four values of alpha."
        ),
        Picture("original-spatial", "Six spatial atoms: square, stripes, disk, diagonal, corner, stripes"),
        Picture("original-angular", "Three angular atoms: bumps at the left, the middle and the right"),
    ]


def _convergence(pictures: dict[str, Any], size: Size, runs: dict[tuple[float, str], Result]) -> list[Any]:
    from septum import plot

    items: list[Any] = [
        Text(
            "The objective minus the known optimum after every inner iteration; dots mark the ends of local descents. "
            "An iteration of the default solver is a round of exact steps, dearer than a gradient step. "
            "Growth as printed may raise the objective: the step size charges alpha for a code column that costs more."
        )
    ]
    for alpha in size.alphas:
        name = f"convergence-{alpha:g}"
        traces = {VARIANTS[v]: _history(runs[alpha, v]) for v in VARIANTS}
        pictures[name] = plot.convergence(traces, title=f"alpha = {alpha:g}")
        items.append(Picture(name, f"Objective minus optimum against iterations at alpha {alpha:g}"))
    return items


def _history(result: Result) -> dict[str, Any]:
    bounds = np.cumsum(result.arrays["lengths"])[:-1]
    return {**{name: result.arrays[name] for name in HISTORY}, "inner_objective": np.split(result.arrays["inner"], bounds)}


def _size_table(size: Size, optima: dict[float, Result], runs: dict[tuple[float, str], Result]) -> Table:
    paper = [Column("r~, paper", role="paper"), Column("r1, paper", role="paper"), Column("r2, paper", role="paper"),
             Column("nonzero, paper", "%", role="paper")]  # fmt: skip
    rows = []
    for alpha in size.alphas:
        r1, r2, sparsity, rank = SYNTHETIC[alpha]
        for variant, label in VARIANTS.items():
            n = runs[alpha, variant].numbers
            rows.append(
                (f"{alpha:g}, {label}", optima[alpha].numbers["rank"], rank, *_pair(n["sizes"]), r1, r2, n["sparsity"],
                 sparsity, 100 * n["attainment"], n["gap"], n["seconds"], n["is_capped"], n["steps"])
            )  # fmt: skip
    # Where a cap in seconds may end a run, its numbers depend on the machine and no comparison checks them.
    role: Any = "value" if size.max_time is None else "timing"
    columns = (
        Column("alpha, algorithm"), Column("r~"), paper[0], Column("r1", role=role), Column("r2", role=role), paper[1],
        paper[2], Column("nonzero", "%", 2, role=role), paper[3], Column("attainment", "%", 2, role=role, better="higher"),
        Column("objective minus optimum", role=role), Column("time", "s", 1, role="timing"),
        Column("stopped by the cap", role=role), Column("outer steps", role=role),
    )  # fmt: skip
    return Table("Sizes and optimality", columns, tuple(rows))


def _pair(sizes: list[int]) -> tuple[int, int]:
    return int(sizes[0]), int(sizes[1])


def _paper_size_table(size: Size, paper_sized: dict[float, Result]) -> Table:
    rows = []
    for alpha in size.alphas:
        n = paper_sized[alpha].numbers
        rows.append((f"{alpha:g}", *SYNTHETIC[alpha][:2], *_pair(n["sizes"]), 100 * n["attainment"], n["seconds"]))
    columns = (
        Column("alpha"), Column("r1 at most", role="paper"), Column("r2 at most", role="paper"), Column("r1"), Column("r2"),
        Column("attainment", "%", 2), Column("time", "s", 1, role="timing"),
    )  # fmt: skip
    return Table("The default solver at the paper's sizes", columns, tuple(rows))


def _found(
    pictures: dict[str, Any], size: Size, runs: dict[tuple[float, str], Result], paper_sized: dict[float, Result]
) -> list[Any]:
    from septum import plot

    originals = (angular_atoms(), spatial_atoms())
    rows: list[tuple[Cell, ...]] = []
    for alpha in size.alphas:
        for label, result in (("at 98%", runs[alpha, "fast"]), ("at the paper's sizes", paper_sized[alpha])):
            cosines = [matches(result.arrays[f"dictionary_{k}"], originals[k]) for k in range(2)]
            rows.append((f"{alpha:g}, {label}", *[float(c.min()) for c in cosines], *[float(c.mean()) for c in cosines]))
    table = Table(
        "How well the original atoms are found",
        (
            Column("alpha"),
            *(Column(name, digits=5) for name in ("worst angular", "worst spatial", "mean angular", "mean spatial")),
        ),
        tuple(rows),
        "The largest |cosine| of each original atom with an atom found; 1 is perfect.",
    )
    items: list[Any] = [table]
    for alpha in (0.95, 0.75):
        if alpha not in size.alphas:
            continue
        chosen = paper_sized[alpha] if alpha == 0.95 else runs[alpha, "fast"]
        spatial, angular = f"spatial-{alpha:g}", f"angular-{alpha:g}"
        pictures[spatial] = plot.atoms(
            chosen.arrays["dictionary_1"], (SIDE, SIDE), use=chosen.arrays["usage_1"], title=f"Spatial, alpha = {alpha:g}"
        )
        pictures[angular] = plot.atoms(
            chosen.arrays["dictionary_0"], use=chosen.arrays["usage_0"], title=f"Angular, alpha = {alpha:g}"
        )
        items += [
            Picture(spatial, f"Spatial atoms learnt at alpha {alpha:g}, most used first"),
            Picture(angular, f"Angular atoms learnt at alpha {alpha:g}, most used first"),
        ]
    return items


def _starts(
    pictures: dict[str, Any], size: Size, runs: dict[tuple[float, str], Result], random: Starts
) -> list[Any]:
    rows = []
    for alpha in size.alphas:
        grown = runs[alpha, "palm"].numbers
        for codes, label in START_CODES.items():
            values = 100 * np.array(random[alpha, codes])
            rows.append(
                (f"{alpha:g}, {label}", " + ".join(map(str, grown["sizes"])), 100 * grown["attainment"],
                 float(np.median(values)), float(values.min()), float(values.max()),
                 int((values < 100 * grown["attainment"]).sum()))
            )  # fmt: skip
    role: Any = "value" if size.max_time is None else "timing"
    columns = (
        Column("alpha, start"), Column("sizes", role=role), Column("by growth", "%", 2, role=role),
        Column("random, median", "%", 2, role=role), Column("random, worst", "%", 2, role=role),
        Column("random, best", "%", 2, role=role), Column("random starts below growth", role=role),
    )  # fmt: skip
    pictures["random-starts"] = _strip(size, runs, random)
    return [
        Text(
            "Attainment of single local descents from random dictionaries of the sizes that the corrected growth "
            "ended with, beside what growth itself reached. Zero codes are a critical point, and a start that falls to them "
            "ends at 0%: from zero codes it does unless some random joint atom correlates by more than alpha with a sample; "
            "codes that start as correlations let the dictionaries turn towards the data first."
        ),
        Table("Growth against random starts", columns, tuple(rows)),
        Picture("random-starts", "Attainment of random starts as dots, of growth as a line, at each alpha"),
    ]


def _strip(size: Size, runs: dict[tuple[float, str], Result], random: Starts) -> Any:
    from septum.plot.style import LINES, blank, looks

    with looks():
        figure = blank(5.2, 3.0, layout="constrained")
        axes = figure.add_subplot()
        for k, alpha in enumerate(size.alphas):
            for c, (codes, label) in enumerate(START_CODES.items()):
                values = 100 * np.array(random[alpha, codes])
                place = k + 0.28 * (c - 0.5) + np.linspace(-0.1, 0.1, len(values))
                axes.plot(place, values, "o", color=LINES[1 + c], ms=4, label="" if k else f"random, {label}")
            grown = 100 * runs[alpha, "palm"].numbers["attainment"]
            axes.hlines(grown, k - 0.28, k + 0.28, color=LINES[0], lw=2.5, label="" if k else "growth")
        axes.set_xticks(range(len(size.alphas)), [f"{a:g}" for a in size.alphas])
        axes.set(xlabel="alpha", ylabel="attainment, %")
        axes.legend(frameon=False)
    return figure


def _zero_items(zero: Result) -> list[Any]:
    n = zero.numbers
    rows = tuple((alpha, rank) for alpha, rank in n["ranks"].items())
    return [
        Text(
            "The paper finds zero solutions for alpha above 1. Exactly, zero is optimal from the largest singular value "
            "of any sample on; noise puts that a little above 1."
        ),
        Numbers(
            (
                Number("largest singular value", n["largest"], digits=4),
                Number("codes there", n["codes"]),
                Number("verdict there", n["verdict"]),
            )
        ),
        Table("Rank of the optimum", (Column("alpha"), Column("r~")), rows),
    ]
