"""A small phantom of crossing tensors, simulated with DIPY.

Two straight sheets and a bent one of white matter cross in a box of grey matter with a ball of fluid. Each
fibre is a Gaussian tensor (DIPY's `multi_tensor`), so nothing is projected on harmonics: a method that gains
from that on the ISBI phantom alone does not gain here.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from septum.dmri.gradient import Gradients, as_gradients
from septum.dmri.phantom import Phantom, default_scheme
from septum.errors import InvalidInputError, MissingExtraError

EIGENVALUES = (1.7e-3, 0.3e-3, 0.3e-3)
GREY_DIFFUSIVITY, FLUID_DIFFUSIVITY = 0.8e-3, 3.0e-3
LEVELS = {"wm": 1.0, "gm": 1.4, "csf": 2.2}

Float64 = NDArray[np.float64]


def simulate(
    gradients: Any = None,
    *,
    shape: tuple[int, int, int] = (20, 20, 8),
    crossing: float = 60.0,
    snr: float | None = None,
    noise: str = "rician",
    n_coils: int = 1,
    seed: int = 0,
) -> Phantom:
    """Simulate the phantom; `crossing` is the angle between the straight sheets, in degrees.

    The other parameters and the answer are those of `septum.dmri.phantom.simulate`.
    """
    if len(shape) != 3 or min(shape) < 4:
        raise InvalidInputError(f"shape must be three sizes of at least 4 voxels, not {shape}")
    if not 0 < crossing <= 90:
        raise InvalidInputError(f"crossing must be more than 0 and at most 90 degrees, not {crossing}")
    table = default_scheme() if gradients is None else as_gradients(gradients, require_b0=False)
    directions, shares = _fibres(shape, crossing)
    fluid = _fluid(shape)
    white = np.where(shares.sum(axis=-1) > 0, 1.0 - fluid, 0.0)
    fractions = {"wm": white, "gm": 1.0 - fluid - white, "csf": fluid, "background": np.zeros(shape)}
    decay = _fibre_signal(table, directions, shares)
    truth = (
        LEVELS["wm"] * white[..., None] * decay
        + LEVELS["gm"] * fractions["gm"][..., None] * np.exp(-table.bvals * GREY_DIFFUSIVITY)
        + LEVELS["csf"] * fluid[..., None] * np.exp(-table.bvals * FLUID_DIFFUSIVITY)
    ).astype(np.float32)
    visible = (white > 0)[..., None]
    return Phantom(
        data=truth,
        truth=truth,
        gradients=table,
        affine=np.diag([-2.0, 2.0, 2.0, 1.0]),
        fractions={name: part.astype(np.float32) for name, part in fractions.items()},
        directions=np.where(visible[..., None], directions, 0.0).astype(np.float32),
        shares=np.where(visible, shares, 0.0).astype(np.float32),
        noise=noise,
        n_coils=n_coils,
        seed=seed,
    ).with_noise(snr)


def _fibres(shape: tuple[int, int, int], crossing: float) -> tuple[Float64, Float64]:
    """Up to three unit vectors a voxel (X, Y, Z, 3, 3), the largest share first, and their shares."""
    x, y, z = np.meshgrid(*(np.linspace(-1, 1, n) for n in shape), indexing="ij")
    angle = np.radians(crossing) / 2
    vectors, present = [], []
    for turn in (angle, -angle):
        along = np.array([np.cos(turn), np.sin(turn), 0.0])
        vectors.append(np.broadcast_to(along, (*shape, 3)))
        present.append((np.abs(y * along[0] - x * along[1]) < 0.35) & (np.abs(z) < 0.8))
    radius = np.hypot(x + 1.2, z + 1.2)
    bend = np.stack([z + 1.2, np.zeros(shape), -(x + 1.2)], axis=-1) / radius[..., None]
    vectors.append(bend)
    present.append((radius > 0.9) & (radius < 1.5) & (np.abs(y - 0.1) < 0.5))
    there = np.stack(present, axis=-1)
    weights = there * np.array([0.4, 0.35, 0.25])
    weights = weights / np.maximum(weights.sum(axis=-1, keepdims=True), 1e-12)
    order = np.argsort(-weights, axis=-1, kind="stable")
    shares = np.take_along_axis(weights, order, axis=-1)
    sorted_vectors = np.take_along_axis(np.stack(vectors, axis=-2), order[..., None], axis=-2)
    return sorted_vectors * (shares > 0)[..., None], shares


def _fluid(shape: tuple[int, int, int]) -> Float64:
    """A ball of fluid in a corner, with a soft edge."""
    x, y, z = np.meshgrid(*(np.linspace(-1, 1, n) for n in shape), indexing="ij")
    distance = np.sqrt((x - 0.6) ** 2 + (y + 0.7) ** 2 + (z - 0.2) ** 2)
    return np.clip((0.5 - distance) / 0.2, 0.0, 1.0)


def _fibre_signal(table: Gradients, directions: Float64, shares: Float64) -> Float64:
    """The attenuation of each voxel's fibres by DIPY, once for each distinct mixture; zero without fibres."""
    try:
        from dipy.sims.voxel import multi_tensor
    except ImportError as error:
        raise MissingExtraError("dipy") from error
    scheme = table.dipy_table()
    shape = shares.shape[:3]
    flat = np.concatenate([directions.reshape(-1, 9), shares.reshape(-1, 3)], axis=1)
    mixtures, which = np.unique(np.round(flat, 12), axis=0, return_inverse=True)
    signals = np.zeros((len(mixtures), len(table)))
    for row, mixture in enumerate(mixtures):
        weights = mixture[9:]
        some = weights > 0
        if some.any():
            signals[row], _ = multi_tensor(
                scheme,
                np.array([EIGENVALUES] * int(some.sum())),
                S0=1.0,
                angles=list(mixture[:9].reshape(3, 3)[some]),
                fractions=list(100 * weights[some]),
                snr=None,
            )
    return signals[which.ravel()].reshape(*shape, len(table))
