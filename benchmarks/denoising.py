"""Denoising against the methods that users run today, on phantoms whose truth is known.

    python benchmarks/denoising.py [--phantom isbi] [--snr 10,20,30] [--seeds 0,1,2]
    python benchmarks/denoising.py --summary        # results/denoising.md, from what was measured on both phantoms

Every method gets the same image. localpca gets septum's estimate of sigma; the others have no use for one. The
results of mppca, localpca and dwidenoise are corrected for the noise floor with septum's exact inverse of the mean
at the same sigma; septum's own result has no further correction (its second estimate takes the floor away).
Times are of the call alone, on two threads, compiled code warmed up before; `cpu` is the processor time of all
threads (children included), which does not suffer from other programs. Nothing is tuned on the truth.

Scores: PSNR of the weighted volumes in dB (peak = the truth's largest weighted value), whole, inside the phantom
and in white matter; there also the root mean square error of FA (DIPY's tensor fit) and the mean error of the main
direction where the truth's FA is above 0.2, in degrees.
"""

import argparse
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from common import RESULTS, table, write

from septum.dmri import denoise, multitensor, phantom, rician
from septum.dmri.contrast import group
from septum.dmri.denoise import find_inside
from septum.dmri.image import DwiImage, save
from septum.dmri.noise import estimate

THREADS = 2
SCORES = ("whole", "inside", "white", "fa", "direction", "seconds", "cpu")


def by_septum(data, image, sigma):
    return denoise(data, image.gradients, sigma=sigma, n_jobs=THREADS)


def by_septum_without_dictionary(data, image, sigma):
    return denoise(data, image.gradients, sigma=sigma, model=False, n_jobs=THREADS)


def by_mppca(data, image, sigma):
    from dipy.denoise.localpca import mppca

    return mppca(data, patch_radius=2)


def by_localpca(data, image, sigma):
    from dipy.denoise.localpca import localpca

    return localpca(data, sigma=sigma, patch_radius=2)


def by_dwidenoise(data, image, sigma):
    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder) / "in.nii", Path(folder) / "out.nii"
        save(before, data, image)
        subprocess.run(["dwidenoise", "-quiet", "-nthreads", str(THREADS), before, after], check=True)
        import nibabel

        return np.asarray(nibabel.load(after).dataobj)


METHODS = {
    "septum": by_septum,
    "septum without dictionary": by_septum_without_dictionary,
    "mppca": by_mppca,
    "localpca": by_localpca,
    "dwidenoise": by_dwidenoise,
}


class Judge:
    """Scores an estimate against one phantom's truth."""

    def __init__(self, truth: Any) -> None:
        from dipy.reconst.dti import TensorModel

        self.truth = truth
        self.weighted = truth.gradients.weighted
        self.peak = float(truth.truth[..., self.weighted].max())
        self.model = TensorModel(truth.gradients.dipy_table())
        self.fa, self.main = self.tensor(truth.truth)

    def tensor(self, data: Any) -> tuple[Any, Any]:
        fit = self.model.fit(data[self.truth.white_matter].astype(np.float64))
        return fit.fa, fit.evecs[..., 0]

    def __call__(self, data: Any) -> dict[str, float]:
        square = (data[..., self.weighted] - self.truth.truth[..., self.weighted]).astype(np.float64) ** 2
        places = {"whole": ..., "inside": self.truth.mask, "white": self.truth.white_matter}
        scores = {k: float(10 * np.log10(self.peak**2 / square[where].mean())) for k, where in places.items()}
        fa, main = self.tensor(data)
        clear = self.fa > 0.2
        cosine = np.clip(np.abs((main * self.main).sum(axis=-1))[clear], 0, 1)
        scores["fa"] = float(np.sqrt(np.mean((fa - self.fa) ** 2)))
        scores["direction"] = float(np.degrees(np.arccos(cosine)).mean())
        return scores


def processor_time() -> float:
    spent = os.times()
    return spent.user + spent.system + spent.children_user + spent.children_system


def measure(name: str, image: DwiImage, data: Any, sigma: float) -> tuple[Any, float, float]:
    clock, spent = time.perf_counter(), processor_time()
    found = METHODS[name](data, image, sigma)
    seconds, cpu = time.perf_counter() - clock, processor_time() - spent
    if not name.startswith("septum"):
        found = rician.correct(np.maximum(np.asarray(found, np.float32), 0), sigma)
    return found, seconds, cpu


def summarise() -> None:
    """A table for each phantom: means over seeds, and their spread for the PSNR inside."""
    sections, record = [], {}
    titles = {"isbi": "ISBI 2013 phantom, 50 x 50 x 50 x 65", "multitensor": "Crossing tensors, 36 x 36 x 16 x 65"}
    for name, title in titles.items():
        rows = json.loads((RESULTS / f"denoising_{name}.json").read_text())
        lines = []
        for snr in sorted({row["snr"] for row in rows}):
            for method in METHODS:
                runs = [row for row in rows if row["snr"] == snr and row["method"] == method]
                if not runs:
                    continue
                mean = {key: float(np.mean([run[key] for run in runs])) for key in SCORES}
                spread = float(np.std([run["inside"] for run in runs]))
                record[f"{name} {snr:g} {method}"] = mean
                lines.append(
                    [f"{snr:g}", method, *(f"{mean[k]:.2f}" for k in ("whole", "inside", "white")), f"{spread:.2f}",
                     f"{mean['fa']:.4f}", f"{mean['direction']:.2f}", f"{mean['seconds']:.1f}", f"{mean['cpu']:.1f}",
                     len(runs)]
                )  # fmt: skip
        header = ["SNR", "method", "whole, dB", "inside, dB", "white matter, dB", "spread inside", "FA error",
                  "direction, deg", "wall, s", "processor, s", "seeds"]  # fmt: skip
        sections.append((title, table(header, lines)))
    write("denoising", "Denoising phantoms", sections, record)
    print((RESULTS / "denoising.md").read_text())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--phantom", choices=("isbi", "multitensor"), default="isbi")
    parser.add_argument("--snr", default="10,20,30")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--summary", action="store_true")
    args = parser.parse_args()
    if args.summary:
        summarise()
        return
    output = RESULTS / f"denoising_{args.phantom}.json"
    clean = phantom.simulate() if args.phantom == "isbi" else multitensor.simulate(shape=(36, 36, 16))
    judge = Judge(clean)
    small = multitensor.simulate(shape=(12, 12, 6), snr=10)
    denoise(small.data, small.gradients, n_patches=10)  # compiles
    # What was measured before of other methods, noise levels or seeds stays.
    rows = json.loads(output.read_text()) if output.exists() else []
    for snr in map(float, args.snr.split(",")):
        for seed in map(int, args.seeds.split(",")):
            data = clean.with_noise(snr, seed=seed).data
            image = DwiImage.from_arrays(data, clean.gradients, clean.affine)
            noise = estimate(image, find_inside(image), group(image.gradients), n_jobs=THREADS)
            for name in args.methods.split(","):
                if name == "dwidenoise" and shutil.which("dwidenoise") is None:
                    continue
                found, seconds, cpu = measure(name, image, data, noise.sigma)
                row = {"phantom": args.phantom, "snr": snr, "seed": seed, "method": name, "sigma": noise.sigma}
                row |= {"seconds": seconds, "cpu": cpu} | judge(found)
                rows = [r for r in rows if any(r[key] != row[key] for key in ("snr", "seed", "method"))] + [row]
                print(
                    f"snr {snr:g} seed {seed} {name:25s} {seconds:7.1f} s {cpu:7.1f} s cpu  whole {row['whole']:.2f}  "
                    f"inside {row['inside']:.2f}  white {row['white']:.2f}  FA {row['fa']:.4f}  dir {row['direction']:.2f}",
                    flush=True,
                )
                output.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
