"""Angular sparse coding with total variation over the image, the paper's row I-SR + TV.

    min over C of  1/2 ||Gamma C - S||^2 + alpha ||C||_1 + beta sum_g TV((Gamma C)_g)

for S of shape (G, V), V the pixels of an image, TV isotropic with forward differences. Written in the
image Z = Gamma C it is the proximal point of a sum, of beta TV and of alpha Omega(Z), the least ||C||_1 over
Gamma C = Z. Each of the two has a library of its own, the TV prox of scikit-image and `septum.sparse_code`, and
the dual splits in two blocks, w for TV and q for Omega:

    max  1/2 ||S||^2 - 1/2 ||S - w - q||^2   with w = beta div-transpose of a field |p| <= 1, ||Gamma^T q||_inf <= alpha.

Solving the blocks in turn is the Dykstra-like splitting of Bauschke and Combettes (2008): w is what the TV
prox takes away from S - q, q what sparse coding leaves of S - w. With extrapolation of q it is the
accelerated block descent of Chambolle and Pock (SMAI Journal of Computational Mathematics 1, 2015).

The duality gap trusts neither library. Its primal side is the objective at C. Its dual side scales q into
the box and finds a field p of its own by projected gradient, so every lower bound is valid however rough
the inner solves were.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from septum.array import Float, as_alpha, as_dictionaries, as_samples
from septum.coding import sparse_code
from septum.dictionaries.atom import as_count, as_extent, as_positive
from septum.errors import InvalidInputError, MissingExtraError

_CHECKS = 2, 4  # a first certificate after 2 outer steps, then after every 4
_LARGEST_PROX = 3200  # inner iterations of the TV prox, which double with each failed certificate
_FIELD_STEPS = 100  # projected gradient steps of a certificate


@dataclass(frozen=True)
class TotalVariationResult:
    """Codes and image of one slice, and how far they are from the optimum.

    Attributes
    ----------
    codes : sparse COO array (V, r), one row for each pixel.
    image : (G, V), Gamma C.
    objective, lower_bound : float, at the returned codes, and what no codes can go below.
    gap : float, their difference over the objective of zero codes, 1/2 ||S||^2.
    n_iter : int
    converged : bool, gap <= tol.
    """

    codes: sparse.coo_array
    image: Float
    objective: float
    lower_bound: float
    gap: float
    n_iter: int
    converged: bool


def total_variation_code(
    S: ArrayLike,
    angular: ArrayLike,
    image_shape: tuple[int, ...],
    alpha: float,
    beta: float,
    *,
    tol: float = 1e-3,
    max_iter: int = 100,
    prox_iter: int = 50,
) -> TotalVariationResult:
    """Code one slice S (G, V) on the angular dictionary (G, r), with TV over its V = prod(image_shape) pixels.

    Stops when the duality gap is at most `tol` times the objective of zero codes. `prox_iter` caps the
    inner iterations of the TV prox; it doubles whenever the gap is found too large.
    """
    prox = _library_prox()
    slice_ = as_samples(S, name="S").data
    extent = as_extent(image_shape, "image_shape")
    if slice_.ndim != 2 or slice_.shape[1] != prod(extent):
        raise InvalidInputError(
            f"S must be (G, {prod(extent)}) for images of shape {extent}, not {slice_.shape}"
        )
    (atoms,) = as_dictionaries([angular], slice_.shape[:1], dtype=slice_.dtype)
    problem = _Problem(slice_, atoms, extent, as_alpha(alpha), as_positive(beta, "beta"))
    as_positive(tol, "tol", or_zero=True)
    as_count(prox_iter, "prox_iter")
    return _descend(problem, prox, float(tol), as_count(max_iter, "max_iter"), prox_iter)


def _library_prox() -> Callable[..., Float]:
    try:
        from skimage.restoration import denoise_tv_chambolle
    except ImportError as error:
        raise MissingExtraError("scikit-image") from error
    return denoise_tv_chambolle


@dataclass(frozen=True)
class _Problem:
    data: Float
    atoms: Float
    extent: tuple[int, ...]
    alpha: float
    beta: float

    def images(self, flat: Float) -> Float:
        """(G, V) as G images."""
        return flat.reshape(len(flat), *self.extent)

    def objective(self, codes: sparse.csr_array, image: Float) -> float:
        fit = np.sum((image - self.data) ** 2, dtype=np.float64) / 2
        return float(fit + self.alpha * np.abs(codes.data).sum() + self.beta * variation(self.images(image)))

    def lower_bound(self, residual: Float, field: Float) -> tuple[float, Float]:
        """The dual value at q = `residual` scaled into its box and the best p found from `field`; and that p."""
        peak = np.abs(self.atoms.T @ residual).max(axis=0)
        q = residual * np.minimum(1, self.alpha / np.maximum(peak, np.finfo(peak.dtype).tiny))
        rest = self.data - q
        field = _fit_field(self.images(rest), self.beta, field)
        left = rest - adjoint_gradient(field).reshape(rest.shape)
        value = (np.sum(self.data**2, dtype=np.float64) - np.sum(left**2, dtype=np.float64)) / 2
        return float(value), field


def _descend(
    problem: _Problem, prox: Callable[..., Float], tol: float, max_iter: int, prox_iter: int
) -> TotalVariationResult:
    data = problem.data
    start = np.sum(data**2, dtype=np.float64) / 2
    q = q_ahead = np.zeros_like(data)
    field = np.zeros((len(problem.extent), len(data), *problem.extent), dtype=data.dtype)
    codes, momentum, accuracy = None, 1.0, 1e-2
    best: tuple[float, sparse.csr_array, Float] | None = None
    bound = 0.0
    step = 0
    for step in range(1, max_iter + 1):
        rest = data - q_ahead
        smooth = prox(
            problem.images(rest), weight=problem.beta, eps=1e-8, max_num_iter=prox_iter, channel_axis=0
        ).reshape(data.shape)
        w = rest - smooth
        coded = sparse_code(
            (data - w).T, [problem.atoms], problem.alpha, tol=accuracy * tol, codes_init=codes
        )
        codes = coded.codes
        rows = codes.tocsr()
        image = np.ascontiguousarray((rows @ problem.atoms.T).T)
        new_q = data - w - image
        momentum, previous = (1 + sqrt(1 + 4 * momentum**2)) / 2, momentum
        q_ahead = new_q + (previous - 1) / momentum * (new_q - q)
        q = new_q
        value = problem.objective(rows, image)
        if best is None or value < best[0]:
            best = value, rows, image
        if step == _CHECKS[0] or step % _CHECKS[1] == 0 or step == max_iter:
            found, field = problem.lower_bound(q, field)
            bound = max(bound, found)
            if best[0] - bound <= tol * start:
                break
            prox_iter = min(2 * prox_iter, _LARGEST_PROX)
    assert best is not None
    value, rows, image = best
    gap = float(max(value - bound, 0.0) / start) if start > 0 else 0.0
    return TotalVariationResult(rows.tocoo(), image, value, bound, gap, step, gap <= tol)


def variation(images: Float) -> float:
    """The isotropic total variation of a stack (G, ...) of images, summed."""
    return float(np.sqrt(np.sum(gradient(images) ** 2, axis=0), dtype=np.float64).sum())


def gradient(images: Float) -> Float:
    """Forward differences along every image axis, zero at the far edge: (axes, G, ...)."""
    out = np.zeros((images.ndim - 1, *images.shape), dtype=images.dtype)
    for axis in range(1, images.ndim):
        inner: list[Any] = [slice(None)] * images.ndim
        inner[axis] = slice(0, -1)
        out[axis - 1][tuple(inner)] = np.diff(images, axis=axis)
    return out


def adjoint_gradient(field: Float) -> Float:
    """The adjoint of `gradient`: minus the divergence of the field."""
    out = np.zeros(field.shape[1:], dtype=field.dtype)
    for axis in range(1, out.ndim):
        near: list[Any] = [slice(None)] * out.ndim
        far: list[Any] = [slice(None)] * out.ndim
        near[axis], far[axis] = slice(0, -1), slice(1, None)
        part = field[axis - 1][tuple(near)]
        out[tuple(near)] -= part
        out[tuple(far)] += part
    return out


def _fit_field(images: Float, beta: float, field: Float) -> Float:
    """FISTA on min 1/2 ||images - adjoint_gradient(p)||^2 over |p| <= beta at every pixel."""
    step = 1 / (4 * (images.ndim - 1))
    ahead, momentum = field, 1.0
    for _ in range(_FIELD_STEPS):
        moved = ahead + step * gradient(images - adjoint_gradient(ahead))
        length = np.sqrt(np.sum(moved**2, axis=0))
        moved /= np.maximum(1, length / beta)
        momentum, previous = (1 + sqrt(1 + 4 * momentum**2)) / 2, momentum
        ahead = moved + (previous - 1) / momentum * (moved - field)
        field = moved
    return field
