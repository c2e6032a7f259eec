"""Singular values, thresholding and the three gradients, each against NumPy in the same run; and the closed form
on a million small samples and on a big one.

    python benchmarks/spectral.py [--repeats 9]

Everything on one thread. Ratios are seconds of the peer over seconds of septum, medians of interleaved runs.
"""

import argparse
import os
from statistics import median
from time import perf_counter

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from common import table, write

from septum import global_optimum
from septum.learning.gradient import Point, Residual, against_codes, along_all, samples_second
from septum.loss import Squared
from septum.spectral import largest_singular_values, max_singular_value, shrink_singular_values

SHAPES = ((1200, 10, 100), (100, 64, 144), (100, 127, 144), (2, 100, 10000))


def seconds(repeats, *calls):
    """Median seconds of each call, taken in turns so that they share the machine's moods."""
    taken = [[] for _ in calls]
    for _ in range(repeats):
        for call, found in zip(calls, taken, strict=True):
            started = perf_counter()
            call()
            found.append(perf_counter() - started)
    return [median(found) for found in taken]


def singular_values(X):
    return np.linalg.svd(X, compute_uv=False)


def thresholded(X, alpha):
    left, sigma, right = np.linalg.svd(X, full_matrices=False)
    return (left * np.maximum(sigma - alpha, 0)[:, None, :]) @ right


def k2(repeats):
    """Largest singular values: of every sample, their maximum on pure noise, and when one sample dominates."""
    rows, record = [], []
    for shape in SHAPES:
        for dtype in (np.float64, np.float32):
            X = np.random.default_rng(0).standard_normal(shape).astype(dtype)
            dominated = X.copy()
            dominated[-1] *= 3
            peer, each, noise, one = seconds(
                repeats,
                lambda X=X: singular_values(X),
                lambda X=X: largest_singular_values(X),
                lambda X=X: max_singular_value(X),
                lambda X=dominated: max_singular_value(X),
            )
            exact = singular_values(X.astype(np.float64))[:, 0]
            error = float(np.abs(largest_singular_values(X) / exact - 1).max())
            name = "x".join(map(str, shape))
            record.append(
                {"shape": shape, "dtype": np.dtype(dtype).name, "numpy_seconds": peer, "each": peer / each,
                 "maximum_noise": peer / noise, "maximum_dominated": peer / one, "relative_error": error}
            )  # fmt: skip
            rows.append(
                [name, np.dtype(dtype).name, f"{1e3 * peer:.1f}", f"{peer / each:.2f}", f"{peer / noise:.2f}",
                 f"{peer / one:.2f}", f"{error:.1e}"]
            )  # fmt: skip
    header = ["samples", "type", "NumPy svd, ms", "every sample", "maximum, noise", "maximum, one dominates", "error"]
    return table(header, rows), record


def k3(repeats):
    """Thresholding at the edge of pure noise, on noise with ten components a sample (three on small samples)."""
    rows, record = [], []
    for shape in SHAPES:
        rng = np.random.default_rng(1)
        T, m, n = shape
        rank = 3 if m <= 10 else 10
        weak = 3.0 * np.sqrt(np.sqrt(m * n) / rank)
        X = rng.standard_normal(shape)
        X += weak * rng.standard_normal((T, m, rank)) @ rng.standard_normal((T, rank, n)) / np.sqrt(np.sqrt(m * n))
        alpha = np.sqrt(m) + np.sqrt(n)
        for dtype in (np.float64, np.float32):
            data = X.astype(dtype)
            peer, own = seconds(
                repeats,
                lambda X=data, alpha=alpha: thresholded(X, alpha),
                lambda X=data, alpha=alpha: shrink_singular_values(X, alpha),
            )
            shrunk, values = shrink_singular_values(data, alpha)
            expected = thresholded(data.astype(np.float64), alpha)
            error = float(np.linalg.norm(shrunk - expected) / np.linalg.norm(expected))
            kept = float((values > 0).sum(axis=1).mean())
            record.append(
                {"shape": shape, "dtype": np.dtype(dtype).name, "numpy_seconds": peer, "ratio": peer / own,
                 "mean_rank_kept": kept, "relative_error": error}
            )  # fmt: skip
            rows.append(
                ["x".join(map(str, shape)), np.dtype(dtype).name, f"{kept:.1f}", f"{1e3 * peer:.1f}",
                 f"{peer / own:.2f}", f"{error:.1e}"]
            )  # fmt: skip
    header = ["samples", "type", "values above alpha", "NumPy svd, ms", "thresholding", "error"]
    return table(header, rows), record


def k4(repeats):
    """The three gradients of section 5.1 at one point, against einsum along its best path."""
    rows, record = [], []
    for (T, G, V), (r1, r2) in (((1200, 10, 100), (75, 98)), ((100, 64, 144), (64, 128))):
        rng = np.random.default_rng(2)
        X, C = rng.standard_normal((T, G, V)), rng.standard_normal((T, r1, r2))
        A, B = rng.standard_normal((G, r1)), rng.standard_normal((V, r2))
        point, data = Point([A, B], samples_second(C)), samples_second(X)

        def products(point=point, data=data):
            R = -Residual(data, None, Squared()).residual(point)
            in_codes = along_all(R, [D.T for D in point.dictionaries], range(2))
            return against_codes(R, point, 0), against_codes(R, point, 1), in_codes

        def einsum(X=X, A=A, B=B, C=C):
            R = np.einsum("gi,tij,vj->tgv", A, C, B, optimize="optimal") - X
            return (
                np.einsum("tgv,tij,vj->gi", R, C, B, optimize="optimal"),
                np.einsum("tgv,tij,gi->vj", R, C, A, optimize="optimal"),
                np.einsum("tgv,gi,vj->tij", R, A, B, optimize="optimal"),
            )

        got, expected = products(), einsum()
        error = max(
            float(np.linalg.norm(g - e) / np.linalg.norm(e))
            for g, e in zip((*got[:2], got[2].swapaxes(0, 1)), expected, strict=True)
        )
        peer, own = seconds(repeats, einsum, products)
        record.append({"shape": (T, G, V), "atoms": (r1, r2), "einsum_seconds": peer, "ratio": peer / own, "error": error})
        rows.append([f"{T}x{G}x{V}", f"{r1} + {r2}", f"{1e3 * peer:.0f}", f"{peer / own:.2f}", f"{error:.1e}"])
    return table(["samples", "atoms", "einsum, ms", "products", "error"], rows), record


def closed_form():
    """f* and r~ of many small samples and of one big one, seconds."""
    rows, record = [], []
    for shape, alpha in (((100_000, 10, 100), 12.0), ((1, 100, 10_000), 100.0), ((1, 10_000, 100), 100.0)):
        X = np.random.default_rng(3).standard_normal(shape, dtype=np.float32)
        started = perf_counter()
        optimum = global_optimum(X, alpha)
        taken = perf_counter() - started
        record.append({"shape": shape, "alpha": alpha, "seconds": taken, "rank": optimum.rank})
        rows.append(["x".join(map(str, shape)), alpha, optimum.rank, f"{taken:.2f}"])
    return table(["samples, float32", "alpha", "r~", "seconds"], rows), record


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9)
    repeats = parser.parse_args().repeats
    sections, record = [], {}
    for name, title, (text, found) in (
        ("largest", "Largest singular values (times as fast as NumPy's batched decomposition)", k2(repeats)),
        ("threshold", "Singular value thresholding (times as fast as NumPy's batched decomposition)", k3(repeats)),
        ("gradients", "The three gradients (times as fast as optimised einsum)", k4(repeats)),
        ("closed_form", "The closed form", closed_form()),
    ):
        sections.append((title, text))
        record[name] = found
    write("spectral", "Spectral kernels", sections, record)
    print("\n\n".join(f"{title}\n{text}" for title, text in sections))


if __name__ == "__main__":
    main()
