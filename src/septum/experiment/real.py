"""Section 7 on a real image: the dictionaries that methods learn from it, and what denoising with them does.

There is no truth here. The dictionaries are learned from patches of the noisy image itself, centred, and every
slice is coded at an alpha that follows from the noise's level; what is taken away is set against that level.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from septum.array import Float
from septum.dmri.image import DwiImage, load
from septum.dmri.sidecar import sha256
from septum.errors import InvalidInputError
from septum.experiment.protocol import PATCH, centre, cut, join, reconstruct, training_patches
from septum.experiment.roster import Learning, learn
from septum.experiment.stage import Result, Study
from septum.report.record import Record

METHODS = ("I-SR", "KSVD-KSVD", "KDRSDL", "Proposed")
STRIDE = 6
LEARNING, CODING = 3.7, 3.7  # alpha in units of sigma


@dataclass(frozen=True)
class Size:
    """How large a study is; `slices` is how many are denoised in two dimensions, around the middle."""

    methods: tuple[str, ...]
    n_patches: int
    n_atoms: tuple[int, int]
    sweeps: int
    steps: int
    slices: int


FULL = Size(METHODS, 100, (64, 144), 30, 4, 3)
SMALL = Size(METHODS, 40, (32, 48), 8, 2, 1)


def run(study: Study, image: str | Path | None = None) -> tuple[Record, dict[str, Any]]:
    """Every stage, then the record and its pictures. `image` has its .bval and .bvec beside it; None: the sample."""
    from septum.experiment.real_page import page

    size = SMALL if study.small else FULL
    path = _path(image)
    study.report(0.0, "septum's denoiser")
    given = {"path": str(path), "sha256": sha256(path), "seed": study.seed}
    entire = study.stage(whole, **given, n_threads=study.n_threads)
    chosen = middle_slices(_image(str(path)).shape[2], size.slices)
    jobs = [
        dict(
            given, method=name, sigma=entire.numbers["sigma"], slices=chosen, n_patches=size.n_patches,
            n_atoms=list(size.n_atoms), sweeps=size.sweeps, steps=size.steps,
        )
        for name in size.methods
    ]  # fmt: skip
    found = study.stages(trial, jobs, begin=0.4, end=0.95, text="dictionaries")
    study.report(0.97, "tables and pictures")
    return page(study, size, _image(str(path)), chosen, dict(zip(size.methods, found, strict=True)), entire)


def middle_slices(depth: int, count: int) -> list[int]:
    """`count` slices around the middle, all of them where there are no more."""
    count = min(count, depth)
    first = (depth - count) // 2
    return list(range(first, first + count))


# --- stages -------------------------------------------------------------------------------------


def whole(*, path: str, sha256: str, seed: int, n_threads: int) -> Result:
    """septum's own denoiser on the whole image, and the noise that it finds."""
    from septum.dmri.denoise import denoise

    image = _image(path)
    began = perf_counter()
    found = denoise(
        image.data, (image.bvals, image.bvecs), random_state=seed, n_jobs=n_threads, full_output=True
    )
    numbers = {"sigma": float(found.noise.sigma), "seconds": perf_counter() - began}
    return Result(numbers, {"image": np.asarray(found.data, dtype=np.float32)})


def trial(
    *,
    path: str,
    sha256: str,
    seed: int,
    method: str,
    sigma: float,
    slices: list[int],
    n_patches: int,
    n_atoms: list[int],
    sweeps: int,
    steps: int,
) -> Result:
    """One method: its dictionaries, in units of the noise, and the slices it makes of the noisy ones."""
    image = _image(path)
    weighted = image.gradients.weighted
    data = image.data[..., weighted].astype(np.float64) / sigma
    began = perf_counter()
    patches = centre(training_patches(data, range(data.shape[2]), n_patches, np.random.default_rng(seed)))[0]
    how = Learning((n_atoms[0], n_atoms[1]), sweeps, LEARNING, steps, CODING, seed)
    dictionaries, facts = learn(method, patches, image.bvecs[weighted], (PATCH, PATCH), how)
    learning = perf_counter() - began
    noisy = data[:, :, slices]
    tiles, means = centre(cut(noisy, STRIDE))
    coded = reconstruct(dictionaries, tiles, CODING, refit=True)
    denoised = join(coded.patches + means, noisy.shape, STRIDE)
    numbers = {
        "gap": coded.gap,
        "nonzeros": coded.nonzeros,
        "removed": float(np.sqrt(np.mean((noisy - denoised) ** 2))),
        "learning_seconds": learning,
        "facts": {k: v for k, v in facts.items() if k in ("atoms", "attainment", "verdict")},
    }
    arrays = {"image": (denoised * sigma).astype(np.float32), "use": coded.use}
    sides = zip(("angular", "spatial"), dictionaries, strict=True)
    return Result(numbers, arrays | {name: np.asarray(D) for name, D in sides if D is not None})


# --- the data -----------------------------------------------------------------------------------


def _path(image: str | Path | None) -> Path:
    from septum.dmri.sample import sample

    path = sample().dwi if image is None else Path(image)
    shape = _image(str(path)).shape
    if min(shape[:2]) < PATCH:
        raise InvalidInputError(
            f"{path.name} has slices of {shape[0]} x {shape[1]} voxels: at least {PATCH} x {PATCH} are needed"
        )
    return path


@lru_cache(maxsize=1)
def _image(path: str) -> DwiImage:
    return load(path)


def slab(image: DwiImage, slices: Sequence[int]) -> Float:
    """Slices of the weighted volumes (X, Y, n, G)."""
    return np.asarray(image.data[:, :, list(slices)][..., image.gradients.weighted], dtype=np.float64)
