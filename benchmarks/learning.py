"""Learning: atoms and seconds to attainment 98% on the synthetic set, against the paper's algorithm; the Pareto
front; real patches; and how the cost grows with the number of samples, their size, and the atoms.

    python benchmarks/learning.py synthetic [--seeds 5]
    python benchmarks/learning.py against-palm [--max-time 600]
    python benchmarks/learning.py real --volume dwi.nii.gz [--slices 36:45] [--n-dwi 64]
    python benchmarks/learning.py scaling
    python benchmarks/learning.py front
"""

import argparse
import os
from statistics import median
from time import perf_counter

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from common import RESULTS, table, write

import septum
from septum.datasets import make_separable

ALPHAS = (0.95, 0.90, 0.85, 0.75)


def fit(X, alpha, **params):
    """A fitted estimator and its wall-clock seconds."""
    started = perf_counter()
    est = septum.SeparableDictionaryLearning(alpha, random_state=0, **params).fit(X)
    return est, perf_counter() - started


def warm_up():
    """Compiled code is loaded before anything is timed."""
    fit(make_separable(60, random_state=99).X, 0.8)


def n_atoms(est):
    return [A.shape[1] for A in est.dictionaries_]


def synthetic(options):
    rows, record = [], []
    for alpha in ALPHAS:
        runs = []
        for seed in range(options.seeds):
            est, seconds = fit(make_separable(random_state=seed).X, alpha)
            runs.append(
                {"seed": seed, "atoms": n_atoms(est), "attainment": est.certificate_.attainment, "seconds": seconds}
            )
        total = median(sum(run["atoms"]) for run in runs)
        seconds = median(run["seconds"] for run in runs)
        lowest = min(run["attainment"] for run in runs)
        record.append({"alpha": alpha, "runs": runs})
        rows.append(
            [alpha, total, f"{seconds:.2f}", f"{100 * lowest:.2f}%",
             " ".join("+".join(map(str, run["atoms"])) for run in runs)]
        )  # fmt: skip
    header = ["alpha", "atoms r1 + r2", "seconds", "lowest attainment", "each seed"]
    text = f"`make_separable` seeds 0-{options.seeds - 1}, medians, one thread, default parameters.\n\n"
    write("learning-synthetic", "Learning the synthetic set to attainment 98%", [("Result", text + table(header, rows))],
          {"synthetic": record})  # fmt: skip


def against_palm(options):
    rows, record, traces = [], [], {}
    X = make_separable(random_state=0).X
    for goal in (0.95, 0.98):
        for alpha in ALPHAS:
            fast, fast_seconds = fit(X, alpha, tol=1 - goal)
            palm, palm_seconds = fit(
                X, alpha, tol=1 - goal, min_gain=0.0, solver="palm", init="random", max_time=options.max_time
            )
            reached = palm.certificate_.attainment
            record.append(
                {"goal": goal, "alpha": alpha, "fast_seconds": fast_seconds, "palm_seconds": palm_seconds,
                 "palm_attainment": reached, "palm_capped": palm_seconds >= options.max_time,
                 "fast_atoms": n_atoms(fast), "palm_atoms": n_atoms(palm)}
            )  # fmt: skip
            ratio = f"{'more than ' if reached < goal else ''}{palm_seconds / fast_seconds:.0f}"
            rows.append(
                [f"{100 * goal:.0f}%", alpha, f"{fast_seconds:.2f}", "+".join(map(str, n_atoms(fast))),
                 f"{palm_seconds:.1f}", "+".join(map(str, n_atoms(palm))), f"{100 * reached:.1f}%", ratio]
            )  # fmt: skip
            traces[alpha] = {"fast": fast.history_, "palm": palm.history_}
    figure_of_times(traces)
    header = ["goal", "alpha", "fast, s", "atoms", "palm, s", "atoms", "palm's attainment", "speed-up"]
    text = (
        "Seconds to an attainment, seed 0, one thread; palm (the paper's algorithm, its growth corrected) from random "
        f"atoms, capped at {options.max_time:g} s.\n\n"
    )
    write("learning-against-palm", "The default solver against the paper's algorithm",
          [("Result", text + table(header, rows))], {"against_palm": record})  # fmt: skip


def figure_of_times(traces):
    """What is still missing of the largest possible decrease, against seconds, one panel for each alpha."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 2.8), layout="constrained")
    axes = figure.subplots(1, len(traces), sharex=True, sharey=True)
    for panel, (alpha, pair) in zip(axes, traces.items(), strict=True):
        for name, history in pair.items():
            panel.loglog(history["seconds"], 100 * (1 - history["attainment"]), ".-", label=name)
        panel.axhline(2, color="0.7", lw=0.8, zorder=0)
        panel.set(title=f"alpha {alpha}", xlabel="seconds")
    axes[0].set_ylabel("attainment still missing, %")
    axes[-1].legend(frameon=False)
    figure.savefig(RESULTS / "learning-attainment-against-time.png", dpi=130)


def real_patches(volume, slices, n_dwi):
    """100 patches of 12 x 12 voxels without zeros, both means removed, sigma once, alpha at the noise edge."""
    import nibabel

    start, stop = map(int, slices.split(":"))
    data = np.asarray(nibabel.load(volume).dataobj[:, :, start:stop, :n_dwi], dtype=np.float64)
    rng = np.random.default_rng(0)
    patches = []
    while len(patches) < 100:
        corner = [rng.integers(0, size - 11) for size in data.shape[:2]] + [rng.integers(0, data.shape[2])]
        patch = data[corner[0] : corner[0] + 12, corner[1] : corner[1] + 12, corner[2]]
        if (patch > 0).all():
            patches.append(patch.reshape(144, n_dwi).T)
    X = np.array(patches)
    X -= X.mean(axis=2, keepdims=True)
    X -= X.mean(axis=1, keepdims=True)
    G, V = n_dwi - 1, 143
    noise = np.linalg.svd(np.random.default_rng(1).standard_normal((50, G, V)), compute_uv=False)
    sigma = float(np.median(np.linalg.svd(X, compute_uv=False)[:, :G]) / np.median(noise))
    mu = np.sqrt(G - 0.5) + np.sqrt(V - 0.5)
    tau = mu * (1 / np.sqrt(G - 0.5) + 1 / np.sqrt(V - 0.5)) ** (1 / 3)
    return X, sigma, sigma * float(np.sqrt(mu**2 + 0.98 * tau))


def real(options):
    X, sigma, alpha = real_patches(options.volume, options.slices, options.n_dwi)
    rank = septum.global_optimum(X, alpha).rank
    rows, record = [], []
    for caps in ((24, 60), (32, 120), (36, 184), (40, 180), (48, 172), (64, 300), (80, 284), (128, 300)):
        for n_jobs in (2,):
            est, seconds = fit(X, alpha, n_atoms=caps, max_time=30, n_jobs=n_jobs)
            value = est.certificate_.attainment
            record.append({"caps": caps, "atoms": n_atoms(est), "attainment": value, "seconds": seconds})
            rows.append([f"{caps[0]} + {caps[1]}", sum(n_atoms(est)), f"{100 * value:.1f}%", f"{seconds:.1f}"])
    text = (
        f"100 patches 64 x 144, centred; sigma {sigma:.3f}, alpha {alpha:.2f} (the edge that 5% of noise patches pass), "
        f"r~ = {rank}; two threads, at most 30 s each.\n\n"
    )
    write("learning-real", "Learning real diffusion MRI patches",
          [("Result", text + table(["caps", "atoms", "attainment", "seconds"], rows))],
          {"real": record, "sigma": sigma, "alpha": alpha, "rank": rank})  # fmt: skip


def scaling(options):
    sections, record = [], {}
    cases = {
        "samples T": [(T, {"n_samples": T}, 0.85, (9, 22)) for T in (600, 1200, 2400, 4800, 9600)],
    }
    for name, runs in cases.items():
        values = []
        for size, made, alpha, caps in runs:
            X = make_separable(random_state=0, **made).X
            times = [fit(X, alpha, n_atoms=caps)[1] for _ in range(3)]
            values.append((size, median(times)))
        sections.append(_growth_of_cost(name, values))
        record[name] = values
    rng = np.random.default_rng(0)
    values = []
    for d in (50, 100, 200, 400):
        values.append((d, median(fit(planted(rng, 300, 10, d, 3, 8), 1.0, n_atoms=(3, 8))[1] for _ in range(3))))
    sections.append(_growth_of_cost("length d_2 of the second mode", values))
    record["length"] = values
    values = []
    for r in (10, 20, 40, 80):
        values.append((r, median(fit(planted(rng, 400, 20, 120, 5, r), 1.0, n_atoms=(5, r))[1] for _ in range(3))))
    sections.append(_growth_of_cost("atoms r_2 of the second mode", values))
    record["atoms"] = values
    write("learning-scaling", "How the cost of learning grows", sections, {"scaling": record})


def planted(rng, n_samples, d1, d2, r1, r2):
    """Samples of three planted joint atoms each, with a little noise."""
    atoms = [rng.standard_normal((d, r)) for d, r in ((d1, r1), (d2, r2))]
    atoms = [A / np.linalg.norm(A, axis=0) for A in atoms]
    codes = np.zeros((n_samples, r1, r2))
    for t in range(n_samples):
        codes[t, rng.integers(0, r1, 3), rng.integers(0, r2, 3)] = rng.uniform(2.0, 4.0, 3)
    return atoms[0] @ codes @ atoms[1].T + 0.02 * rng.standard_normal((n_samples, d1, d2))


def _growth_of_cost(name, values):
    sizes, seconds = np.array(values).T
    exponent = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
    rows = [[int(size), f"{second:.2f}"] for size, second in values]
    return name, f"Seconds grow as the size to the power {exponent:.2f}.\n\n" + table([name, "seconds"], rows)


def front(options):
    sections, record = [], {}
    for alpha in (0.9, 0.75):
        started = perf_counter()
        found = septum.front(make_separable(random_state=0).X, alpha, random_state=0)
        seconds = perf_counter() - started
        record[str(alpha)] = found.to_dict()
        rows = [
            ["+".join(map(str, point.atoms)), point.total, f"{100 * point.attainment:.2f}%"] for point in found
        ]
        text = f"{seconds:.1f} s for the whole front.\n\n" + table(["atoms", "total", "attainment"], rows)
        sections.append((f"alpha {alpha}", text))
        found.plot().savefig(RESULTS / f"learning-front-{alpha}.png", dpi=130)
    write("learning-front", "Attainment against the number of atoms", sections, {"front": record})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["synthetic", "against-palm", "real", "scaling", "front"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--max-time", type=float, default=600.0)
    parser.add_argument("--volume")
    parser.add_argument("--slices", default="36:45")
    parser.add_argument("--n-dwi", type=int, default=64)
    options = parser.parse_args()
    warm_up()
    {"synthetic": synthetic, "against-palm": against_palm, "real": real, "scaling": scaling, "front": front}[
        options.what
    ](options)
    name = options.what
    print((RESULTS / f"learning-{name}.md").read_text())


if __name__ == "__main__":
    main()
