"""Section 7: dictionaries learned from the phantom at SNR 30, tried on slices of it at SNR 10.

    volume     the simulated phantom with the noise of a seed, and its truth
    trial      one method: its dictionaries from training patches of one seed, and the PSNR of the test slices
               under the noise of one or more seeds, at every alpha tried
    whole      septum's own denoiser on the whole volume, with cubes or with the paper's squares as patches
    bounds     the raw data, and what perfect denoising would reach

Two protocols. "printed" is the paper's: no centring, stride 8, alpha by the best PSNR on the test slices. "centred"
takes the means out of every patch, chooses alpha on other slices and refits on the support. Every repetition has
training patches and noise of its own; differences between methods are taken repetition by repetition. Beside the
centred protocol stand Proposed at a finer stride and septum's own denoiser.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from time import perf_counter
from typing import Any

import numpy as np

from septum.array import Float
from septum.baselines import catalogue
from septum.dmri import rician
from septum.dmri.phantom import Phantom, simulate
from septum.experiment.paper import SLICES
from septum.experiment.protocol import (
    LASSO_TOLERANCE,
    PATCH,
    centre,
    cut,
    join,
    reconstruct,
    training_patches,
    training_slices,
)
from septum.experiment.roster import NAMES, Learning, learn
from septum.experiment.score import psnr
from septum.experiment.stage import Result, Study
from septum.report.record import Record

SNR, REFERENCE_SNR = 10.0, 30.0
SIGMA = 1.0 / SNR
TUNING = (20, 40)
STRIDE, FINE_STRIDE = 8, 3
ENOUGH = 0.3  # dB below the best at which smaller alphas are no longer tried
METRICS = ("reference", "truth", "corrected")


@dataclass(frozen=True)
class Protocol:
    """How alpha is chosen and patches are coded, and the alpha and steps of the learner."""

    name: str
    is_centred: bool
    alphas: tuple[float, ...]
    learning_alpha: float
    steps: int
    coding_alpha: float | None = None  # what KDRSDL's weights are tuned for; None: its authors' defaults

    @property
    def judges_on_test(self) -> bool:
        return not self.is_centred


PRINTED = Protocol("printed", False, (0.8, 0.4, 0.2, 0.1, 0.05), 0.1, 3)
CENTRED = Protocol("centred", True, (0.53, 0.37, 0.25, 0.17, 0.12), 0.12, 4, 0.37)


@dataclass(frozen=True)
class Size:
    """How large a study is."""

    methods: tuple[str, ...]
    test: tuple[int, ...]
    slices: tuple[int, int]
    n_patches: int
    n_atoms: tuple[int, int]
    sweeps: int
    repetitions: int
    protocols: tuple[Protocol, ...]
    is_crossed: bool
    # Without centring, joint dictionaries of 36 000 atoms and more take very long at small alphas.
    curvelet_alphas: tuple[float, ...] = (0.57, 0.4, 0.28)
    has_whole: bool = True


FULL = Size(NAMES, SLICES, (0, 50), 100, (64, 144), 30, 3, (PRINTED, CENTRED), True)
SMALL = Size(
    NAMES, (25,), (14, 44), 40, (24, 32), 8, 2,
    (Protocol("printed", False, (0.4, 0.2), 0.3, 1), Protocol("centred", True, (0.53, 0.37), 0.3, 1, 0.37)),
    False, (0.57, 0.4),
)  # fmt: skip


def run(study: Study) -> tuple[Record, dict[str, Any]]:
    """Every stage, then the record and its pictures."""
    from septum.experiment.phantom_page import page

    size = SMALL if study.small else FULL
    seeds = [study.seed + k for k in range(size.repetitions)]
    study.report(0.0, "the phantom")
    floor = [
        study.stage(bounds, slices=list(size.slices), test=list(size.test), seed=study.seed, noise_seed=s) for s in seeds
    ]
    trials: dict[tuple[str, str], list[Result]] = {}
    share = 0.85 / len(size.protocols)
    for k, protocol in enumerate(size.protocols):
        trials |= _trials(study, size, protocol, seeds, 0.05 + share * k, share)
    study.report(0.92, "septum's denoiser")
    beside = _beside(study, size, seeds, trials) if size.has_whole else {}
    study.report(0.98, "tables and pictures")
    return page(study, size, floor, trials, beside)


def _trials(
    study: Study, size: Size, protocol: Protocol, seeds: Sequence[int], begin: float, share: float
) -> dict[tuple[str, str], list[Result]]:
    """Repetition 0 tries every alpha; the others use the one it chose."""
    common = _common(study, size)
    others = list(seeds[1:]) if size.is_crossed and protocol.is_centred else []
    first: list[dict[str, Any]] = [
        dict(
            common,
            method=name,
            training_seed=seeds[0],
            noise_seeds=[seeds[0], *others],
            protocol=asdict(replace(protocol, alphas=_alphas(size, protocol, name))),
        )
        for name in size.methods
    ]
    found = study.stages(
        trial, first, begin=begin, end=begin + share / 2, text=f"{protocol.name} protocol, choosing alpha"
    )
    rest = [
        dict(
            job,
            training_seed=s,
            noise_seeds=[s, seeds[0]] if others else [s],
            protocol=dict(job["protocol"], alphas=[result.numbers["alpha"]]),
        )
        for job, result in zip(first, found, strict=True)
        for s in seeds[1:]
    ]
    more = iter(
        study.stages(trial, rest, begin=begin + share / 2, end=begin + share, text=f"{protocol.name} protocol")
    )
    return {
        (protocol.name, name): [result, *(next(more) for _ in seeds[1:])]
        for name, result in zip(size.methods, found, strict=True)
    }


def _alphas(size: Size, protocol: Protocol, name: str) -> tuple[float, ...]:
    is_slow = name.startswith("Curve") and not protocol.is_centred
    return size.curvelet_alphas if is_slow else protocol.alphas


def _common(study: Study, size: Size) -> dict[str, Any]:
    return {
        "slices": list(size.slices), "test": list(size.test), "seed": study.seed,
        "n_patches": size.n_patches, "n_atoms": list(size.n_atoms), "sweeps": size.sweeps,
    }  # fmt: skip


def _beside(
    study: Study, size: Size, seeds: Sequence[int], trials: dict[tuple[str, str], list[Result]]
) -> dict[str, list[Result]]:
    """What stands beside the centred protocol: one result for each repetition."""
    from septum.experiment.phantom_page import FINE, SQUARES, WHOLE

    centred = next(protocol for protocol in size.protocols if protocol.is_centred)
    alpha = trials[centred.name, "Proposed"][0].numbers["alpha"]
    jobs = [
        dict(
            _common(study, size), method="Proposed", training_seed=s, noise_seeds=[s],
            protocol=asdict(replace(centred, alphas=(alpha,))), stride=FINE_STRIDE,
        )
        for s in seeds
    ]  # fmt: skip
    fine = study.stages(trial, jobs, begin=0.92, end=0.94, text="a finer stride")
    common = {"slices": list(size.slices), "test": list(size.test), "seed": study.seed, "n_threads": study.n_threads}
    shapes = {SQUARES: [PATCH, PATCH], WHOLE: [5, 5, 5]}
    return {FINE: fine} | {
        label: [study.stage(whole, **common, noise_seed=s, patch=patch) for s in seeds] for label, patch in shapes.items()
    }


@dataclass(frozen=True, eq=False)
class Denoised:
    """Slices (X, Y, n, G), the largest relative gap, nonzeros a patch, and how often each pair of atoms is used."""

    image: Float
    gap: float
    nonzeros: float | None
    use: Float


# --- stages -------------------------------------------------------------------------------------


def trial(
    *,
    method: str,
    protocol: dict[str, Any],
    slices: list[int],
    test: list[int],
    seed: int,
    n_patches: int,
    n_atoms: list[int],
    sweeps: int,
    training_seed: int,
    noise_seeds: list[int],
    stride: int = STRIDE,
) -> Result:
    """One method: PSNR at each alpha under the first noise seed, and at the chosen alpha under all."""
    how = Protocol(**dict(protocol, alphas=tuple(protocol["alphas"])))
    began = perf_counter()
    dictionaries, facts = _learned(method, how, slices, test, seed, n_patches, n_atoms, sweeps, training_seed)
    learning = perf_counter() - began
    judged = tuple(test) if how.judges_on_test else TUNING
    scores: dict[float, float] = {}
    tried: dict[float, Denoised] = {}
    began = perf_counter()
    for alpha in sorted(how.alphas, reverse=True):
        tried[alpha] = denoise_slices(method, dictionaries, how, alpha, slices, judged, seed, noise_seeds[0], stride)
        reference = _slices(slices, judged, seed, noise_seeds[0], REFERENCE_SNR)
        scores[alpha] = float(psnr(tried[alpha].image, reference).mean())
        if scores[alpha] < max(scores.values()) - ENOUGH:
            break
    best = max(scores, key=lambda alpha: scores[alpha])
    numbers: dict[str, Any] = {"alpha": best, "scores": [[a, s] for a, s in scores.items()], "psnr": {}}
    arrays: dict[str, Float] = {}
    for noise_seed in noise_seeds:
        is_done = how.judges_on_test and noise_seed == noise_seeds[0]
        found = (
            tried[best]
            if is_done
            else denoise_slices(method, dictionaries, how, best, slices, test, seed, noise_seed, stride)
        )
        numbers["psnr"][str(noise_seed)] = measure(found.image, slices, test, seed, noise_seed)
        if noise_seed == noise_seeds[0]:
            numbers |= {"gap": found.gap, "nonzeros": found.nonzeros}
            arrays = {"image": found.image[:, :, 0].astype(np.float32), "use": found.use}
    numbers |= {
        "learning_seconds": learning,
        "coding_seconds": perf_counter() - began,
        "facts": {k: v for k, v in facts.items() if k in ("atoms", "attainment", "verdict", "lam", "alpha", "error_share")},
    }
    sides = zip(("angular", "spatial"), dictionaries, strict=True)
    return Result(numbers, arrays | {name: np.asarray(D) for name, D in sides if D is not None})


def whole(
    *, slices: list[int], test: list[int], seed: int, noise_seed: int, n_threads: int, patch: list[int]
) -> Result:
    """septum's own denoiser on all slices, its defaults but for the patch: it sees nothing but the noisy data."""
    from septum.dmri.denoise import denoise

    noisy = volume(seed, *slices).with_noise(SNR, seed=noise_seed)
    began = perf_counter()
    table = (noisy.gradients.bvals, noisy.gradients.bvecs)
    image = denoise(noisy.data, table, patch=patch, random_state=seed, n_jobs=n_threads)
    seconds = perf_counter() - began
    weighted = noisy.gradients.weighted
    chosen = np.asarray(image)[:, :, [z - slices[0] for z in test]]
    numbers = measure(chosen[..., weighted], slices, test, seed, noise_seed, is_corrected=True)
    return Result({"psnr": {str(noise_seed): numbers}, "seconds": seconds}, {"image": chosen[:, :, 0]})


def bounds(*, slices: list[int], test: list[int], seed: int, noise_seed: int) -> Result:
    """The raw data; the mean of the magnitudes, which is perfect denoising that leaves the noise floor; the truth."""
    raw = _slices(slices, test, seed, noise_seed, SNR)
    truth = _slices(slices, test, seed, noise_seed, None)
    floor = SIGMA * rician.mean(truth / SIGMA)
    images = {"raw": raw, "floor": floor, "truth": truth}
    found = {
        name: measure(image, slices, test, seed, noise_seed, is_corrected=name == "truth") for name, image in images.items()
    }
    return Result(found, {})


def measure(
    image: Float, slices: list[int], test: Sequence[int], seed: int, noise_seed: int, *, is_corrected: bool = False
) -> dict[str, list[float]]:
    """PSNR of each slice against SNR 30, against the truth, and against it once the noise floor is taken away.

    The floor is taken away at the known sigma, the same way for every method that does not do it itself.
    """
    truth = _slices(slices, test, seed, noise_seed, None)
    corrected = image if is_corrected else rician.correct(np.maximum(image, 0.0), SIGMA)
    found = (
        psnr(image, _slices(slices, test, seed, noise_seed, REFERENCE_SNR)),
        psnr(image, truth),
        psnr(corrected, truth),
    )
    return {metric: [float(v) for v in values] for metric, values in zip(METRICS, found, strict=True)}


def denoise_slices(
    method: str,
    dictionaries: Sequence[Any],
    how: Protocol,
    alpha: float,
    slices: list[int],
    test: Sequence[int],
    seed: int,
    noise_seed: int,
    stride: int = STRIDE,
) -> Denoised:
    """The slices that a method makes of the noisy ones."""
    noisy = _slices(slices, test, seed, noise_seed, SNR)
    if method == "I-SR + TV":
        image, gap = _with_total_variation(noisy, how, alpha)
        return Denoised(image, gap, None, np.zeros((0, 0)))
    patches = cut(noisy, stride)
    patches, means = centre(patches) if how.is_centred else (patches, np.zeros(1))
    coded = reconstruct(dictionaries, patches, alpha, refit=how.is_centred)
    image = join(coded.patches + means, noisy.shape, stride)
    return Denoised(image, coded.gap, coded.nonzeros, coded.use)


def _with_total_variation(noisy: Float, how: Protocol, alpha: float) -> tuple[Float, float]:
    """Whole slices, since total variation takes a patch's border for the image's."""
    x, y, n, g = noisy.shape
    whole_slices = np.ascontiguousarray(noisy.reshape(x * y, n, g).transpose(1, 2, 0))
    kept, means = centre(whole_slices) if how.is_centred else (whole_slices, np.zeros(1))
    row = catalogue.i_sr_tv(directions(), (x, y), tol=LASSO_TOLERANCE).fit(kept)
    image = row.reconstruct(kept, alpha) + means
    gap = max(float(r.gap) for r in row.results_ or [])
    return image.transpose(2, 0, 1).reshape(x, y, n, g), gap


def _learned(
    method: str,
    how: Protocol,
    slices: list[int],
    test: list[int],
    seed: int,
    n_patches: int,
    n_atoms: list[int],
    sweeps: int,
    training_seed: int,
) -> tuple[list[Any], dict[str, Any]]:
    axes = directions()
    if method == "I-SR + TV":
        return [catalogue.i_sr(axes).fit(np.zeros((1, len(axes), 1))).dictionaries_[0], None], {}
    clean = volume(seed, *slices).with_noise(REFERENCE_SNR, seed=training_seed)
    image = clean.data[..., clean.gradients.weighted]
    # Slices near the ends of the sphere hold little but background.
    usable = training_slices([z for z in range(*slices) if 5 <= z < 45], test, TUNING)
    places = [z - slices[0] for z in usable]
    patches = training_patches(image, places, n_patches, np.random.default_rng(training_seed))
    if how.is_centred:
        patches = centre(patches)[0]
    asked = Learning(
        (n_atoms[0], n_atoms[1]), sweeps, how.learning_alpha, how.steps, how.coding_alpha, training_seed
    )
    return learn(method, patches, axes, (PATCH, PATCH), asked)


# --- the data -----------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def volume(seed: int, first: int, stop: int) -> Phantom:
    """The phantom without noise, slices first:stop."""
    return simulate(seed=seed, slices=(first, stop))


@lru_cache(maxsize=16)
def _noisy(seed: int, first: int, stop: int, snr: float | None, noise_seed: int, slices: tuple[int, ...]) -> Float:
    phantom = volume(seed, first, stop)
    parts = [
        phantom.truth[:, :, z - first : z - first + 1]
        if snr is None
        else one_slice(phantom, z - first).with_noise(snr, seed=noise_seed).data
        for z in slices
    ]
    image = np.concatenate(parts, axis=2)[..., phantom.gradients.weighted].astype(np.float64)
    image.flags.writeable = False
    return image


def one_slice(phantom: Phantom, place: int) -> Phantom:
    """One slice as a phantom of its own, to be given its noise: only the data are cut."""
    return replace(phantom, truth=phantom.truth[:, :, place : place + 1], first_slice=phantom.first_slice + place)


def _slices(slices: list[int], chosen: Sequence[int], seed: int, noise_seed: int, snr: float | None) -> Float:
    """The weighted volumes of some slices (X, Y, n, G), read-only."""
    return _noisy(seed, slices[0], slices[1], snr, 0 if snr is None else noise_seed, tuple(chosen))


def directions() -> Float:
    """Of the weighted volumes, (G, 3)."""
    from septum.dmri.phantom import default_scheme

    scheme = default_scheme()
    return scheme.bvecs[scheme.weighted]
