"""Values measured along directions, as a disc: half of the sphere, seen from above, areas kept.

Diffusion signals are the same along g and -g, so one half tells all. A point of the disc at distance
rho from the centre stands for the direction with z = 1 - rho^2 (Lambert's equal-area projection), and takes the
weighted mean of the values, sum_i w_i v_i / sum_i w_i with w_i = exp(kappa (<p, g_i>^2 - 1)): kappa grows with the
number of directions, so that each blob is about as wide as the space between two of them.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from septum.errors import InvalidInputError


def upper_half(bvecs: ArrayLike) -> NDArray[np.float64]:
    """The directions (n, 3), each turned to z >= 0."""
    g = np.array(bvecs, dtype=np.float64, ndmin=2)
    if g.shape[-1] != 3:
        raise InvalidInputError(f"directions must have shape (n, 3), not {g.shape}")
    return np.where(g[:, 2:] < 0, -g, g)


def project(bvecs: ArrayLike) -> NDArray[np.float64]:
    """Where directions fall on the unit disc (n, 2): the rim is z = 0."""
    g = upper_half(bvecs)
    length = np.linalg.norm(g, axis=1, keepdims=True)
    g = g / np.where(length > 0, length, 1.0)
    return g[:, :2] / np.sqrt(1.0 + g[:, 2:])


def disc(values: ArrayLike, bvecs: ArrayLike, size: int = 72) -> NDArray[np.float64]:
    """A (size, size) picture of values (n,) along bvecs (n, 3); NaN outside the disc.

    Rows run from +y to -y, columns from -x to +x.
    """
    v, g = np.asarray(values, dtype=np.float64), np.asarray(bvecs, dtype=np.float64)
    if v.shape != g.shape[:1]:
        raise InvalidInputError(f"{len(v)} values do not match {len(g)} directions")
    at = (np.arange(size) + 0.5) / size * 2.0 - 1.0
    x, y = np.meshgrid(at, -at)
    rho2 = x * x + y * y
    inside = rho2 <= 1.0
    lift = np.sqrt(2.0 - rho2[inside])
    points = np.stack([x[inside] * lift, y[inside] * lift, 1.0 - rho2[inside]], axis=1)
    kappa = max(4.0, 0.35 * len(v))
    weight = np.exp(kappa * ((points @ g.T) ** 2 - 1.0))
    picture = np.full((size, size), np.nan)
    picture[inside] = weight @ v / weight.sum(axis=1)
    return picture
