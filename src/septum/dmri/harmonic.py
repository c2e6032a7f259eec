"""Real even spherical harmonics, and convolution on the sphere by Funk and Hecke's formula.

`basis` is orthonormal on the sphere and ordered by degree 0, 2, ..., L and order -l..l, as in DIPY's
"descoteaux07" basis (its legacy signs, which are DIPY's default). An antipodally symmetric function with
coefficients c_lm, convolved with an axial profile p(cos angle), has the coefficients lambda_l c_lm, where

    lambda_l = integral over t from 0 to 1 of P_l(t) p(t) dt

when both are read as densities whose mean over the sphere is what matters (`funk_hecke`).
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import eval_legendre, roots_legendre, sph_harm_y

Float64 = NDArray[np.float64]


def degrees(order: int) -> NDArray[np.int_]:
    """The degree l of each coefficient."""
    return np.concatenate([np.full(2 * l + 1, l) for l in range(0, order + 1, 2)])


def orders(order: int) -> NDArray[np.int_]:
    """The order m of each coefficient."""
    return np.concatenate([np.arange(-l, l + 1) for l in range(0, order + 1, 2)])


def basis(directions: ArrayLike, order: int) -> Float64:
    """The harmonics up to `order` at unit vectors (n, 3): (n, (order + 1)(order + 2) / 2)."""
    x, y, z = np.asarray(directions, dtype=float).T
    polar, longitude = np.arccos(np.clip(z, -1.0, 1.0)), np.arctan2(y, x)
    l, m = degrees(order), orders(order)
    values = sph_harm_y(l, np.abs(m), polar[:, None], longitude[:, None])
    return np.where(m > 0, values.imag, values.real) * np.where(m == 0, 1.0, np.sqrt(2.0))


def funk_hecke(profile: Callable[[Float64], Float64], order: int, n_nodes: int = 128) -> Float64:
    """lambda_l for each coefficient, by Gauss-Legendre quadrature of an even profile on [0, 1]."""
    nodes, weights = roots_legendre(n_nodes)
    t, weights = (nodes + 1) / 2, weights / 2
    values = profile(t) * weights
    return np.array([np.dot(eval_legendre(l, t), values) for l in degrees(order)])


def laplace_beltrami(order: int) -> Float64:
    """The eigenvalue -l(l + 1) of each harmonic."""
    l = degrees(order)
    return -(l * (l + 1.0))
