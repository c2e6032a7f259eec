"""Denoising a real volume, beside the methods that users run today. There is no truth, so four questions:

    cost       wall clock, processor time and peak memory of the whole volume, each method in a process of its own
    residuals  is what was taken away structureless? its correlation between neighbours in space and in angle, by
               tissue, and the size of its mean over directions, all beside those of white noise in the same places
    halves     the directions are split in two halves that are denoised apart: how well do FA, the main direction and
               the main ODF peak of the two agree? (agreement rewards blurring too, so FA's mean is beside it)
    fission    noise n like the data's own makes two images, data + n and data - n, whose noises are independent: the
               first is denoised and compared with the second, which gives its error without bias (the second's
               own noise, 2 sigma^2, is taken off)

    python benchmarks/denoising_real.py VOLUME.nii.gz [--slab 36:52]

Halves and fission use a slab of the volume. Every method starts from the file and writes a file, as a user has it;
two threads. For these two, the results of the methods that leave the noise floor in are corrected for
it with septum's exact inverse of the mean, at the sigma that septum estimates. Residuals are the data less the expected
magnitude of the estimate.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import nibabel
import numpy as np
from common import table, write

from septum.dmri import rician
from septum.dmri.contrast import group
from septum.dmri.denoise import find_inside
from septum.dmri.image import DwiImage, load, save
from septum.dmri.noise import estimate
from septum.dmri.odf import constant_solid_angle, peaks

THREADS = 2
DIPY = """
import sys
import nibabel, numpy as np
from dipy.denoise.{module} import {name}
image = nibabel.load(sys.argv[1])
data = np.asarray(image.dataobj, dtype=np.float32)
bvals = np.loadtxt(sys.argv[1].replace(".nii.gz", ".bval"))
# Patch2Self puts the b0s first in its answer wherever they were.
order = np.argsort(bvals > 50, kind="stable")
data, bvals = data[..., order], bvals[order]
found = ({call})[..., np.argsort(order)]
nibabel.save(nibabel.Nifti1Image(np.asarray(found, np.float32), image.affine), sys.argv[2])
"""
METHODS: dict[str, Any] = {
    "septum": [sys.executable, "-m", "septum", "denoise", "IN", "-o", "OUT", "-q", "--n-threads", str(THREADS)],
    "mppca": ("localpca", "mppca", "mppca(data, patch_radius=2)"),
    "patch2self": ("patch2self", "patch2self", "patch2self(data, bvals, verbose=False)"),
    "dwidenoise": ["dwidenoise", "-quiet", "-nthreads", str(THREADS), "IN", "OUT"],
}


def run(method: str, source: Path, out: Path) -> dict[str, float]:
    """A method from file to file in a process of its own."""
    how = METHODS[method]
    if isinstance(how, tuple):
        module, name, call = how
        words = [sys.executable, "-c", DIPY.format(module=module, name=name, call=call), str(source), str(out)]
    else:
        words = [{"IN": str(source), "OUT": str(out)}.get(word, word) for word in how]
    began = time.perf_counter()
    child = os.posix_spawnp(words[0], words, os.environ)
    peak, done, status = 0, 0, 0
    while not done:
        # A child's own account of its peak starts from its parent's, so it is watched instead.
        peak = max(peak, peak_of(child))
        time.sleep(0.02)
        done, status, usage = os.wait4(child, os.WNOHANG)
    if status:
        raise RuntimeError(f"{method} failed on {source.name}")
    return {
        "seconds": time.perf_counter() - began,
        "cpu": usage.ru_utime + usage.ru_stime,
        "peak_gib": peak / 2**20,
    }


def peak_of(process: int) -> int:
    """The largest resident size so far, in KiB; 0 where it has ended."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)


class Scene:
    """An image, its noise, and its tissues from the tensor fit of the data as they are."""

    def __init__(self, image: DwiImage) -> None:
        self.image, self.gradients = image, image.gradients
        self.data = np.asarray(image.slab(0, image.shape[2]))
        inside = find_inside(image)
        self.noise = estimate(image, inside, group(image.gradients), n_jobs=THREADS)
        self.sigma = self.noise.map(image.shape)[..., None]
        b0 = self.data[..., self.gradients.b0s].mean(axis=-1)
        brain = inside & (b0 > 0.15 * np.percentile(b0[inside], 98))
        fit = tensor(self.data, self.gradients, brain)
        fluid = brain & (fit["md"] > 1.5e-3)
        white = brain & ~fluid & (fit["fa"] > 0.4)
        self.tissues = {"white": white, "grey": brain & ~fluid & (fit["fa"] < 0.2), "fluid": fluid}
        self.brain = brain


def tensor(data: Any, gradients: Any, where: Any) -> dict[str, Any]:
    """FA, MD and the main direction of DIPY's weighted tensor fit."""
    from dipy.reconst.dti import TensorModel

    fit = TensorModel(gradients.dipy_table()).fit(data[where].astype(np.float64))
    out: dict[str, Any] = {}
    for name, values in (("fa", fit.fa), ("md", fit.md), ("main", fit.evecs[..., 0])):
        out[name] = np.zeros((*where.shape, *values.shape[1:]))
        out[name][where] = values
    return out


def without_floor(method: str, data: Any, sigma: Any) -> Any:
    """An estimate without the noise floor; septum's own has none."""
    data = np.maximum(np.asarray(data, np.float32), 0)
    return data if method == "septum" else rician.correct(data, np.broadcast_to(sigma, data.shape))


# --- residuals ------------------------------------------------------------------------------------


def structure(residual: Any, gradients: Any, tissue: Any) -> dict[str, float]:
    """Correlations of residuals in units of the noise, each volume's mean over the tissue taken out."""
    weighted = gradients.weighted
    values = np.where(tissue[..., None], residual[..., weighted], 0.0)
    count = tissue.sum()
    values -= np.where(tissue[..., None], values.sum(axis=(0, 1, 2)) / count, 0.0)
    square = (values**2).sum() / (count * len(weighted))
    spatial = []
    for axis in range(3):
        ahead = tuple(slice(1, None) if k == axis else slice(None) for k in range(3))
        behind = tuple(slice(None, -1) if k == axis else slice(None) for k in range(3))
        both = (tissue[ahead] & tissue[behind]).sum() * len(weighted)
        spatial.append(float((values[ahead] * values[behind]).sum() / both / square))
    directions = gradients.bvecs[weighted]
    cosine = np.abs(directions @ directions.T) - np.eye(len(weighted))
    nearest = cosine.argmax(axis=1)
    flat = values[tissue]
    angular = float((flat * flat[:, nearest]).mean() / square)
    mean = float(flat.mean(axis=1).std() * np.sqrt(len(weighted)) / np.sqrt(square))
    return {"size": float(np.sqrt(square)), "spatial": float(np.mean(spatial)), "angular": angular, "mean": mean}


def residual_of(method: str, scene: Scene, found: Any) -> Any:
    """In units of the noise; septum's estimate is of the signal, whose magnitude is expected to be higher."""
    unit = found / scene.sigma
    if method == "septum":
        unit = rician.mean(np.maximum(unit, 0), 1)
    return (scene.data / scene.sigma - unit).astype(np.float32)


# --- halves ---------------------------------------------------------------------------------------


def halves(gradients: Any) -> list[list[int]]:
    """Weighted volumes in two halves, both spread over the sphere: each direction parts from its nearest neighbour."""
    axes = gradients.bvecs[gradients.weighted]
    cosine = np.abs(axes @ axes.T) - 2 * np.eye(len(axes))
    left = set(range(len(axes)))
    pair: list[list[int]] = [[], []]
    couples = [(a, b) for a in range(len(axes)) for b in range(a)]
    for a, b in sorted(couples, key=lambda couple: -cosine[couple]):
        if a in left and b in left:
            left -= {a, b}
            first = len(pair[0]) % 2
            pair[first].append(a)
            pair[1 - first].append(b)
    b0s = list(gradients.b0s)
    return [sorted([*b0s, *(int(gradients.weighted[k]) for k in half)]) for half in pair]


def agreement(first: Any, second: Any, where: Any, white: Any, axes: Any) -> dict[str, float]:
    """Differences of FA everywhere, of the main direction and of the main ODF peak in white matter."""
    fits = [tensor(data, gradients, where) for data, gradients in zip((first, second), axes, strict=True)]
    cosine = np.clip(np.abs((fits[0]["main"] * fits[1]["main"]).sum(axis=-1))[white], 0, 1)
    tops = []
    for data, gradients in zip((first, second), axes, strict=True):
        image = DwiImage.from_arrays(data, gradients, np.eye(4))
        odf = constant_solid_angle(image, order=6, mask=white)
        tops.append(peaks(odf, n_peaks=1).directions[white][:, 0])
    odf_cosine = np.clip(np.abs((tops[0] * tops[1]).sum(axis=-1)), 0, 1)
    return {
        "fa": float(np.sqrt(((fits[0]["fa"] - fits[1]["fa"])[where] ** 2).mean())),
        "fa_mean": float(np.mean([fit["fa"][white].mean() for fit in fits])),
        "direction": float(np.degrees(np.arccos(cosine)).mean()),
        "odf": float(np.degrees(np.arccos(odf_cosine)).mean()),
    }


# --- the whole ------------------------------------------------------------------------------------


def part(scene: Scene, volumes: list[int], data: Any, folder: Path, name: str) -> tuple[Path, Any]:
    """Some volumes as a file with its own gradients."""
    gradients = scene.gradients.subset(volumes)
    path = folder / f"{name}.nii.gz"
    image = DwiImage.from_arrays(data[..., volumes], gradients, scene.image.affine)
    save(path, data[..., volumes], image)
    path.with_name(f"{name}.bval").write_text(gradients.bval_text())
    path.with_name(f"{name}.bvec").write_text(gradients.bvec_text())
    return path, gradients


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("volume", type=Path)
    parser.add_argument("--slab", default="36:52")
    options = parser.parse_args()
    methods = [m for m in METHODS if m != "dwidenoise" or shutil.which("dwidenoise")]
    record: dict[str, Any] = {"volume": options.volume.name}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        whole = load(options.volume)
        scene = Scene(whole)
        size = scene.data.nbytes / 2**30
        source, _ = part(scene, list(range(whole.shape[3])), scene.data, folder, "whole")
        cost, found = [], []
        for method in methods:
            out = folder / f"whole-{method}.nii.gz"
            took = run(method, source, out)
            record[method] = {"cost": took}
            cost.append([method, f"{took['seconds']:.0f}", f"{took['cpu']:.0f}", f"{took['peak_gib']:.2f}",
                         f"{took['peak_gib'] / size:.1f}"])  # fmt: skip
            residual = residual_of(method, scene, np.asarray(nibabel.load(out).dataobj, dtype=np.float32))
            for tissue, where in scene.tissues.items():
                s = record[method][tissue] = structure(residual, scene.gradients, where)
                found.append([method, tissue, f"{s['size']:.3f}", f"{s['spatial']:+.4f}", f"{s['angular']:+.4f}",
                              f"{s['mean']:.3f}"])  # fmt: skip
            print(method, took, flush=True)
        chance = np.random.default_rng(0).standard_normal(scene.data.shape, dtype=np.float32)
        for tissue, where in scene.tissues.items():
            s = structure(chance, scene.gradients, where)
            found.append(["white noise", tissue, f"{s['size']:.3f}", f"{s['spatial']:+.4f}", f"{s['angular']:+.4f}",
                          f"{s['mean']:.3f}"])  # fmt: skip
        del chance, residual
        first, stop = map(int, options.slab.split(":"))
        slab = Scene(DwiImage.from_arrays(scene.data[:, :, first:stop], scene.gradients, whole.affine))
        agreed = _halves(slab, methods, folder, record)
        near = _fission(slab, methods, folder, record)
    write(
        "denoising-real", "Denoising a real volume",
        [
            ("Cost", f"{whole.shape}, {size:.2f} GiB as float32, sigma {scene.noise.sigma:.2f}; two threads.\n\n"
             + table(["method", "wall, s", "processor, s", "peak memory, GiB", "of the input"], cost)),
            ("Residuals", "In units of the noise. `mean` is the deviation over voxels of the mean over directions, times "
             "the root of their number, over `size`: 1 for what is independent.\n\n"
             + table(["method", "tissue", "size", "spatial", "angular", "mean"], found)),
            ("Halves", f"Slices {options.slab}. Root mean square difference of FA in the brain, its mean in white matter, "
             "and mean angles in white matter.\n\n"
             + table(["method", "FA difference", "mean FA", "main direction, deg", "ODF peak, deg"], agreed)),
            ("Fission", f"Slices {options.slab}; mean square error in units of the noise's variance.\n\n"
             + table(["method", *slab.tissues, "brain"], near)),
        ],
        record,
    )  # fmt: skip
    print((Path(__file__).parent / "results/denoising-real.md").read_text())


def _halves(slab: Scene, methods: list[str], folder: Path, record: dict[str, Any]) -> list[list[str]]:
    rows = []
    parts = [part(slab, half, slab.data, folder, f"half{k}") for k, half in enumerate(halves(slab.gradients))]
    axes = [gradients for _, gradients in parts]
    for method in ["data", *methods]:
        results = []
        for path, _ in parts:
            out = path if method == "data" else folder / f"{path.name[:5]}-{method}.nii.gz"
            if method != "data":
                run(method, path, out)
            found = nibabel.load(out).dataobj
            # The data themselves are shown as they are.
            results.append(np.asarray(found) if method == "data" else without_floor(method, found, slab.sigma))
        a = agreement(*results, slab.brain, slab.tissues["white"], axes)
        record.setdefault(method, {})["halves"] = a
        rows.append([method, f"{a['fa']:.4f}", f"{a['fa_mean']:.3f}", f"{a['direction']:.2f}", f"{a['odf']:.2f}"])
        print(rows[-1], flush=True)
    return rows


def _fission(slab: Scene, methods: list[str], folder: Path, record: dict[str, Any]) -> list[list[str]]:
    """The first image is the magnitude of data + noise in two channels, the second data - the first channel's noise."""
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((2, *slab.data.shape), dtype=np.float32) * slab.sigma.astype(np.float32)
    first = np.where(slab.data > 0, np.hypot(slab.data + noise[0], noise[1]), 0).astype(np.float32)
    second = (slab.data - noise[0]) / slab.sigma
    path, _ = part(slab, list(range(slab.data.shape[3])), first, folder, "fission")
    rows = []
    for method in ["data", *methods]:
        out = path if method == "data" else folder / f"fission-{method}.nii.gz"
        if method != "data":
            run(method, path, out)
        found = without_floor(method, nibabel.load(out).dataobj, slab.sigma * np.sqrt(2.0))
        # The second image keeps the noise floor of the data.
        error = (rician.mean(found / slab.sigma, 1) - second)[..., slab.gradients.weighted]
        places = {**slab.tissues, "brain": slab.brain}
        excess = {name: float((error[where] ** 2).mean()) - 2.0 for name, where in places.items()}
        record.setdefault(method, {})["fission"] = excess
        rows.append([method, *(f"{value:.3f}" for value in excess.values())])
        print(rows[-1], flush=True)
    return rows


if __name__ == "__main__":
    main()
