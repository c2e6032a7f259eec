"""Spherical ridgelets, the fixed angular dictionary of the paper's section 7 (SR).

A ridgelet is a zonal function: it depends on a direction u only through its cosine with the atom's
own direction v,

    psi_{j,v}(u) = sum over even n of (2n + 1)/(4 pi) psi_j(n) P_n(u . v).

Its profile psi_j(n) joins two things. A Gaussian-like semigroup on the degrees,
h_j(n) = exp(-rho n/2^j (n/2^j + 1)), is cut into bands, h_0 and h_j - h_{j-1}. The Funk-Radon
transform, with eigenvalues L(0) = 1, L(n) = -L(n-2) (n-1)/n, then turns the blob at v into the great
circle around v, which is the shape of a diffusion signal with one fibre along v. Level j has
(2^j m_0 + 1)^2 atoms, their directions spread over a half sphere by a golden-angle spiral.

After Michailovich and Rathi, "On approximation of orientation distributions by means of spherical
ridgelets", IEEE Transactions on Image Processing 19(2), 2010.
"""

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import ArrayLike, NDArray
from scipy.special import sph_harm_y

from septum.array import Float
from septum.dictionaries.atom import as_count, as_directions, as_positive, unit_columns

_CUT = 1e-6  # the series stops at the first degree where h_J falls below this


def spherical_ridgelets(directions: ArrayLike, *, levels: int = 2, spread: float = 1 / 3.125) -> Float:
    """Spherical ridgelets of levels 0..`levels`, sampled at `directions` (G, 3): a (G, r) dictionary.

    `spread` is the exponent's scale rho. The defaults give 25 + 81 + 289 = 395 atoms. Columns are
    scaled to unit norm on the sampled directions. A direction and its opposite are the same.
    """
    sampled = as_directions(directions)
    degrees, profiles = ridgelet_profiles(levels, spread)
    weights = (2 * degrees + 1) / (4 * np.pi)
    columns = []
    for profile, count in zip(profiles, ridgelet_counts(levels, spread), strict=True):
        series = np.zeros(degrees[-1] + 1)
        series[degrees] = weights * profile
        cosines = np.clip(sampled @ half_sphere_spiral(count).T, -1.0, 1.0)
        columns.append(legendre.legval(cosines, series))
    return unit_columns(np.concatenate(columns, axis=1))


def ridgelet_profiles(
    levels: int = 2, spread: float = 1 / 3.125
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """The even degrees n and psi_j(n), one row for each level; every atom has unit norm on the sphere."""
    top, rho = as_count(levels, "levels", least=0), as_positive(spread, "spread")
    last = _last_degree(top, rho)
    degrees = np.arange(0, last + 1, 2)
    scaled = degrees / 2.0 ** np.arange(top + 1)[:, None]
    semigroup = np.exp(-rho * scaled * (scaled + 1))
    bands = np.diff(semigroup, axis=0, prepend=0.0)
    funk_radon = np.cumprod(np.concatenate(([1.0], -(degrees[1:] - 1) / degrees[1:])))
    profiles = bands * funk_radon
    energy = (2 * degrees + 1) / (4 * np.pi) * profiles**2
    return degrees, profiles / np.sqrt(energy.sum(axis=1, keepdims=True))


def _last_degree(levels: int, spread: float) -> int:
    """The last even degree n with h_J(n) >= 1e-6, from the root of x (x + 1) = -log(1e-6)/rho."""
    root = (-1 + np.sqrt(1 - 4 * np.log(_CUT) / spread)) / 2
    return 2 * max(1, int(root * 2.0**levels // 2))


def ridgelet_counts(levels: int = 2, spread: float = 1 / 3.125) -> list[int]:
    """The number of atoms on each level, (2^j m_0 + 1)^2."""
    top, rho = as_count(levels, "levels", least=0), as_positive(spread, "spread")
    coarsest = int((-1 + np.sqrt(1 + 4 * (4 * np.log(10) / rho))) // 2)
    return [(2**j * coarsest + 1) ** 2 for j in range(top + 1)]


def half_sphere_spiral(count: int) -> NDArray[np.float64]:
    """`count` directions of the upper half sphere: the first half of a golden-angle spiral of 2 `count`."""
    k = np.arange(count)
    height = 1 - (2 * k + 1) / (2 * count)
    radius = np.sqrt(1 - height**2)
    longitude = k * np.pi * (3 - np.sqrt(5))
    return np.stack([radius * np.cos(longitude), radius * np.sin(longitude), height], axis=1)


def ridgelet_frame_bounds(
    order: int = 8, *, levels: int = 2, spread: float = 1 / 3.125
) -> tuple[float, float]:
    """The frame bounds A, B of the ridgelets on the even functions f of degree at most `order`,

        A ||f||^2 <= sum over atoms of <f, psi>^2 <= B ||f||^2,

    on the whole sphere, with atoms of unit norm there. By the addition theorem the atom at v has the
    coefficients psi_j(n) Y_nm(v), so A and B are the extreme eigenvalues of a small matrix.
    """
    as_count(order, "order", least=0)
    degrees, profiles = ridgelet_profiles(levels, spread)
    columns = []
    for profile, count in zip(profiles, ridgelet_counts(levels, spread), strict=True):
        by_degree = dict(zip(degrees.tolist(), profile, strict=True))
        columns.append(_even_harmonics(half_sphere_spiral(count), order, by_degree))
    singular = np.linalg.svd(np.concatenate(columns, axis=1), compute_uv=False)
    n_even = (order // 2 + 1) * (2 * (order // 2) + 1)
    lower = singular[-1] ** 2 if singular.size == n_even else 0.0
    return float(lower), float(singular[0] ** 2)


def _even_harmonics(
    centres: NDArray[np.float64], order: int, profile: dict[int, float]
) -> NDArray[np.float64]:
    """psi(n) Y_nm(v) for the real orthonormal harmonics of even degree n <= order: one row for each (n, m)."""
    polar, longitude = np.arccos(centres[:, 2]), np.arctan2(centres[:, 1], centres[:, 0])
    rows = []
    for n in range(0, order + 1, 2):
        weight = profile.get(n, 0.0)
        rows.append(weight * sph_harm_y(n, 0, polar, longitude).real)
        for m in range(1, n + 1):
            value = np.sqrt(2) * weight * sph_harm_y(n, m, polar, longitude)
            rows += [value.real, value.imag]
    return np.array(rows)
