"""The baselines' claims: training times on one core, batch OMP against scikit-learn's, what K-SVD recovers, the
ridgelets' frame bounds, one slice with total variation, and what separability costs.

    python benchmarks/baselines.py [--volume dwi.nii.gz] [--repeats 5]

Without --volume the patches are simulated: fibre-like signals on shapes, with noise. The last two slices are held out.
"""

import argparse
import os
from statistics import median
from time import perf_counter

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from common import table, write
from sklearn.linear_model import orthogonal_mp_gram

from septum.baselines import KDRSDL, KSVD, catalogue, total_variation_code
from septum.baselines.catalogue import angular_signals, spatial_signals
from septum.baselines.ksvd import pursue
from septum.dictionaries import curvelet, ridgelet_frame_bounds, spherical_ridgelets

G, P, T = 64, 12, 100


def directions():
    u = np.random.default_rng(0).standard_normal((G, 3))
    return u / np.linalg.norm(u, axis=1, keepdims=True)


def simulated_slices(count=6, size=60, noise=0.05):
    """Slices (count, G, size, size), each with shapes and fibres of its own."""
    return np.stack([simulated_slice(seed, size, noise) for seed in range(count)])


def simulated_slice(seed, size, noise):
    rng, u = np.random.default_rng(seed), directions()
    y, x = np.mgrid[:size, :size] - size / 2
    image = np.zeros((G, size, size))
    for _ in range(8):
        fibre = rng.standard_normal(3)
        signal = np.exp(-3 * (u @ fibre) ** 2 / (fibre @ fibre))
        angle, offset, width = rng.uniform(0, np.pi), rng.uniform(-15, 15), rng.uniform(3, 8)
        image += signal[:, None, None] * (np.abs(y * np.cos(angle) + x * np.sin(angle) - offset) < width)
    return image + noise * rng.standard_normal(image.shape)


def real_image(path):
    import nibabel

    image = nibabel.load(path)
    data = np.asarray(image.dataobj[:, :, 36:45, :G], dtype=np.float64)
    return np.moveaxis(data, (2, 3), (0, 1)) / data.max()


def patches(slices, count, seed):
    """Random patches (count, G, P*P) that hold signal, both means removed."""
    rng = np.random.default_rng(seed)
    out = []
    while len(out) < count:
        z = rng.integers(len(slices))
        i, j = (rng.integers(0, length - P + 1) for length in slices.shape[2:])
        patch = slices[z, :, i : i + P, j : j + P].reshape(G, -1)
        if np.count_nonzero(patch) > 0.9 * patch.size:
            patch = patch - patch.mean(axis=1, keepdims=True)
            out.append(patch - patch.mean(axis=0, keepdims=True))
    return np.array(out)


def seconds(run, repeats):
    """The median wall-clock time, after one call that loads compiled code."""
    run()
    times = []
    for _ in range(repeats):
        started = perf_counter()
        run()
        times.append(perf_counter() - started)
    return median(times)


def training(X, repeats):
    angular, spatial = angular_signals(X), spatial_signals(X)
    runs = {
        "K-SVD, angular: 14400 signals of 64, 128 atoms, 5 nonzeros, 50 sweeps": (
            lambda: KSVD(n_nonzero=5, random_state=0).fit(angular), 10),
        "K-SVD, spatial: 6400 signals of 144, 288 atoms, 5 nonzeros, 50 sweeps": (
            lambda: KSVD(n_nonzero=5, random_state=0).fit(spatial), 10),
        "KDRSDL, authors' defaults": (lambda: KDRSDL().fit(X), 20),
        "KDRSDL, lam 10 times larger": (lambda: KDRSDL(lam=10 / np.sqrt(T * P * P)).fit(X), 20),
    }  # fmt: skip
    return [{"what": name, "seconds": seconds(run, repeats), "bar": bar} for name, (run, bar) in runs.items()]


def pursuit(X, repeats):
    """Batch OMP and scikit-learn's on the same Gram and correlations."""
    out = []
    for what, signals in (("angular", angular_signals(X)), ("spatial", spatial_signals(X))):
        signals = signals[np.any(signals, axis=1)][:6400]
        atoms = KSVD(n_nonzero=5, max_iter=3, random_state=0).fit(signals).dictionary_
        for n_nonzero in (3, 5, 10):
            ours = seconds(lambda: pursue(signals, atoms, n_nonzero), repeats)  # noqa: B023
            theirs = seconds(
                lambda: orthogonal_mp_gram(atoms.T @ atoms, atoms.T @ signals.T, n_nonzero_coefs=n_nonzero),  # noqa: B023
                repeats,
            )
            found = np.zeros((len(signals), atoms.shape[1]))
            np.put_along_axis(found, *pursue(signals, atoms, n_nonzero), axis=1)
            plain = orthogonal_mp_gram(atoms.T @ atoms, atoms.T @ signals.T, n_nonzero_coefs=n_nonzero).T
            out.append({"signals": what, "n_nonzero": n_nonzero, "ours": ours, "sklearn": theirs,
                        "ratio": theirs / ours, "difference": float(np.abs(found - plain).max())})  # fmt: skip
    return out


def recovery(trials=50, n_signals=1500, snr_db=20.0):
    """The share of a random 20 x 50 dictionary's atoms found within 0.01."""
    shares = []
    for seed in range(trials):
        rng = np.random.default_rng(seed)
        D = rng.standard_normal((20, 50))
        D /= np.linalg.norm(D, axis=0)
        C = np.zeros((n_signals, 50))
        for t in range(n_signals):
            C[t, rng.choice(50, 3, replace=False)] = rng.standard_normal(3)
        clean = C @ D.T
        noise = rng.standard_normal(clean.shape)
        noise *= np.linalg.norm(clean) / np.linalg.norm(noise) * 10 ** (-snr_db / 20)
        found = KSVD(50, 3, max_iter=80, random_state=seed).fit(clean + noise).dictionary_
        shares.append(float(np.mean(1 - np.abs(D.T @ found).max(axis=1) < 0.01)))
    return {"trials": trials, "mean": float(np.mean(shares)), "least": min(shares), "shares": shares}


def total_variation(image):
    """One slice to a gap of 1e-3."""
    S = image[0].reshape(G, -1)
    atoms = spherical_ridgelets(directions())
    alpha = 4 * float(np.median(np.abs(np.diff(S, axis=1)))) or 0.01
    started = perf_counter()
    found = total_variation_code(S, atoms, image.shape[2:], alpha, alpha / 10)
    return {"pixels": S.shape[1], "alpha": alpha, "beta": alpha / 10, "gap": found.gap, "steps": found.n_iter,
            "seconds": perf_counter() - started}  # fmt: skip


def curvelets():
    """Reconstruction from canonical coefficients in float32, relative to the image's largest entry."""
    out = []
    for shape in ((12, 12), (50, 50), (128, 128), (12, 12, 12)):
        image = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        operator = curvelet(shape, operator=True, dtype=np.float32)
        error = np.abs(operator @ operator.analysis(image) - image.ravel()).max() / np.abs(image).max()
        out.append({"shape": shape, "atoms": operator.shape[1], "error": float(error)})
    return out


def separability(X, held_out):
    """The held-out objective, as a share of that of zero codes, against the entries that were learned."""
    s1 = np.linalg.svd(X, compute_uv=False)[:, 0]
    alpha = float(np.median(s1)) / 2
    few = {"angular": {"n_atoms": 64, "n_nonzero": 5}, "spatial": {"n_atoms": 144, "n_nonzero": 5}}
    methods = [
        catalogue.pca(),
        catalogue.ksvd_ksvd(**few),
        catalogue.kdrsdl(),
        catalogue.kdrsdl_tuned(alpha),
        catalogue.closed_form(alpha, 100),
        catalogue.proposed(alpha, n_atoms=(64, 144), max_time=30),
        catalogue.kronecker_sum(catalogue.pca((32, 32)).learner, alpha, 1),
        catalogue.kronecker_sum(catalogue.pca((32, 32)).learner, alpha, 2),
        catalogue.mini_batch(100, alpha),
        catalogue.non_separable(alpha, 100),
    ]
    out = []
    for method in methods:
        started = perf_counter()
        method.fit(X)
        trained = perf_counter() - started
        scores = []
        for data in (X, held_out):
            codes = method.code(data, alpha).codes
            rest = data - method.reconstruct(data, alpha)
            value = np.sum(rest**2) / 2 + alpha * np.abs(codes.data).sum()
            scores.append(float(value / (np.sum(data**2) / 2)))
        said = method.describe()
        out.append({"method": method.name, "atoms": said["atoms"], "entries": said["entries"], "training": scores[0],
                    "held_out": scores[1], "seconds": trained})  # fmt: skip
    return {"alpha": alpha, "rows": out}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--volume", help="a 4-D NIfTI image; its first 64 volumes and slices 36-44 are used")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    image = real_image(options.volume) if options.volume else simulated_slices()
    X, held_out = patches(image[:-2], T, 0), patches(image[-2:], 30, 1)
    train, omp, known = training(X, options.repeats), pursuit(X, options.repeats), recovery()
    frames = {order: ridgelet_frame_bounds(order) for order in (2, 4, 6, 8, 10)}
    curves, cost, slice_ = curvelets(), separability(X, held_out), total_variation(image)
    sections = [
        ("Training on 100 patches of 64 x 144, one core", table(
            ["what", "seconds", "bar"], [[r["what"], f"{r['seconds']:.2f}", r["bar"]] for r in train])),
        ("Batch OMP of 6400 signals against `orthogonal_mp_gram`", table(
            ["signals", "nonzeros", "seconds", "scikit-learn", "ratio", "largest difference"],
            [[r["signals"], r["n_nonzero"], f"{r['ours']:.3f}", f"{r['sklearn']:.3f}", f"{r['ratio']:.0f}",
              f"{r['difference']:.0e}"] for r in omp])),
        ("K-SVD on a known 20 x 50 dictionary, 1500 signals, 3 nonzeros, 20 dB, 80 sweeps",
         f"Atoms within 0.01: {100 * known['mean']:.1f}% on the mean of {known['trials']} trials, "
         f"{100 * known['least']:.0f}% in the worst."),
        ("Frame bounds of the default ridgelets on even functions", table(
            ["order", "A", "B"], [[k, f"{a:.3f}", f"{b:.3f}"] for k, (a, b) in frames.items()])),
        ("Curvelets in float32", table(
            ["shape", "atoms", "largest error"],
            [[" x ".join(map(str, r["shape"])), r["atoms"], f"{r['error']:.1e}"] for r in curves])),
        ("One slice with total variation",
         f"{slice_['pixels']} pixels, 64 directions, 395 ridgelets: gap {slice_['gap']:.1e} in "
         f"{slice_['steps']} steps, {slice_['seconds']:.1f} s."),
        (f"What separability costs, alpha {cost['alpha']:.4g}", table(
            ["method", "atoms", "learned entries", "objective, training", "objective, held out", "seconds"],
            [[r["method"], r["atoms"], r["entries"], f"{r['training']:.4f}", f"{r['held_out']:.4f}",
              f"{r['seconds']:.1f}"] for r in cost["rows"]])
         + "\n\nObjectives are shares of that of zero codes; 30 patches of the two slices held out."),
    ]  # fmt: skip
    record = {"training": train, "pursuit": omp, "recovery": known, "frames": frames, "curvelets": curves,
              "total_variation": slice_, "separability": cost}  # fmt: skip
    write("baselines", "Baselines", sections, record)
    print("\n\n".join(f"{heading}\n{text}" for heading, text in sections))


if __name__ == "__main__":
    main()
