"""Denoising: a diffusion image in, a better one out.

    inside     voxels that are not zero in every volume (and in the mask, if one is given)
    noise      sigma from the data, unless it is given                                  `noise`
    model      dictionaries from patches across the whole image, certified, or given    `model`
    means      the b0s' and each shell's mean map, filtered in space                    `wiener.cosine_layer`
    first      contrasts of every patch: components above the noise edge, averaged with the sparse
               representation in the dictionaries                                       `shrinkage`, `model.Coder`
    second     every patch filtered in the frame of the estimate so far, in turn with the expected signal
               of the magnitudes, which takes the noise floor away                      `wiener`, `rician`

Everything between is in units of the noise, and every stage is a sweep over bands of slices (`band`): beside
the input only the estimate is held, and some slices. The answer does not depend on the number of threads.
"""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from septum.array import Float
from septum.coding.thread import count_jobs
from septum.dmri import model as modelling
from septum.dmri.band import Band, Float32, Masked, Source, Sums, bands, empty_sums, sweep
from septum.dmri.contrast import Groups, group
from septum.dmri.gradient import Gradients
from septum.dmri.model import Coder, Model
from septum.dmri.noise import Noise, estimate, given
from septum.dmri.patch import Tiling, joint_cosines, parse_shape, tile
from septum.dmri.rician import check_coils, invert_mean, level_score, table
from septum.dmri.shrinkage import shrink_layer
from septum.dmri.wiener import cosine_layer, wiener_layer
from septum.errors import InvalidInputError

Callback = Callable[[float, str], Any]

FEWEST_DIRECTIONS = 6
FEWEST_VOXELS = 27
# Mean maps: coefficients beyond this many sigma are kept at first.
MEAN_THRESHOLD = 2.7
PER_BLOCK = 3
_NO_NOISE = (
    "no noise could be found in the image (is it noise-free, or too small?): give sigma (--noise) if you know it"
)
# How the work is shared out, for the progress shown.
_STAGES = {
    "noise": 0.08,
    "dictionaries": 0.22,
    "means": 0.05,
    "first estimate": 0.3,
    "second estimate": 0.33,
    "writing": 0.02,
}


@dataclass(frozen=True)
class Settings:
    """Checked parameters; `denoise` says what they mean."""

    patch: tuple[int, int, int] = (5, 5, 5)
    stride: tuple[int, int, int] = (3, 3, 3)
    n_coils: int = 1
    magnitude: bool = True
    centre: bool = True
    n_passes: int = 5
    n_patches: int = modelling.N_PATCHES
    n_jobs: int = 1
    seed: int = 0

    @property
    def second_patch(self) -> tuple[int, int, int]:
        """Patches of the second estimate: cubes of 4, or squares of 8 where the first are flat."""
        return (8, 8, 1) if self.patch[2] == 1 else (4, 4, 4)

    @property
    def second_stride(self) -> tuple[int, int, int]:
        return (2, 2, 1) if self.patch[2] == 1 else (1, 1, 1)


@dataclass(frozen=True, eq=False)
class Denoised:
    """What denoising gives.

    `data` (X, Y, Z, n_volumes) float32; `noise` the sigma used; `components` the effective number of components kept
    around each voxel and `variance_removed` the mean square of input minus output, both (X, Y, Z); `model` the
    dictionaries, or None where nothing stands out of the noise or none were wanted; `seconds` by stage.
    """

    data: Float32
    noise: Noise
    components: Float32
    variance_removed: Float32
    model: Model | None
    inside: NDArray[np.bool_]
    settings: Settings
    seconds: dict[str, float] = field(default_factory=dict)


def denoise(
    data: ArrayLike,
    gtab: Any,
    mask: ArrayLike | None = None,
    *,
    sigma: ArrayLike | None = None,
    n_coils: int = 1,
    magnitude: bool = True,
    model: Model | str | Path | bool = True,
    patch: int | Sequence[int] = 5,
    stride: int | Sequence[int] | None = None,
    centre: bool = True,
    n_passes: int = 5,
    n_patches: int = modelling.N_PATCHES,
    random_state: int = 0,
    n_jobs: int | None = -1,
    callback: Callback | None = None,
    full_output: bool = False,
) -> Any:
    """Denoise diffusion data with dictionaries learned from itself.

    Parameters
    ----------
    data : array (X, Y, Z, n_volumes)
        Raw magnitudes: neither interpolated nor corrected before. Never changed.
    gtab : DIPY GradientTable, or (bvals, bvecs)
    mask : array (X, Y, Z), optional
        True = inside; outside the result is zero. Voxels that are zero in every volume are always outside.
    sigma : number or array (X, Y, Z), optional
        The noise's standard deviation in each channel; None: estimated, as a map where it is uneven.
    n_coils : int
        Channels whose sum of squares the magnitude is: 1 for Rician noise (also SENSE, GRAPPA with SENSE-like
        combination), more for non-central chi noise.
    magnitude : bool
        False for data with Gaussian noise (real parts, or magnitudes already corrected for their noise floor).
    model : bool, Model or path
        True: learn dictionaries from these data; False: use none; or a model that `septum learn` made.
    patch, stride : int or sequence of int
        Patches of the first estimate: 5 for 5 x 5 x 5 voxels, (12, 12) for squares in each slice; and their distance.
    centre : bool
        Take the mean over each shell out of every voxel, filter it apart and put it back.
    n_passes : int
        How often the second estimate is renewed; 0 for the first estimate alone.
    n_patches : int
        Patches to learn from.
    random_state : int
        Chooses them.
    n_jobs : int
        Threads; -1: all. The result does not depend on it.
    callback : callable, optional
        Called as callback(fraction_done, what).
    full_output : bool
        Return a `Denoised` with the noise, maps and the certified model instead of the array alone.

    Returns
    -------
    array (X, Y, Z, n_volumes) float32, or a `Denoised`
    """
    from septum.dmri.image import DwiImage

    image = DwiImage.from_arrays(data, gtab, mask=mask, require_b0=False)
    settings = make_settings(
        patch=patch, stride=stride, n_coils=n_coils, magnitude=magnitude, centre=centre, n_passes=n_passes,
        n_patches=n_patches, n_jobs=n_jobs, seed=random_state,
    )  # fmt: skip
    found = run(image, image.gradients, settings, mask=image.mask, sigma=sigma, model=model, callback=callback)
    return found if full_output else found.data


def make_settings(
    *,
    patch: int | Sequence[int] = 5,
    stride: int | Sequence[int] | None = None,
    n_coils: int = 1,
    magnitude: bool = True,
    centre: bool = True,
    n_passes: int = 5,
    n_patches: int = modelling.N_PATCHES,
    n_jobs: int | None = -1,
    seed: int = 0,
) -> Settings:
    """Settings from what a user gives."""
    shape = parse_shape(patch)
    if np.prod(shape) < 8:
        raise InvalidInputError(f"patches of {' x '.join(map(str, shape))} are too small: give at least 8 voxels")
    steps = tuple(max(1, p - 2) if p < 8 else p // 2 for p in shape) if stride is None else parse_shape(stride, "stride")
    for name, value, least in (("n_passes", n_passes, 0), ("n_patches", n_patches, 1), ("random_state", seed, 0)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
            raise InvalidInputError(f"{name} must be a whole number of at least {least}, not {value!r}")
    return Settings(
        patch=shape,
        stride=steps,  # type: ignore[arg-type]
        n_coils=check_coils(n_coils),
        magnitude=bool(magnitude),
        centre=bool(centre),
        n_passes=int(n_passes),
        n_patches=int(n_patches),
        n_jobs=count_jobs(n_jobs),
        seed=int(seed),
    )


def run(
    source: Source,
    gradients: Gradients,
    settings: Settings,
    *,
    mask: NDArray[np.bool_] | None = None,
    sigma: ArrayLike | None = None,
    model: Model | str | Path | bool = True,
    memory: int | None = None,
    callback: Callback | None = None,
) -> Denoised:
    """Denoise what streams from `source`; where the estimate does not fit in `memory` bytes it is a temporary file."""
    if len(gradients.weighted) < FEWEST_DIRECTIONS:
        raise InvalidInputError(
            f"the image has {len(gradients.weighted)} diffusion-weighted volumes, but at least {FEWEST_DIRECTIONS} are "
            "needed: directions are denoised by what they share"
        )
    job = _Job(source if mask is None else Masked(source, mask), gradients, settings, callback)
    job.find_inside()
    job.find_noise(sigma)
    job.find_model(model)
    job.filter_means()
    job.make_first(memory)
    for k in range(settings.n_passes):
        job.make_second(k)
    return job.finish()


def find_inside(source: Source) -> NDArray[np.bool_]:
    """Voxels (X, Y, Z) that are not zero in every volume."""
    inside = np.zeros(source.shape[:3], dtype=bool)
    for z in range(source.shape[2]):
        inside[:, :, z] = (source.slab(z, z + 1)[:, :, 0] != 0).any(axis=-1)
    return inside


def visible(image: Any) -> Source:
    """An image as a source, zero outside its mask if it has one."""
    return image if image.mask is None else Masked(image, image.mask)


def noise_of(
    source: Source,
    inside: NDArray[np.bool_],
    gradients: Gradients,
    sigma: ArrayLike | None = None,
    *,
    n_coils: int = 1,
    n_jobs: int = 1,
) -> Noise:
    """The noise of an image for learning: as given, or estimated."""
    if sigma is not None:
        return given(sigma, source.shape, n_coils)
    found = estimate(source, inside, group(gradients), n_coils=check_coils(n_coils), n_jobs=n_jobs)
    if not found.sigma > 0:
        raise InvalidInputError(_NO_NOISE)
    return found


class _Job:
    """One image on its way through the stages; each leaves what the next needs."""

    source: Source
    inside: NDArray[np.bool_]
    noise: Noise
    model: Model | None
    means: Float32
    values: Float32
    components: Float32

    def __init__(self, source: Source, gradients: Gradients, settings: Settings, callback: Callback | None) -> None:
        self.source, self.gradients, self.settings = source, gradients, settings
        self.groups: Groups = group(gradients, centre=settings.centre)
        self.law = table(settings.n_coils)
        self.seconds: dict[str, float] = {}
        self._callback = callback or (lambda fraction, text: None)
        self._mark = perf_counter()

    @property
    def shape(self) -> tuple[int, int, int]:
        x, y, z, _ = self.source.shape
        return x, y, z

    # --- stages -----------------------------------------------------------------------------------

    def find_inside(self) -> None:
        self.inside = find_inside(self.source)
        if self.inside.sum() < FEWEST_VOXELS:
            where = " inside the mask" if isinstance(self.source, Masked) else ""
            raise InvalidInputError(
                f"only {int(self.inside.sum())} voxels{where} are not zero, but at least {FEWEST_VOXELS} are needed"
            )

    def find_noise(self, sigma: ArrayLike | None) -> None:
        settings = self.settings
        if sigma is not None:
            self.noise = given(sigma, self.shape, settings.n_coils)
        else:
            self.noise = estimate(
                self.source, self.inside, self.groups, n_coils=settings.n_coils, magnitude=settings.magnitude,
                n_jobs=settings.n_jobs, report=self._within("noise"),
            )  # fmt: skip
            if not self.noise.sigma > 0:
                raise InvalidInputError(_NO_NOISE)
        self._done("noise")

    def find_model(self, model: Model | str | Path | bool) -> None:
        report = self._within("dictionaries")
        if isinstance(model, (str, Path)):
            model = modelling.load(model)
        if isinstance(model, Model):
            model.check(self.gradients)
            self.model = model
        elif model:
            self.model = modelling.learn(
                [(self.source, self.inside, self.noise)],
                self.gradients,
                patch=self._tiling.shape,
                centre=self.settings.centre,
                n_patches=self.settings.n_patches,
                seed=self.settings.seed,
                n_jobs=self.settings.n_jobs,
                callback=lambda fraction, text: report(fraction),
            )
        else:
            self.model = None
        self._done("dictionaries")

    def filter_means(self) -> None:
        """The mean maps, in units of the noise, without most of it."""
        n = len(self.groups.members)
        raw = np.zeros((*self.shape, n), np.float32)
        for z in range(self.shape[2]):
            values = self.source.slab(z, z + 1)
            values /= self.noise.at(slice(z, z + 1))
            raw[:, :, z : z + 1] = self.groups.means(values)
        self.means = raw
        if n:
            self.means = self._filtered_maps(raw, raw, MEAN_THRESHOLD)
            self.means = self._filtered_maps(raw, self.means, 0.0)
        self._done("means")

    def make_first(self, memory: int | None) -> None:
        settings, tiling = self.settings, self._tiling
        self.values = self._room(memory)
        self.components = np.zeros(self.shape, np.float32)
        coder = None if self.model is None else Coder(self.model, self.groups)
        xs, ys, zs = tiling.starts

        def work(band: Band) -> Sums:
            contrast = modelling.contrasts_of(self.source, self.noise, self.groups, band.slices)
            sums = empty_sums(contrast.shape[:3], contrast.shape[3])  # type: ignore[arg-type]
            rank = np.empty((len(xs), len(ys)), np.int64)
            share = 1.0 if coder is None else 0.5
            for z in band.local:
                shrink_layer(
                    contrast, self.inside[:, :, band.slices], xs, ys, z, tiling.shape, self.groups.n_free,
                    np.float32(share), sums.total, sums.weight, sums.extra, rank,
                )  # fmt: skip
                if coder is not None:
                    coder.add_layer(contrast, tiling, int(z), rank, 1.0 - share, sums.total)
            return sums

        def finish(part: slice, contrast: Float, rank: Float) -> None:
            values = self.groups.joined(self.means[:, :, part], contrast)
            if settings.magnitude:
                flat = np.ascontiguousarray(values).reshape(-1)
                invert_mean(flat, np.broadcast_to(np.float32(1.0), flat.shape), self.law, flat)
                values = flat.reshape(values.shape)
            values[~self.inside[:, :, part]] = 0.0
            self.values[:, :, part] = values
            self.components[:, :, part] = rank

        sweep(bands(zs, tiling.shape[2], 1), work, finish, settings.n_jobs, self._within("first estimate"))
        self._done("first estimate")

    def make_second(self, count: int) -> None:
        settings = self.settings
        tiling = tile(self.shape, settings.second_patch, settings.second_stride)
        xs, ys, zs = tiling.starts
        cosines = joint_cosines(tiling.shape)

        def work(band: Band) -> Sums:
            data = np.ascontiguousarray(self.source.slab(band.low, band.high))
            data /= self.noise.at(band.slices)
            pilot = np.ascontiguousarray(self.values[:, :, band.slices])
            within = self.inside[:, :, band.slices]
            data[~within] = 0.0
            if settings.magnitude:
                flat = data.reshape(-1)
                level_score(flat, pilot.reshape(-1), self.law, flat)
            sums = empty_sums(data.shape[:3], data.shape[3])  # type: ignore[arg-type]
            wiener_layer(
                data,
                pilot,
                within,
                xs,
                ys,
                band.local,
                tiling.shape,
                PER_BLOCK,
                cosines,
                sums.total,
                sums.weight,
                sums.extra,
            )
            return sums

        def finish(part: slice, values: Float, kept: Float) -> None:
            values[~self.inside[:, :, part]] = 0.0
            self.values[:, :, part] = np.maximum(values, 0.0) if settings.magnitude else values
            self.components[:, :, part] = kept

        report = self._within("second estimate")
        total = settings.n_passes
        sweep(
            bands(zs, tiling.shape[2], PER_BLOCK), work, finish, settings.n_jobs,
            lambda fraction: report((count + fraction) / total),
        )  # fmt: skip
        self._done("second estimate")

    def finish(self) -> Denoised:
        """Back to the image's units, and what was taken away."""
        removed = np.zeros(self.shape, np.float32)
        for z in range(self.shape[2]):
            part = slice(z, z + 1)
            self.values[:, :, part] *= self.noise.at(part)
            taken = self.source.slab(z, z + 1) - self.values[:, :, part]
            removed[:, :, part] = np.where(self.inside[:, :, part], (taken**2).mean(axis=-1), 0.0)
        self.components[~self.inside] = 0.0
        self._callback(1.0, "done")
        return Denoised(
            self.values, self.noise, self.components, removed, self.model, self.inside, self.settings, dict(self.seconds)
        )

    # --- their tools ------------------------------------------------------------------------------

    @property
    def _tiling(self) -> Tiling:
        """The first estimate's patches; a given model brings their shape."""
        shape = self.settings.patch
        found = getattr(self, "model", None)
        return tile(self.shape, shape if found is None else found.patch, self.settings.stride)

    def _filtered_maps(self, raw: Float32, pilot: Float32, threshold: float) -> Float32:
        tiling = tile(self.shape, self.settings.second_patch, self.settings.second_stride)
        xs, ys, zs = tiling.starts
        cosines = joint_cosines(tiling.shape)
        out = np.zeros_like(raw)

        def work(band: Band) -> Sums:
            data, guess = (np.ascontiguousarray(maps[:, :, band.slices]) for maps in (raw, pilot))
            sums = empty_sums(data.shape[:3], data.shape[3])  # type: ignore[arg-type]
            within = self.inside[:, :, band.slices]
            for z in band.local:
                cosine_layer(
                    data, guess, within, xs, ys, z, tiling.shape, cosines, np.float32(threshold), sums.total, sums.weight
                )
            return sums

        def finish(part: slice, values: Float, extra: Float) -> None:
            out[:, :, part] = values

        sweep(bands(zs, tiling.shape[2], PER_BLOCK), work, finish, self.settings.n_jobs, self._within("means"))
        return out

    def _room(self, memory: int | None) -> Float32:
        """The estimate, in memory or in an unnamed temporary file."""
        size = 4 * int(np.prod(self.source.shape))
        if memory is None or 2 * size <= memory:
            return np.zeros(self.source.shape, np.float32)
        with tempfile.TemporaryFile(prefix="septum-") as spool:
            spool.truncate(size)
            return np.memmap(spool, dtype=np.float32, mode="r+", shape=self.source.shape)

    def _within(self, stage: str) -> Callable[[float], None]:
        """A report on one stage as part of the whole."""
        names = list(_STAGES)
        before = sum(_STAGES[name] for name in names[: names.index(stage)])
        return lambda fraction: self._callback(before + _STAGES[stage] * min(max(fraction, 0.0), 1.0), stage)

    def _done(self, stage: str) -> None:
        now = perf_counter()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self._mark
        self._mark = now
