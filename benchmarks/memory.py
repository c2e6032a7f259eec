"""Peak memory of the closed form and of the certificate on a million samples, each in a process of its own.

    python benchmarks/memory.py [--samples 1000000] [--folder DIR]

The data, `samples` x 10 x 100 in float32 (4 GB), are read from a memory map or held in memory; the peak
resident size of the process counts the input either way. Dictionaries of 15 + 30 atoms, five codes a sample.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from time import process_time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from common import table, write

SHAPE, ATOMS, CODES, ALPHA = (10, 100), (15, 30), 5, 3.0
BLOCK = 20_000


def make_factors(n_samples):
    from scipy import sparse

    rng = np.random.default_rng(0)
    dictionaries = [rng.standard_normal((d, r)) for d, r in zip(SHAPE, ATOMS, strict=True)]
    dictionaries = [(A / np.linalg.norm(A, axis=0)).astype(np.float32) for A in dictionaries]
    sample = np.repeat(np.arange(n_samples), CODES)
    index = [rng.integers(r, size=sample.size) for r in ATOMS]
    value = rng.uniform(5, 10, size=sample.size).astype(np.float32)
    return dictionaries, sparse.coo_array((value, (sample, *index)), shape=(n_samples, *ATOMS))


def make_data(path, n_samples):
    """X = Z + noise, a block at a time."""
    dictionaries, codes = make_factors(n_samples)
    flat = codes.reshape((n_samples, ATOMS[0] * ATOMS[1])).tocsr()
    X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n_samples, *SHAPE))
    rng = np.random.default_rng(1)
    for start in range(0, n_samples, BLOCK):
        C = flat[start : start + BLOCK].toarray().reshape(-1, *ATOMS)
        Z = dictionaries[0] @ C @ dictionaries[1].T
        X[start : start + BLOCK] = Z + 0.2 * rng.standard_normal(Z.shape, dtype=np.float32)
    X.flush()


def child(task, path, mapped):
    """Runs one task and prints its peak memory, processor seconds and answer."""
    import septum
    from septum.loss import Squared

    X = np.load(path, mmap_mode="r" if mapped else None)
    started = process_time()
    if task == "global_optimum":
        answer = {"value": septum.global_optimum(X, ALPHA).value}
    else:
        dictionaries, codes = make_factors(len(X))
        started = process_time()
        found = septum.certify(X, dictionaries, codes, ALPHA, loss=Squared())
        answer = {"attainment": found.attainment, "verdict": found.verdict}
    seconds = process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"task": task, "mapped": mapped, "peak_bytes": peak, "cpu_seconds": seconds, **answer}))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="where to put the data (default: a temporary folder)")
    parser.add_argument("--child", nargs=3, metavar=("TASK", "PATH", "MAPPED"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        task, path, mapped = options.child
        child(task, path, mapped == "mapped")
        return
    record = []
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "samples.npy"
        make_data(path, options.samples)
        size = path.stat().st_size
        for task in ("global_optimum", "certify"):
            for how in ("mapped", "held"):
                run = subprocess.run(
                    [sys.executable, __file__, "--child", task, str(path), how], capture_output=True, text=True, check=True
                )
                record.append(json.loads(run.stdout))
                print(record[-1], flush=True)
    rows = []
    for run in record:
        how = "memory map" if run["mapped"] else "in memory"
        rows.append([run["task"], how, f"{run['peak_bytes'] / 2**30:.2f}", f"{run['cpu_seconds']:.0f}"])
    text = f"{options.samples} samples of 10 x 100 in float32: {size / 2**30:.2f} GiB of input, included in the peak.\n\n"
    text += table(["task", "input", "peak, GiB", "processor seconds"], rows)
    write("memory", "Peak memory on a million samples", [("Peak resident size", text)], {"runs": record})


if __name__ == "__main__":
    main()
