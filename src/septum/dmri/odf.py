"""Orientation distribution functions by constant solid angle, in spherical harmonics.

The attenuation E = S / S0 of one shell gives, with c the coefficients of ln(-ln E) in real even harmonics
(fitted with a Laplace-Beltrami penalty),

    ODF = 1/(4 pi) + 1/(16 pi^2) FRT[Laplace-Beltrami of ln(-ln E)]
    coefficients: 1/(2 sqrt(pi)) for l = 0, and -l(l + 1) P_l(0) c_lm / (8 pi) otherwise

(I. Aganj et al., Magnetic Resonance in Medicine 64, 2010). The coefficients are in DIPY's default basis,
"descoteaux07" with its legacy signs, in the frame of the .bvec file. `peaks` finds the main directions of an
ODF, `generalized_anisotropy` how far it is from a sphere.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.special import eval_legendre

from septum.dmri.glyph import odf_field_picture
from septum.dmri.gradient import Gradients, Shell, voxel_turn
from septum.dmri.harmonic import basis, degrees, laplace_beltrami
from septum.dmri.image import DwiImage
from septum.dmri.sphere import icosphere
from septum.errors import InvalidInputError

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]

__all__ = [
    "OdfField",
    "Peaks",
    "choose_shell",
    "constant_solid_angle",
    "csa_coefficients",
    "csa_matrix",
    "odf_field_picture",
    "peaks",
]

LOWEST, HIGHEST = 0.001, 0.999


@dataclass(frozen=True, eq=False)
class OdfField:
    """Coefficients (X, Y, Z, n) of each voxel's ODF; zero outside the mask."""

    coefficients: Float32
    order: int
    mask: NDArray[np.bool_]
    affine: Float64

    def sample(self, directions: Float64, voxels: Any = slice(None)) -> Float64:
        """The ODFs of some voxels at unit vectors (in the frame of the .bvec file)."""
        return self.coefficients[voxels].astype(np.float64) @ basis(directions, self.order).T

    def sample_in_voxel_axes(self, directions: Float64, voxels: Any = slice(None)) -> Float64:
        """The ODFs of some voxels at unit vectors along the array's own axes."""
        return self.sample(directions * voxel_turn(self.affine), voxels)

    def generalized_anisotropy(self) -> Float32:
        """sqrt(1 - mean^2 / mean of squares) over the sphere: 0 for a sphere, towards 1 for a needle."""
        squares = np.sum(self.coefficients.astype(np.float64) ** 2, axis=-1)
        mean = self.coefficients[..., 0].astype(np.float64) ** 2
        ratio = np.divide(mean, squares, out=np.ones_like(mean), where=squares > 0)
        return np.sqrt(np.clip(1.0 - ratio, 0.0, 1.0)).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Peaks:
    """Up to K directions a voxel (X, Y, Z, K, 3), the highest first, zero where there are fewer; and heights."""

    directions: Float32
    values: Float32


def constant_solid_angle(
    image: DwiImage,
    *,
    order: int = 8,
    shell: float | None = None,
    smooth: float = 0.006,
    mask: NDArray[np.bool_] | None = None,
    callback: Callable[[float, str], Any] | None = None,
) -> OdfField:
    """The ODF of every voxel (inside the mask) from one shell: the highest with enough directions, or `shell`."""
    chosen = choose_shell(image.gradients, order, shell)
    fit = csa_matrix(image.gradients.bvecs[chosen.volumes], order, smooth)
    inside = _inside(image, mask)
    b0 = image.mean_b0()
    inside = inside & (b0 > 0)
    if not inside.any():
        raise InvalidInputError("no voxel has a positive b0 signal (inside the mask): nothing to fit")
    out = np.zeros((*image.shape[:3], len(degrees(order))), dtype=np.float32)
    for slab in image.slabs(max(1, 2**24 // max(1, image.nbytes // image.shape[2]))):
        part = (slice(None), slice(None), slice(slab.start, slab.stop))
        rows = inside[part]
        signal = slab.data[..., chosen.volumes][rows] / b0[part][rows][:, None]
        out[part][rows] = csa_coefficients(signal, fit)
        if callback is not None:
            callback(slab.stop / image.shape[2], "orientations")
    return OdfField(out, order, inside, image.affine)


def choose_shell(gradients: Gradients, order: int, bvalue: float | None = None) -> Shell:
    """The shell to fit: the one nearest a b-value, else the highest with enough directions for the order."""
    needed = len(degrees(order))
    if not gradients.b0s.size:
        raise InvalidInputError("an ODF needs a b0 volume, and this image has none")
    if bvalue is not None:
        return min(gradients.shells, key=lambda s: abs(s.bvalue - bvalue))
    enough = [s for s in gradients.shells if len(s) >= needed]
    if not enough:
        most = max(len(s) for s in gradients.shells)
        raise InvalidInputError(
            f"order {order} needs {needed} directions on one shell, but the most here is {most}: give a lower --order"
        )
    return enough[-1]


def csa_matrix(directions: Float64, order: int, smooth: float = 0.006) -> Float64:
    """From ln(-ln E) at the shell's directions to coefficients: (n_coefficients, n_directions)."""
    if order < 2 or order % 2:
        raise InvalidInputError(f"the order must be even and at least 2, not {order}")
    harmonics = basis(directions, order)
    eigenvalues = laplace_beltrami(order)
    penalty = np.diag(smooth * eigenvalues**2)
    fit = np.linalg.solve(harmonics.T @ harmonics + penalty, harmonics.T)
    funk_radon = eval_legendre(degrees(order), 0.0)
    return (eigenvalues * funk_radon / (8 * np.pi))[:, None] * fit


def csa_coefficients(attenuation: NDArray[np.floating], fit: Float64) -> Float64:
    """The ODF's coefficients from attenuations (n_voxels, n_directions), kept inside (0.001, 0.999)."""
    kept = np.clip(attenuation.astype(np.float64), LOWEST, HIGHEST)
    out = np.log(-np.log(kept)) @ fit.T
    out[:, 0] = 0.5 / np.sqrt(np.pi)
    return out


def peaks(
    field: OdfField,
    *,
    n_peaks: int = 3,
    relative: float = 0.5,
    separation: float = 25.0,
    level: int = 3,
    callback: Callable[[float, str], Any] | None = None,
) -> Peaks:
    """The highest local maxima of each ODF above its minimum plus `relative` of its range, well apart.

    Maxima are looked for on a subdivided icosahedron and moved to the top of the paraboloid through their
    neighbours, which brings them within a fraction of a degree.
    """
    sphere = icosphere(level)
    neighbours = sphere.neighbours()
    frames, fits = _paraboloids(sphere.vertices, neighbours)
    voxels = np.argwhere(field.mask)
    directions = np.zeros((*field.mask.shape, n_peaks, 3), dtype=np.float32)
    values = np.zeros((*field.mask.shape, n_peaks), dtype=np.float32)
    harmonics = basis(sphere.vertices, field.order).T
    step = max(1, 2**23 // len(sphere.vertices))
    for start in range(0, len(voxels), step):
        index = tuple(voxels[start : start + step].T)
        odf = field.coefficients[index].astype(np.float64) @ harmonics
        directions[index], values[index] = _find_peaks(
            odf,
            sphere.vertices,
            sphere.half(),
            neighbours,
            frames,
            fits,
            n_peaks,
            relative,
            np.cos(np.radians(separation)),
        )
        if callback is not None:
            callback(min(1.0, (start + step) / len(voxels)), "peaks")
    return Peaks(directions, values)


def _paraboloids(vertices: Float64, neighbours: NDArray[np.int64]) -> tuple[Float64, Float64]:
    """For each vertex a tangent frame (3, 2), and what fits g.u + a u^2 + b u v + c v^2 to its neighbours (5, 6)."""
    frames = np.empty((len(vertices), 3, 2))
    fits = np.empty((len(vertices), 5, 6))
    for vertex, centre in enumerate(vertices):
        ring = vertices[neighbours[vertex]]
        first = ring[0] - centre * (ring[0] @ centre)
        first /= np.linalg.norm(first)
        frames[vertex] = np.column_stack([first, np.cross(centre, first)])
        u, v = (ring @ frames[vertex]).T
        fits[vertex] = np.linalg.pinv(np.column_stack([u, v, u * u, u * v, v * v]))
    return frames, fits


@njit(cache=True, nogil=True)
def _find_peaks(odfs, vertices, half, neighbours, frames, fits, n_peaks, relative, limit):  # type: ignore[no-untyped-def]
    n = len(odfs)
    directions = np.zeros((n, n_peaks, 3), dtype=np.float32)
    values = np.zeros((n, n_peaks), dtype=np.float32)
    for row in range(n):
        odf = odfs[row]
        low, high = odf.min(), odf.max()
        if high - low <= 1e-9:
            continue
        threshold = low + relative * (high - low)
        kept = np.empty(n_peaks, dtype=np.int64)
        for rank in range(n_peaks):
            best = -1
            for vertex in half:
                if odf[vertex] < threshold or (best >= 0 and odf[vertex] <= odf[best]):
                    continue
                is_peak = True
                for k in range(neighbours.shape[1]):
                    is_peak &= odf[vertex] >= odf[neighbours[vertex, k]]
                for other in kept[:rank]:
                    cosine = 0.0
                    for a in range(3):
                        cosine += vertices[vertex, a] * vertices[other, a]
                    is_peak &= abs(cosine) <= limit
                if is_peak:
                    best = vertex
            if best < 0:
                break
            kept[rank] = best
            values[row, rank] = odf[best]
            _top(odf, best, vertices, neighbours, frames, fits, directions[row, rank])
    return directions, values


@njit(cache=True)
def _top(odf, vertex, vertices, neighbours, frames, fits, out):  # type: ignore[no-untyped-def]
    """The top of the paraboloid through a vertex and its neighbours, no further than one of them."""
    fit = np.zeros(5)
    for c in range(5):
        for k in range(neighbours.shape[1]):
            fit[c] += fits[vertex, c, k] * (odf[neighbours[vertex, k]] - odf[vertex])
    gu, gv, a, b, c = fit
    determinant = 4 * a * c - b * b
    u, v = 0.0, 0.0
    if determinant > 0 and a < 0:
        u, v = (b * gv - 2 * c * gu) / determinant, (b * gu - 2 * a * gv) / determinant
        reach = 0.0
        for k in range(3):
            reach += (vertices[neighbours[vertex, 0], k] - vertices[vertex, k]) ** 2
        length = np.sqrt((u * u + v * v) / reach)
        if length > 1:
            u, v = u / length, v / length
    norm = np.sqrt(1 + u * u + v * v)
    for k in range(3):
        out[k] = (vertices[vertex, k] + u * frames[vertex, k, 0] + v * frames[vertex, k, 1]) / norm


def _inside(image: DwiImage, mask: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
    if mask is not None:
        return mask
    return np.ones(image.shape[:3], dtype=bool) if image.mask is None else image.mask
