"""The paper's algorithm on the synthetic set: objective minus optimum, atoms, seconds; growth with exact tests beside
growth as the paper prints it; peak memory of a fit.

    python benchmarks/palm.py [--max-time 600] [--alphas 0.95 0.9 0.85] [--seeds 3]

Every number but the times and the count of rises is computed afterwards from the returned arrays by the
certificate. The rules of growth are compared with `min_gain` 0 until 98% or `--max-time`; "stalled after" is the time
of the last outer step that raised attainment by more than 1e-6.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
from time import perf_counter, process_time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from common import table, write

from septum.certificate import certify_factors
from septum.datasets import make_separable
from septum.learning import Settings
from septum.learning.palm import PalmOptions, learn
from septum.problem import Problem

RULES = {"exact": "exact test", "printed_true_cost": "printed test, true cost", "printed": "as printed"}
FOREVER = 10**9


def settings(X, max_time, min_gain, init="spectral"):
    return Settings(
        caps=tuple(4 * d for d in X.shape[1:]), is_capped=False, tol=0.02, min_gain=min_gain, max_iter=FOREVER,
        max_time=max_time, init=init, start=None, rng=np.random.default_rng(0), n_jobs=1, verbose=0, callback=None,
    )  # fmt: skip


def rises(history):
    """Growth steps after which f was higher than before."""
    starts = np.array([inner[0] for inner in history["inner_objective"][1:]])
    before = history["objective"][:-1]
    return int(np.sum(starts > before * (1 + 1e-12)))


def last_progress(history):
    """Seconds at the last outer step that raised attainment by more than 1e-6."""
    better = np.flatnonzero(np.diff(history["attainment"], prepend=-np.inf) > 1e-6)
    return float(history["seconds"][better[-1]])


def measure(alpha, seed, options, max_time, min_gain, init="spectral"):
    X = make_separable(random_state=seed).X
    problem = Problem.of(X, alpha)
    wall, cpu = perf_counter(), process_time()
    result = learn(problem, settings(X, max_time, min_gain, init), options)
    wall, cpu = perf_counter() - wall, process_time() - cpu
    certificate = certify_factors(problem, result.factors)
    return {
        "alpha": alpha,
        "seed": seed,
        "growth": options.growth,
        "init": init,
        "atoms": list(result.factors.sizes),
        "attainment": certificate.attainment,
        "objective_minus_optimum": certificate.gap,
        "polar": certificate.polar.upper,
        "stationarity": certificate.stationarity,
        "seconds": wall,
        "cpu_seconds": cpu,
        "outer_steps": result.n_iter,
        "inner_iterations": int(sum(len(inner) - 2 for inner in result.history["inner_objective"])),
        "rises": rises(result.history),
        "stalled_after": last_progress(result.history),
        "stopped_because": result.stopped_because,
    }


def defaults(options):
    runs = []
    for alpha in options.alphas:
        for init in ("spectral", "random"):
            for seed in range(options.seeds):
                runs.append(measure(alpha, seed, PalmOptions(), options.max_time, 1e-4, init))
                print(runs[-1], flush=True)
    rows = [
        [r["alpha"], r["init"], r["seed"], " + ".join(map(str, r["atoms"])), f"{100 * r['attainment']:.2f}%",
         f"{r['objective_minus_optimum']:.4f}", f"{r['polar']:.3f}", f"{r['cpu_seconds']:.1f}", f"{r['seconds']:.1f}",
         r["outer_steps"], r["inner_iterations"], r["stopped_because"]]
        for r in runs
    ]  # fmt: skip
    header = ["alpha", "start", "seed", "atoms", "attainment", "f - f*", "polar", "CPU s", "s", "outer", "inner"]
    header.append("stopped because")
    return runs, table(header, rows)


def growth(options):
    runs = []
    for alpha in options.alphas:
        for rule in RULES:
            runs.append(measure(alpha, 0, PalmOptions(growth=rule, patience=FOREVER), options.max_time, 0.0))
            print(runs[-1], flush=True)
    rows = [
        [r["alpha"], RULES[r["growth"]], f"{100 * r['attainment']:.2f}%", " + ".join(map(str, r["atoms"])),
         f"{r['objective_minus_optimum']:.4f}", f"{r['rises']} of {r['outer_steps'] - 1}", f"{r['cpu_seconds']:.1f}",
         f"{r['seconds']:.1f}", f"{r['stalled_after']:.1f}", r["stopped_because"]]
        for r in runs
    ]  # fmt: skip
    header = ["alpha", "growth", "attainment", "atoms", "f - f*", "steps that raised f", "CPU s", "s"]
    header += ["last progress s", "stopped because"]
    return runs, table(header, rows)


def big_samples():
    """100 samples of 64 x 144: about ten products of 40 x 80 atoms each, and noise at whose edge alpha is."""
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((64, 40)) / 8, rng.standard_normal((144, 80)) / 12
    codes = rng.standard_normal((100, 40, 80)) * (rng.random((100, 40, 80)) < 10 / 3200)
    return A @ (60.0 * codes) @ B.T + rng.standard_normal((100, 64, 144)), 8.0 + 12.0 + 0.5


def child(task, max_time):
    """One fit by the estimator; its peak memory, seconds and answer."""
    import septum

    X, alpha = (make_separable(random_state=0).X, 0.75) if task == "1200 x 10 x 100" else big_samples()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    started = perf_counter()
    est = septum.SeparableDictionaryLearning(alpha, solver="palm", max_time=max_time, min_gain=0.0, tol=0.001).fit(X)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    atoms = [A.shape[1] for A in est.dictionaries_]
    answer = {"task": task, "alpha": alpha, "atoms": atoms, "attainment": est.certificate_.attainment}
    print(json.dumps({**answer, "seconds": perf_counter() - started, "before_bytes": before, "peak_bytes": peak}))


def memory(options):
    runs = []
    for task in ("1200 x 10 x 100", "100 x 64 x 144"):
        call = [sys.executable, __file__, "--child", task, "--max-time", str(options.max_time)]
        runs.append(json.loads(subprocess.run(call, capture_output=True, text=True, check=True).stdout))
        print(runs[-1], flush=True)
    rows = [
        [r["task"], f"{r['alpha']:g}", " + ".join(map(str, r["atoms"])), f"{100 * r['attainment']:.1f}%",
         f"{r['seconds']:.0f}", f"{r['peak_bytes'] / 2**30:.2f}"]
        for r in runs
    ]  # fmt: skip
    return runs, table(["samples", "alpha", "atoms", "attainment", "s", "peak resident size, GiB"], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--max-time", type=float, default=600.0, help="seconds for each run")
    parser.add_argument("--alphas", type=float, nargs="+", default=[0.95, 0.9, 0.85])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, options.max_time)
        return
    plain, plain_table = defaults(options)
    rules, rules_table = growth(options)
    peaks, peaks_table = memory(options)
    sections = [
        ("As the estimator runs it", plain_table),
        ("Three rules of growth", rules_table),
        ("Peak memory of a fit", peaks_table),
    ]
    write("palm", "The paper's algorithm", sections, {"runs": plain, "growth": rules, "memory": peaks})


if __name__ == "__main__":
    main()
