"""Curvelets: the uniform discrete curvelet transform of the `curvelets` package, as a real dictionary.

The transform of a real image x has complex coefficients c_k = <x, phi_k> and is a Parseval frame,
x = Re sum_k c_k phi_k. The real atoms are therefore Re phi_k and -Im phi_k, and the dictionary is
[Re phi, -Im phi] diag(1/s) with s the atoms' norms: synthesis is the package's inverse transform,
correlation its forward transform, and x = D (s^2 * D^T x) for every image x.

The transform is exact only where a power of two (by its scales and wedges) divides the image's lengths,
so an image of another shape is continued with zeros to the next such shape; its atoms are the larger image's, cut to it, and
the frame stays Parseval. Within one band all atoms are shifts of one another on the decimated grid, so
all norms come from one atom of each band: the norm of a cut atom is the correlation of the squared
atom with the window.

Section 7 of the paper uses them on patches (Curve-SR): there the dictionary is a matrix. On whole
slices and volumes it is an operator. Transform: Nguyen and Chauris, "Uniform discrete curvelet
transform", IEEE Transactions on Signal Processing 58(7), 2010.
"""

from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse.linalg import LinearOperator

from septum.array import Float
from septum.dictionaries.atom import as_count, as_extent, unit_columns
from septum.errors import InvalidInputError, MissingExtraError

_LARGEST_MATRIX = 1024  # entries of an image whose dictionary is a matrix unless an operator is asked for


def curvelet(
    shape: tuple[int, ...],
    *,
    scales: int = 3,
    wedges: int = 3,
    operator: bool | None = None,
    dtype: DTypeLike = np.float64,
) -> "Float | CurveletOperator":
    """Curvelet atoms for images of `shape` (two or more axes): a (d, r) matrix or an operator of that shape.

    `scales` counts the low-pass band too; `wedges`, a multiple of 3, is the number of directions at
    the coarsest scale and doubles with each finer one. By default images of up to 1024 entries give
    a matrix. Atoms have unit norm either way; the matrix leaves out atoms that the shape cuts away.
    """
    transform = CurveletOperator(shape, scales=scales, wedges=wedges, dtype=dtype)
    if operator is None:
        operator = transform.shape[0] > _LARGEST_MATRIX
    return (
        transform if operator else unit_columns(transform @ np.eye(transform.shape[1], dtype=transform.dtype))
    )


class CurveletOperator(LinearOperator):
    """The curvelet dictionary as a SciPy operator: `matvec` synthesises, `rmatvec` correlates.

    `norms` holds the norms s of the frame's atoms before scaling, and `analysis(x)` the canonical
    coefficients s^2 * D^T x, from which `matvec` gives x back. Atoms that the window cuts away
    entirely have norm zero and stay as zero columns.
    """

    norms: Float

    def __init__(
        self, shape: tuple[int, ...], *, scales: int = 3, wedges: int = 3, dtype: DTypeLike = np.float64
    ) -> None:
        self.image_shape = as_extent(shape)
        self._transform, self.padded_shape = _transform(
            self.image_shape, as_count(scales, "scales", least=2), as_count(wedges, "wedges")
        )
        self._window = tuple(slice(length) for length in self.image_shape)
        kind = np.dtype(dtype)
        if kind not in (np.dtype(np.float32), np.dtype(np.float64)):
            raise InvalidInputError(f"dtype must be float32 or float64, not {kind}")
        self._complex = np.result_type(kind, np.complex64)
        norms = self._band_norms()
        # The imaginary part of the low-pass band synthesises nothing; it is no atom.
        self._real = norms.size // 2
        self._kept = np.ones(norms.size, dtype=bool)
        lowpass = self._transform.forward(np.zeros(self.padded_shape))[0][0][0].size
        self._kept[self._real : self._real + lowpass] = False
        self.norms = norms[self._kept].astype(kind)
        scale = np.zeros_like(self.norms)
        self._scale = np.divide(1, self.norms, out=scale, where=self.norms > 1e-8 * self.norms.max())
        super().__init__(kind, (prod(self.image_shape), self.norms.size))

    def analysis(self, image: Float) -> Float:
        """The canonical coefficients of an image, flat or of the image's shape."""
        return self.norms**2 * self.rmatvec(np.asarray(image, dtype=self.dtype).ravel())

    def _matvec(self, codes: Float) -> Float:
        parts = np.zeros(self._kept.size, dtype=self.dtype)
        parts[self._kept] = self._scale * codes.ravel()
        return self._synthesise(parts[: self._real] + 1j * parts[self._real :])[self._window].ravel()

    def _rmatvec(self, image: Float) -> Float:
        padded = np.zeros(self.padded_shape, dtype=self.dtype)
        padded[self._window] = np.reshape(image, self.image_shape)
        coefficients = self._transform.vect(self._transform.forward(padded))
        parts = np.concatenate([coefficients.real, coefficients.imag])
        return self._scale * parts[self._kept].astype(self.dtype, copy=False)

    def _matmat(self, codes: Float) -> Float:
        return np.stack([self._matvec(column) for column in codes.T], axis=1)

    def _rmatmat(self, images: Float) -> Float:
        return np.stack([self._rmatvec(column) for column in images.T], axis=1)

    def _synthesise(self, coefficients: NDArray[np.complexfloating]) -> Float:
        return self._transform.backward(
            self._transform.struct(coefficients.astype(self._complex, copy=False))
        )

    def _band_norms(self) -> Float:
        """The norms of all cut atoms, in the order [real parts, imaginary parts], one atom a band computed."""
        window = np.zeros(self.padded_shape)
        window[self._window] = 1.0
        spectrum = np.fft.rfftn(window)
        shapes = [band.shape for scale in self._transform.forward(window) for way in scale for band in way]
        starts = np.cumsum([0] + [prod(shape) for shape in shapes])
        norms = np.empty((2, starts[-1]))
        for part, unit in enumerate((1.0, 1.0j)):
            for start, stop, shape in zip(starts, starts[1:], shapes, strict=False):
                one = np.zeros(starts[-1], dtype=np.complex128)
                one[start] = unit
                squared = self._transform.backward(self._transform.struct(one)) ** 2
                if self.padded_shape == self.image_shape:
                    norms[part, start:stop] = np.sqrt(squared.sum())
                else:
                    norms[part, start:stop] = np.sqrt(_seen_energy(squared, spectrum, shape)).ravel()
        return norms.ravel()


def _seen_energy(
    squared: Float, window_spectrum: NDArray[np.complexfloating], grid: tuple[int, ...]
) -> Float:
    """sum_x w(x) g(x - s)^2 for every shift s of the grid: a correlation, by FFT."""
    axes = tuple(range(squared.ndim))
    energy = np.fft.irfftn(window_spectrum * np.fft.rfftn(squared).conj(), squared.shape, axes=axes)
    every = tuple(slice(None, None, full // kept) for full, kept in zip(squared.shape, grid, strict=True))
    return np.maximum(energy[every], 0)


def _transform(image_shape: tuple[int, ...], scales: int, wedges: int) -> tuple[Any, tuple[int, ...]]:
    """The package's transform at the smallest multiple-of-2^k shape that holds the image and is exact."""
    if len(image_shape) < 2:
        raise InvalidInputError(f"curvelets need an image of two or more axes, not shape {image_shape}")
    if wedges % 3 or (wedges // 3) & (wedges // 3 - 1):
        raise InvalidInputError(f"wedges must be 3, 6, 12, ..., not {wedges}")
    try:
        from curvelets.numpy import UDCT
    except ImportError as error:
        raise MissingExtraError("curvelets") from error
    for power in range(max(2, scales - 1), scales + 6):
        padded = tuple(-(-length // 2**power) * 2**power for length in image_shape)
        with np.errstate(all="ignore"):
            try:
                transform = UDCT(padded, num_scales=scales, wedges_per_direction=wedges)
            except ValueError:  # too small for its windows
                continue
            if _is_exact(transform, padded):
                return transform, padded
    raise InvalidInputError(
        f"curvelets of {scales} scales and {wedges} wedges do not fit an image of shape {image_shape}: use fewer"
    )


def _is_exact(transform: Any, shape: tuple[int, ...]) -> bool:
    """Whether the inverse transform undoes the forward one and keeps the energy, on a generic image."""
    image = np.random.default_rng(0).standard_normal(shape)
    coefficients = transform.forward(image)
    energy = np.linalg.norm(transform.vect(coefficients)) ** 2
    close = bool(np.abs(transform.backward(coefficients) - image).max() < 1e-9)
    return close and bool(abs(energy / np.sum(image**2) - 1) < 1e-9)
