"""The demonstration: a slab of the phantom, noise, dictionaries, denoising, and what came of it.

Everything is made on the spot and scored against the truth, which the denoiser never sees.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from septum.array import Float
from septum.dmri.denoise import Denoised, denoise
from septum.dmri.image import DwiImage
from septum.dmri.odf import OdfField, constant_solid_angle, peaks
from septum.dmri.phantom import Phantom, simulate

Report = Callable[[float, str], Any]

SLICES = (18, 30)
SNR = 15.0
ODF_ORDER = 6


@dataclass(frozen=True)
class Demo:
    """A phantom, what denoising made of it, and the seconds each took."""

    phantom: Phantom
    denoised: Denoised
    seconds: dict[str, float]

    @property
    def scores(self) -> dict[str, tuple[float, float]]:
        """Before and after: PSNR in dB against the truth, and the error of the main fibre direction in degrees."""
        truth, weighted = self.phantom.truth, self.phantom.gradients.weighted
        places = {
            "PSNR, whole slab": np.ones(truth.shape[:3], dtype=bool),
            "PSNR, inside the phantom": self.phantom.mask,
            "PSNR, white matter": self.phantom.white_matter,
        }
        peak = float(truth[..., weighted].max())
        both = (self.phantom.data, self.denoised.data)
        found = {
            name: tuple(psnr(image[..., weighted][where], truth[..., weighted][where], peak) for image in both)
            for name, where in places.items()
        }
        found["main direction, median error"] = tuple(self.direction_error(self.field(image)) for image in both)
        return found  # type: ignore[return-value]

    def field(self, image: Float) -> OdfField:
        """The ODFs of an image of this phantom."""
        source = DwiImage.from_arrays(image, self.phantom.gradients, self.phantom.affine)
        return constant_solid_angle(source, order=ODF_ORDER, mask=self.phantom.mask)

    def direction_error(self, field: OdfField) -> float:
        """The median angle between the main peak and the true fibre where one fibre rules."""
        single = self.phantom.white_matter & (self.phantom.shares[..., 0] > 0.9)
        found = peaks(field, n_peaks=1).directions[..., 0, :][single].astype(np.float64)
        true = self.phantom.directions[..., 0, :][single].astype(np.float64)
        found = found * voxel_signs(self.phantom)
        cosine = np.abs(np.einsum("vd,vd->v", found, true))
        return float(np.degrees(np.median(np.arccos(np.clip(cosine, 0.0, 1.0)))))


def voxel_signs(phantom: Phantom) -> Float:
    """The turn from the frame of the .bvec file to the array's axes, as signs: the phantom's axes are not tilted."""
    turned = phantom.gradients.in_voxel_axes(phantom.affine)
    given = phantom.gradients.bvecs
    return np.sign(np.einsum("gd,gd->d", turned, given))


def psnr(image: Float, truth: Float, peak: float) -> float:
    """10 log10(peak^2 / mean squared error)."""
    return float(10.0 * np.log10(peak**2 / np.mean((image.astype(np.float64) - truth) ** 2)))


def run(*, seed: int = 0, n_threads: int = 1, report: Report = lambda fraction, text: None) -> Demo:
    """Simulate, denoise; dictionaries are learnt from the noisy slab itself."""
    marks = [perf_counter()]
    phantom = simulate(snr=SNR, seed=seed, slices=SLICES, callback=lambda f, text: report(0.15 * f, text))
    marks.append(perf_counter())
    denoised = denoise(
        phantom.data,
        (phantom.gradients.bvals, phantom.gradients.bvecs),
        random_state=seed,
        n_jobs=n_threads,
        callback=lambda f, text: report(0.15 + 0.6 * f, text),
        full_output=True,
    )
    marks.append(perf_counter())
    return Demo(phantom, denoised, dict(zip(("simulation", "denoising"), np.diff(marks).tolist(), strict=True)))


def closeups(demo: Demo, window: Sequence[slice] | None = None) -> list[tuple[str, Any]]:
    """ODF fields of the same few voxels: truth, noisy, denoised."""
    from septum import plot

    middle = demo.phantom.truth.shape[2] // 2
    area = tuple(window or busiest_window(demo.phantom.white_matter[:, :, middle]))
    words = {
        "The truth": demo.phantom.truth,
        f"With noise (SNR {SNR:g})": demo.phantom.data,
        "Denoised": demo.denoised.data,
    }
    return [
        (caption, plot.odf_field(demo.field(image), axis=2, index=middle, window=area))
        for caption, image in words.items()
    ]


def busiest_window(inside: Float, size: int = 12) -> tuple[slice, slice]:
    """The square of voxels that holds the most of a mask."""
    total = np.cumsum(np.cumsum(np.pad(inside.astype(int), ((1, 0), (1, 0))), axis=0), axis=1)
    count = total[size:, size:] - total[:-size, size:] - total[size:, :-size] + total[:-size, :-size]
    x, y = np.unravel_index(int(np.argmax(count)), count.shape)
    return slice(int(x), int(x) + size), slice(int(y), int(y) + size)
