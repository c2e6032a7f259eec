"""The separable lasso: samples per core-second at an equal true duality gap, against SPAMS and scikit-learn.

    python benchmarks/coding.py [--repeats 5] [--skip-memory]

    incoherent  random unit atoms, samples of 64 x 144, 32 + 48 atoms, at 1%, 5% and 15% nonzero codes
    coherent    tensor-model diffusion profiles x overcomplete cosines, 64 x 125, 64 + 128 atoms, 1%

The samples are sparse combinations of the atoms plus a tenth of noise; alpha is set so that the lasso's codes have the
named share of nonzeros. septum starts from the samples. The peers, SPAMS (`lasso`, LARS on the Gram) and scikit-learn
(its Gram coordinate descent kernel), are handed the explicit joint Gram and all correlations free of charge. Every
solver's gap is recomputed here from the codes it returned. One core is measured in processor time.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from statistics import median
from time import perf_counter, process_time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from common import table, write

from septum import kronecker, sparse_code
from septum.coding import reference

GAP = 1e-6
CASES = {
    # name: (kind, share of nonzeros, samples for septum, samples for the peers, least ratio to SPAMS that is claimed)
    "incoherent 1%": ("incoherent", 0.01, 1000, 500, 2.0),
    "incoherent 5%": ("incoherent", 0.05, 600, 100, 7.0),
    "incoherent 15%": ("incoherent", 0.15, 200, 25, None),
    "coherent 1%": ("coherent", 0.01, 60, 20, 7.0),
}


def unit(A):
    return A / np.linalg.norm(A, axis=0)


def incoherent(rng, sizes=(64, 144), ranks=(32, 48)):
    """Random atoms of unit norm."""
    return [unit(rng.standard_normal((d, r))) for d, r in zip(sizes, ranks, strict=True)]


def coherent(rng, directions=64, side=5, ranks=(64, 128)):
    """Diffusion profiles exp(-b g^T D g), b = 1, of axial tensors (1.7, 0.3, 0.3), and products of cosines."""
    g, axes = unit(rng.standard_normal((3, directions))), unit(rng.standard_normal((3, ranks[0])))
    profiles = np.exp(-(0.3 + 1.4 * (g.T @ axes) ** 2))
    count = side + 1
    waves = np.cos(np.pi * np.outer(np.arange(side) + 0.5, np.arange(count)) / count)
    order = np.argsort(np.indices((count,) * 3).sum(axis=0).ravel(), kind="stable")[: ranks[1]]
    return [unit(profiles), unit(np.kron(np.kron(waves, waves), waves)[:, order])]


def samples(rng, dictionaries, share, count):
    """Sparse combinations plus noise of a tenth of their root mean square."""
    ranks = kronecker.sizes(dictionaries)
    codes = np.zeros((count, int(np.prod(ranks))))
    for row in codes:
        chosen = rng.choice(row.size, max(1, int(share * row.size)), replace=False)
        row[chosen] = rng.standard_normal(chosen.size)
    X = kronecker.multiply(codes.reshape(count, *ranks), dictionaries)
    return X + 0.1 * np.sqrt((X**2).mean()) * rng.standard_normal(X.shape)


def alpha_for(X, dictionaries, share):
    """The alpha at which the lasso's codes have this share of nonzeros, by bisection."""
    top = np.median(np.abs(kronecker.correlate(X, dictionaries)).reshape(len(X), -1).max(axis=1))
    low, high = 1e-4 * top, top
    for _ in range(14):
        middle = np.sqrt(low * high)
        codes = sparse_code(X, dictionaries, middle, tol=1e-5).codes
        low, high = (middle, high) if codes.nnz > share * np.prod(codes.shape) else (low, middle)
    return float(middle)


def relative_gap(X, dictionaries, codes, alpha):
    """The largest true gap over 1/2 ||x||^2."""
    gap = reference.gap(X, dictionaries, codes, alpha)
    return float((gap / (0.5 * (X**2).reshape(len(X), -1).sum(axis=1))).max())


def timed(run, repeats):
    """The median processor time of `repeats` runs, and the last result."""
    seconds = []
    for _ in range(repeats):
        start = process_time()
        result = run()
        seconds.append(process_time() - start)
    return median(seconds), result


def measure_septum(X, dictionaries, alpha, repeats):
    sparse_code(X[:2], dictionaries, alpha, tol=GAP)
    seconds, result = timed(lambda: sparse_code(X, dictionaries, alpha, tol=GAP), repeats)
    codes = result.codes.toarray()
    return {
        "rate": len(X) / seconds,
        "gap": relative_gap(X, dictionaries, codes, alpha),
        "nonzero": float((codes != 0).mean()),
    }


def joint_gram(dictionaries):
    first, second = kronecker.gram(dictionaries)
    return np.kron(first, second)


def measure_spams(X, dictionaries, alpha, gram, repeats):
    import spams

    q = np.asfortranarray(kronecker.correlate(X, dictionaries).reshape(len(X), -1).T)
    data = np.asfortranarray(X.reshape(len(X), -1).T)
    seconds, found = timed(
        lambda: spams.lasso(data, Q=gram.T, q=q, lambda1=alpha, mode=2, numThreads=1), repeats
    )
    codes = np.asarray(found.todense()).T.reshape(len(X), *kronecker.sizes(dictionaries))
    return {"rate": len(X) / seconds, "gap": relative_gap(X, dictionaries, codes, alpha)}


def measure_scikit_learn(X, dictionaries, alpha, gram, repeats):
    from sklearn.linear_model._cd_fast import enet_coordinate_descent_gram

    q = kronecker.correlate(X, dictionaries).reshape(len(X), -1)
    flat, rng = X.reshape(len(X), -1), np.random.RandomState(0)

    def run():
        codes = np.zeros_like(q)
        for t in range(len(X)):
            enet_coordinate_descent_gram(
                codes[t], alpha, 0.0, gram, q[t], flat[t], 20_000, 0.5 * GAP, rng, False, False
            )
        return codes

    seconds, codes = timed(run, repeats)
    codes = codes.reshape(len(X), *kronecker.sizes(dictionaries))
    return {"rate": len(X) / seconds, "gap": relative_gap(X, dictionaries, codes, alpha)}


def run_case(name, repeats):
    kind, share, count, few, claim = CASES[name]
    rng = np.random.default_rng(0)
    dictionaries = {"incoherent": incoherent, "coherent": coherent}[kind](rng)
    X = samples(rng, dictionaries, share, count)
    alpha = alpha_for(X[:20], dictionaries, share)
    gram = joint_gram(dictionaries)
    record = {
        "alpha": alpha,
        "claimed ratio": claim,
        "septum": measure_septum(X, dictionaries, alpha, repeats),
    }
    record["SPAMS"] = measure_spams(X[:few], dictionaries, alpha, gram, repeats)
    record["scikit-learn"] = measure_scikit_learn(X[:few], dictionaries, alpha, gram, min(repeats, 3))
    for peer in ("SPAMS", "scikit-learn"):
        record[f"ratio to {peer}"] = record["septum"]["rate"] / record[peer]["rate"]
    return record


def two_threads(repeats):
    """Wall-clock speed-up of two threads over one, alternating, with the machine's load beside it."""
    rng = np.random.default_rng(0)
    dictionaries = incoherent(rng)
    X = samples(rng, dictionaries, 0.05, 6000)
    alpha = alpha_for(X[:20], dictionaries, 0.05)
    ratios = []
    for _ in range(repeats):
        seconds = []
        for jobs in (1, 2):
            start = perf_counter()
            sparse_code(X, dictionaries, alpha, tol=GAP, n_jobs=jobs)
            seconds.append(perf_counter() - start)
        ratios.append(seconds[0] / seconds[1])
    return {"speed-up": median(ratios), "best": max(ratios), "load average": os.getloadavg()[0]}


def peak_memory():
    """Peak resident size less the input's: 50,000 float32 samples of 64 x 144 with 100 + 200 atoms."""
    rng = np.random.default_rng(0)
    dictionaries = [A.astype(np.float32) for A in incoherent(rng, ranks=(100, 200))]
    X = np.empty((50_000, 64, 144), dtype=np.float32)
    for start in range(0, len(X), 200):
        X[start : start + 200] = samples(rng, dictionaries, 0.001, 200)
    alpha = alpha_for(X[:20], dictionaries, 0.005)
    start = process_time()
    result = sparse_code(X, dictionaries, alpha, n_jobs=2)
    return {
        "input GiB": X.nbytes / 2**30,
        "peak above input GiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20 - X.nbytes / 2**30,
        "nonzero": result.codes.nnz / float(np.prod(result.codes.shape)),
        "processor seconds": process_time() - start,
        "converged": float(result.converged.mean()),
    }


FIRST_CALL = """
from time import process_time as now
a = now(); import numpy as np, scipy.sparse, sklearn; b = now(); import septum; c = now(); septum.sparse_code; d = now()
X, A, B = np.ones((3, 4, 5)), np.eye(4), np.eye(5)
septum.sparse_code(X, [A, B], 0.5); e = now()
print(c - b, d - c, e - d)
"""


def first_call():
    """Processor seconds of the import and the first call in a new process: nothing compiled, then all on disk."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        runs = [
            subprocess.run(
                [sys.executable, "-c", FIRST_CALL],
                env=environment,
                capture_output=True,
                text=True,
                check=True,
            ).stdout.split()
            for _ in range(2)
        ]
    names = ("import septum", "load septum.sparse_code", "first call")
    return {
        state: dict(zip(names, map(float, run), strict=True))
        for state, run in zip(("cold cache", "warm cache"), runs, strict=True)
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--skip-memory", action="store_true")
    parser.add_argument("--only-memory", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only_memory:
        print(json.dumps(peak_memory()))
        return
    cases = {name: run_case(name, options.repeats) for name in CASES}
    record = {"cases": cases, "first call": first_call(), "two threads": two_threads(options.repeats)}
    rows = [
        [name, f"{case['septum']['nonzero']:.1%}"]
        + [f"{case[who]['rate']:.0f} ({case[who]['gap']:.0e})" for who in ("septum", "SPAMS", "scikit-learn")]
        + [
            f"{case['ratio to SPAMS']:.1f}",
            case["claimed ratio"] or "-",
            f"{case['ratio to scikit-learn']:.1f}",
        ]
        for name, case in cases.items()
    ]
    header = ["case", "nonzero", "septum", "SPAMS", "scikit-learn", "to SPAMS", "claimed", "to scikit-learn"]
    note = "Samples per core-second, with the largest true gap over 1/2 ||x||^2 in brackets, and septum's ratios."
    threads, calls = record["two threads"], record["first call"]
    sections = [
        ("Against SPAMS and scikit-learn, gap at most 1e-6", f"{note}\n\n{table(header, rows)}"),
        (
            "Two threads",
            f"Wall clock of one over two: median {threads['speed-up']:.2f}, best {threads['best']:.2f}, "
            f"at a load average of {threads['load average']:.1f}.",
        ),
        (
            "First call, processor seconds",
            table(
                ["cache", *calls["cold cache"]],
                [[state, *(f"{value:.2f}" for value in run.values())] for state, run in calls.items()],
            ),
        ),
    ]
    if not options.skip_memory:
        child = subprocess.run(
            [sys.executable, __file__, "--only-memory"], capture_output=True, text=True, check=True
        )
        record["memory"] = memory = json.loads(child.stdout)
        sections.append(
            (
                "Memory",
                f"50,000 float32 samples of 64 x 144 ({memory['input GiB']:.2f} GiB) with 100 + 200 atoms, "
                f"{memory['nonzero']:.1%} nonzero: a peak of {memory['peak above input GiB']:.2f} GiB above the input, "
                f"{memory['processor seconds']:.0f} processor seconds, {memory['converged']:.0%} converged.",
            )
        )
    write("coding", "The separable lasso", sections, record)


if __name__ == "__main__":
    main()
