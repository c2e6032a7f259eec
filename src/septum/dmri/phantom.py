"""The phantom of the ISBI 2013 HARDI reconstruction challenge, simulated.

27 fibre bundles and three spheres of fluid lie in a sphere of 50 mm of grey matter. `simulate` goes

    control points -> splines -> which part of each voxel is which tissue        (`_tissues`)
                              -> how much of each fibre direction a voxel holds  (`_orientations`)
    directions -> response of a fibre in each direction, for the scheme          (`_responses`)
    tissues x relaxation x attenuation -> the signal without noise -> noise

Everything after the geometry is linear, so a voxel's fibre signal is a sparse matrix product: its shares
of the 27 x 100 tangents times their responses. A tangent's response is a kernel density on the sphere
(symmetric von Mises-Fisher, kappa = 50, mean 1), projected on even harmonics up to order 8, convolved with
an axial Gaussian (1.7e-3 and 0.2e-3 mm2/s) by Funk and Hecke's formula. Grey matter is isotropic
(0.2e-3 mm2/s), fluid too (3e-3). The signal is rho (1 - exp(-TR/T1)) exp(-TE/T2) times the attenuation,
in units of that of pure white matter, so that noise of standard deviation 1/SNR gives the SNR its name.

Axes: the voxel axes are the phantom's x, y, z, and the affine turns x round (det < 0). FSL, MRtrix and
DIPY then all read the directions of the .bvec file as the phantom's own.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.resources import files
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.interpolate import CubicHermiteSpline
from scipy.sparse import csr_array

from septum.dmri.gradient import Gradients, as_gradients, read
from septum.dmri.harmonic import basis, funk_hecke
from septum.errors import InvalidInputError

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Callback = Callable[[float, str], Any]

FIELD_OF_VIEW = 100.0
RADIUS = 50.0
N_POINTS = 100
KAPPA = 50.0
HARMONIC_ORDER = 8
ECHO_TIME, REPETITION_TIME = 0.09, 5.0
MERGE_ANGLE = 15.0

NOISES = ("rician", "gaussian", "chi")


@dataclass(frozen=True)
class Tissue:
    """Relaxation (mean and spread of T1, T2 in seconds), proton density, and diffusivity in mm2/s."""

    t1: tuple[float, float]
    t2: tuple[float, float]
    density: float
    diffusivity: tuple[float, float]


WHITE = Tissue((0.832, 0.010), (0.0796, 0.0006), 0.65, (1.7e-3, 0.2e-3))
GREY = Tissue((1.331, 0.013), (0.110, 0.002), 0.75, (0.2e-3, 0.2e-3))
FLUID = Tissue((3.5, 0.1), (0.25, 0.01), 1.0, (3.0e-3, 3.0e-3))
TISSUES = {"wm": WHITE, "gm": GREY, "csf": FLUID}


@dataclass(frozen=True, eq=False)
class Phantom:
    """A simulated volume and all that is known about it.

    `data` and `truth` are (X, Y, Z, n_volumes) float32, with and without noise, in units of white matter's
    b0. `fractions` gives the share of "wm", "gm", "csf" and "background" in each voxel, (X, Y, Z).
    `directions` (X, Y, Z, K, 3) holds up to K unit vectors along the voxel axes, the largest share first
    and zero where there are fewer; `shares` (X, Y, Z, K) their shares, which sum to at most 1.
    """

    data: Float32
    truth: Float32
    gradients: Gradients
    affine: Float64
    fractions: dict[str, Float32]
    directions: Float32
    shares: Float32
    snr: float | None = None
    noise: str = "rician"
    n_coils: int = 1
    seed: int = 0
    first_slice: int = field(default=0, repr=False)

    @property
    def sigma(self) -> float:
        """The standard deviation of the noise in each channel; 0 without noise."""
        return 0.0 if self.snr is None else 1.0 / self.snr

    @property
    def mask(self) -> NDArray[np.bool_]:
        """Inside the phantom: less than half background."""
        return self.fractions["background"] < 0.5

    @property
    def white_matter(self) -> NDArray[np.bool_]:
        """More than half white matter."""
        return self.fractions["wm"] > 0.5

    def with_noise(
        self,
        snr: float | None,
        *,
        noise: str | None = None,
        n_coils: int | None = None,
        seed: int | None = None,
    ) -> "Phantom":
        """The same phantom with other noise; None for none."""
        new = replace(
            self,
            snr=None if snr is None else _positive(snr, "snr"),
            noise=self.noise if noise is None else noise,
            n_coils=self.n_coils if n_coils is None else n_coils,
            seed=self.seed if seed is None else seed,
        )
        data = add_noise(
            self.truth,
            new.snr,
            noise=new.noise,
            n_coils=new.n_coils,
            seed=new.seed,
            first_slice=self.first_slice,
        )
        return replace(new, data=data)


def simulate(
    gradients: Any = None,
    *,
    snr: float | None = None,
    noise: str = "rician",
    n_coils: int = 1,
    seed: int = 0,
    size: int = 50,
    slices: tuple[int, int] | None = None,
    n_directions: int = 3,
    callback: Callback | None = None,
) -> Phantom:
    """Simulate the ISBI 2013 phantom.

    Parameters
    ----------
    gradients : the scheme: a DIPY table, `Gradients`, or (bvals, bvecs); None: one b0 and 64 directions at b = 3000.
    snr : white matter's b0 over the noise's standard deviation; None: no noise.
    noise : "rician", "gaussian" (may be negative), or "chi" (root of the sum of squares of `n_coils` channels).
    seed : of the noise and of the relaxation times; the same seed gives the same values for any part of the volume.
    size : voxels along each side of the 100 mm cube; 50 (2 mm) is the challenge's.
    slices : (first, last + 1) along z; None: all.
    n_directions : how many fibre directions to keep for each voxel.
    callback : called as callback(fraction_done, what) while working.
    """
    report = callback or (lambda fraction, text: None)
    table = default_scheme() if gradients is None else as_gradients(gradients, require_b0=False)
    grid = _Grid(*_check_grid(size, slices))
    bundles = _bundles()
    report(0.0, "geometry")
    fractions = _tissues(grid, bundles)
    report(0.2, "fibre directions")
    mixture = _orientations(grid, bundles, fractions["wm"])
    report(0.6, "signal")
    truth = _signal(grid, table, bundles, fractions, mixture, seed)
    directions, shares = _main_directions(mixture, bundles, n_directions)
    shape = grid.shape
    phantom = Phantom(
        data=truth,
        truth=truth,
        gradients=table,
        affine=grid.affine,
        fractions={name: part.reshape(shape).astype(np.float32) for name, part in fractions.items()},
        directions=directions.reshape(*shape, n_directions, 3),
        shares=shares.reshape(*shape, n_directions),
        noise=noise,
        n_coils=n_coils,
        seed=seed,
        first_slice=grid.first,
    )
    report(0.8, "noise")
    phantom = phantom.with_noise(snr)
    report(1.0, "done")
    return phantom


def default_scheme() -> Gradients:
    """One b0 and 64 directions at b = 3000 s/mm2."""
    folder = files("septum.dmri") / "data"
    return read(str(folder / "hardi_b3000.bval"), str(folder / "hardi_b3000.bvec"))


def add_noise(
    truth: Float32,
    snr: float | None,
    *,
    noise: str = "rician",
    n_coils: int = 1,
    seed: int = 0,
    first_slice: int = 0,
) -> Float32:
    """Noise of standard deviation 1/snr in each channel: |S + n|, S + n, or the root of a sum of squares.

    Every slice has a generator of its own, named by the seed, the SNR and the slice, so that part of a
    volume has the noise it has in the whole, and other SNRs have other noise.
    """
    if noise not in NOISES:
        raise InvalidInputError(f"noise must be one of {', '.join(NOISES)}, not {noise!r}")
    if n_coils != 1 and noise != "chi":
        raise InvalidInputError(f"{noise} noise has one channel: give noise='chi' for {n_coils} coils")
    if n_coils < 1:
        raise InvalidInputError(f"n_coils must be at least 1, not {n_coils}")
    if snr is None:
        return truth
    sigma = 1.0 / _positive(snr, "snr")
    name = int(np.float64(snr).view(np.uint64))
    out = np.empty_like(truth)
    for z in range(truth.shape[2]):
        random = np.random.default_rng([seed, name, first_slice + z])
        out[:, :, z] = _noisy(truth[:, :, z].astype(np.float64), sigma, noise, n_coils, random)
    return out


def _noisy(clean: Float64, sigma: float, noise: str, n_coils: int, random: np.random.Generator) -> Float64:
    if noise == "gaussian":
        return clean + sigma * random.standard_normal(clean.shape)
    squares = np.zeros_like(clean)
    share = clean / np.sqrt(n_coils)
    for _ in range(n_coils):
        real, imaginary = random.standard_normal((2, *clean.shape))
        squares += (share + sigma * real) ** 2 + (sigma * imaginary) ** 2
    return np.sqrt(squares)


# --- geometry --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Grid:
    """Voxels of a cube of 100 mm centred at the origin: `size` a side, slices first:stop."""

    size: int
    first: int
    stop: int

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.size, self.size, self.stop - self.first

    @property
    def step(self) -> float:
        return FIELD_OF_VIEW / self.size

    @property
    def corner(self) -> Float64:
        """The lowest corner of voxel (0, 0, 0)."""
        half = FIELD_OF_VIEW / 2
        return np.array([-half, -half, -half + self.first * self.step])

    @property
    def affine(self) -> Float64:
        """From voxels to millimetres, with x turned round."""
        affine = np.diag([-self.step, self.step, self.step, 1.0])
        affine[:3, 3] = (self.corner + self.step / 2) * [-1, 1, 1]
        return affine


@dataclass(frozen=True, eq=False)
class _Bundles:
    """Centrelines (n, 100, 3) and their unit tangents, the radius of each, and the spheres of fluid."""

    points: Float64
    tangents: Float64
    radii: Float64
    spheres: Float64


@lru_cache(maxsize=1)
def _bundles() -> _Bundles:
    text = (files("septum.dmri") / "data" / "isbi_challenge_2013.json").read_text()
    geometry = json.loads(text)
    lines, radii = [], []
    for bundle in geometry["fiber_geometries"].values():
        control = np.array(bundle["control_points"], dtype=float).reshape(-1, 3)
        lines.append(centreline(control, bundle["tangents"]))
        radii.append(float(bundle["radius"]))
    spheres = np.array([[*s["center"], s["radius"]] for s in geometry["isotropic_regions"].values()])
    points = np.stack([line[0] for line in lines])
    return _Bundles(points, np.stack([line[1] for line in lines]), np.array(radii), spheres)


def centreline(control: Float64, mode: str, n_points: int = N_POINTS) -> tuple[Float64, Float64]:
    """Points and unit tangents along the cubic Hermite spline through control points (n, 3).

    The parameter is the chord length, scaled to [0, 1]. The ends are at right angles to the sphere; inside,
    the derivative points along p_(k+1) - p_(k-1) ("symmetric"), p_k - p_(k-1) ("incoming") or
    p_(k+1) - p_k ("outgoing"). Each derivative has the length of the whole chord.
    """
    steps = np.linalg.norm(np.diff(control, axis=0), axis=1)
    length = steps.sum()
    knots = np.concatenate([[0.0], np.cumsum(steps)]) / length
    inner = {
        "symmetric": control[2:] - control[:-2],
        "incoming": control[1:-1] - control[:-2],
        "outgoing": control[2:] - control[1:-1],
    }[mode]
    slopes = np.vstack([-control[0], inner, control[-1]])
    slopes *= length / np.linalg.norm(slopes, axis=1, keepdims=True)
    spline = CubicHermiteSpline(knots, control, slopes)
    t = np.linspace(0.0, 1.0, n_points)
    tangents = spline(t, 1)
    return spline(t), tangents / np.linalg.norm(tangents, axis=1, keepdims=True)


def _check_grid(size: int, slices: tuple[int, int] | None) -> tuple[int, int, int]:
    if not 2 <= size <= 400:
        raise InvalidInputError(f"size must be between 2 and 400 voxels, not {size}")
    first, stop = (0, size) if slices is None else (int(slices[0]), int(slices[1]))
    if not 0 <= first < stop <= size:
        raise InvalidInputError(f"slices {first}:{stop} do not lie in 0:{size}")
    return size, first, stop


def _tissues(grid: _Grid, bundles: _Bundles) -> dict[str, Float64]:
    """The share of each tissue in each voxel, flat; fluid goes before white matter, grey fills the sphere."""
    white = _white_fraction(
        bundles.points, bundles.radii, grid.corner, grid.step, np.array(grid.shape)
    ).ravel()
    inside = _ball_fraction(np.zeros(3), RADIUS, grid)
    fluid = np.zeros_like(inside)
    for sphere in bundles.spheres:
        fluid += _ball_fraction(sphere[:3], sphere[3], grid)
    fluid = np.clip(fluid, 0.0, 1.0)
    white = np.minimum(np.minimum(white, inside), 1.0 - fluid)
    grey = np.maximum(inside - white - fluid, 0.0)
    return {"wm": white, "gm": grey, "csf": fluid, "background": 1.0 - inside}


def _ball_fraction(centre: Float64, radius: float, grid: _Grid, n: int = 10) -> Float64:
    """The share of each voxel inside a ball, counted on n^3 points."""
    half = grid.step / 2
    middles = [grid.corner[a] + half + grid.step * np.arange(grid.shape[a]) - centre[a] for a in range(3)]
    x, y, z = np.meshgrid(*middles, indexing="ij")
    distance = np.sqrt(x**2 + y**2 + z**2).ravel()
    reach = half * np.sqrt(3)
    fraction = (distance < radius).astype(float)
    edge = np.flatnonzero(np.abs(distance - radius) <= reach)
    sub = ((np.arange(n) + 0.5) / n - 0.5) * grid.step
    squares = [(axis.ravel()[edge][:, None] + sub) ** 2 for axis in (x, y, z)]
    for start in range(0, len(edge), 4096):
        a, b, c = (s[start : start + 4096] for s in squares)
        total = a[:, :, None, None] + b[:, None, :, None] + c[:, None, None, :]
        fraction[edge[start : start + 4096]] = (total < radius**2).mean(axis=(1, 2, 3))
    return fraction


@njit(cache=True)
def _white_fraction(points, radii, corner, step, shape, n=10):  # type: ignore[no-untyped-def]
    """The share of each voxel in the union of balls around the centrelines.

    1 where all eight corners lie in one ball; n^3 points are counted where some corner lies in one.
    """
    fraction = np.zeros((shape[0], shape[1], shape[2]))
    touched = np.zeros((shape[0], shape[1], shape[2], len(radii)), dtype=np.bool_)
    for b in range(len(radii)):
        square = radii[b] ** 2
        for p in range(points.shape[1]):
            low, high = _box(points[b, p], radii[b], corner, step, shape)
            for i in range(low[0], high[0]):
                for j in range(low[1], high[1]):
                    for k in range(low[2], high[2]):
                        count = 0
                        for c in range(8):
                            x = corner[0] + step * (i + (c & 1)) - points[b, p, 0]
                            y = corner[1] + step * (j + ((c >> 1) & 1)) - points[b, p, 1]
                            z = corner[2] + step * (k + (c >> 2)) - points[b, p, 2]
                            count += x * x + y * y + z * z < square
                        if count == 8:
                            fraction[i, j, k] = 1.0
                        if count > 0:
                            touched[i, j, k, b] = True
    near = np.empty((len(radii) * points.shape[1], 4))
    for i in range(shape[0]):
        for j in range(shape[1]):
            for k in range(shape[2]):
                if fraction[i, j, k] == 1.0 or not touched[i, j, k].any():
                    continue
                x0, y0, z0 = corner[0] + step * i, corner[1] + step * j, corner[2] + step * k
                n_near = 0
                for b in range(len(radii)):
                    if not touched[i, j, k, b]:
                        continue
                    reach = radii[b] + step
                    for p in range(points.shape[1]):
                        x = x0 + step / 2 - points[b, p, 0]
                        y = y0 + step / 2 - points[b, p, 1]
                        z = z0 + step / 2 - points[b, p, 2]
                        if x * x + y * y + z * z < reach * reach:
                            near[n_near, 0] = points[b, p, 0]
                            near[n_near, 1] = points[b, p, 1]
                            near[n_near, 2] = points[b, p, 2]
                            near[n_near, 3] = radii[b] ** 2
                            n_near += 1
                count = 0
                last = 0
                for s in range(n * n * n):
                    x = x0 + step * (s // (n * n) + 0.5) / n
                    y = y0 + step * (s // n % n + 0.5) / n
                    z = z0 + step * (s % n + 0.5) / n
                    for turn in range(n_near):
                        q = (last + turn) % n_near
                        dx, dy, dz = x - near[q, 0], y - near[q, 1], z - near[q, 2]
                        if dx * dx + dy * dy + dz * dz < near[q, 3]:
                            count += 1
                            last = q
                            break
                fraction[i, j, k] = count / (n * n * n)
    return fraction


@njit(cache=True)
def _box(point, radius, corner, step, shape):  # type: ignore[no-untyped-def]
    """The voxels that a ball may touch: low and (exclusive) high index along each axis."""
    low, high = np.empty(3, dtype=np.int64), np.empty(3, dtype=np.int64)
    for a in range(3):
        low[a] = min(max(int(np.floor((point[a] - radius - corner[a]) / step)), 0), shape[a])
        high[a] = max(min(int(np.floor((point[a] + radius - corner[a]) / step)) + 1, shape[a]), 0)
    return low, high


def _orientations(grid: _Grid, bundles: _Bundles, white: Float64, n: int = 9) -> csr_array:
    """Each voxel's shares of the tangents, (n_voxels, n_bundles * 100); a row sums to 1 where there is white matter.

    A point lies in a bundle when it is between the cap planes of a piece of the centreline and within the
    radius of its line; its direction is the tangent at the start of the nearest such piece. Points in
    several bundles share their weight.
    """
    voxels = np.flatnonzero(white > 0)
    index = np.column_stack(np.unravel_index(voxels, grid.shape)).astype(np.int64)
    n_columns = bundles.points.shape[0] * bundles.points.shape[1]
    rows, columns, weights = _tangent_shares(
        bundles.points, bundles.tangents, bundles.radii, grid.corner, grid.step, index, n
    )
    shares = csr_array((weights, (rows, columns)), shape=(len(voxels), n_columns))
    totals: Float64 = np.asarray(shares.sum(axis=1), dtype=float).ravel()
    lone = np.flatnonzero(totals == 0)
    if lone.size:
        # White matter by the union of balls, beyond every cap plane: the nearest tangent's direction.
        middles = grid.corner + grid.step * (index[lone] + 0.5)
        nearest = [int(np.argmin(((bundles.points - m) ** 2).sum(axis=2))) for m in middles]
        shares = shares + csr_array((np.ones(lone.size), (lone, nearest)), shape=shares.shape)
        totals[lone] = 1.0
    scaled = csr_array(shares.multiply(1.0 / totals[:, None]))
    spread = csr_array(
        (np.ones(len(voxels)), (voxels, np.arange(len(voxels)))), shape=(white.size, len(voxels))
    )
    return csr_array(spread @ scaled)


@njit(cache=True)
def _tangent_shares(points, tangents, radii, corner, step, voxels, n):  # type: ignore[no-untyped-def]
    n_bundles, n_points = points.shape[0], points.shape[1]
    rows, columns, weights = [0], [0], [0.0]
    near = np.empty(n_bundles * n_points, dtype=np.int64)
    first = np.empty(n_bundles + 1, dtype=np.int64)
    total = np.zeros(n_bundles * n_points)
    found = np.empty(n_bundles, dtype=np.int64)
    active = np.empty(n_bundles, dtype=np.int64)
    sub = ((np.arange(n) + 0.5) / n) * step
    reach = np.sqrt(3.0) * step / 2
    for v in range(len(voxels)):
        origin = corner + step * voxels[v]
        middle = origin + step / 2
        n_near, n_active = 0, 0
        for b in range(n_bundles):
            first[n_active] = n_near
            for p in range(n_points - 1):
                if _may_hold(middle, reach, points, tangents, radii[b], b, p):
                    near[n_near] = b * n_points + p
                    n_near += 1
            if n_near > first[n_active]:
                active[n_active] = b
                n_active += 1
        first[n_active] = n_near
        for s in range(n * n * n):
            x = origin[0] + sub[s // (n * n)]
            y = origin[1] + sub[s // n % n]
            z = origin[2] + sub[s % n]
            n_found = 0
            for turn in range(n_active):
                b = active[turn]
                best, best_square = -1, radii[b] ** 2
                for q in range(first[turn], first[turn + 1]):
                    square = _distance_in_piece(x, y, z, points, tangents, b, near[q] - b * n_points)
                    if square <= best_square:
                        best, best_square = near[q], square
                if best >= 0:
                    found[n_found] = best
                    n_found += 1
            for f in range(n_found):
                total[found[f]] += 1.0 / n_found
        for q in range(n_near):
            if total[near[q]] > 0:
                rows.append(v)
                columns.append(near[q])
                weights.append(total[near[q]])
                total[near[q]] = 0.0
    return np.array(rows[1:]), np.array(columns[1:]), np.array(weights[1:])


@njit(cache=True)
def _may_hold(middle, reach, points, tangents, radius, b, p):  # type: ignore[no-untyped-def]
    """Whether a point within `reach` of `middle` can lie in piece p: near its line, and between its leaning caps."""
    length, along, square = 0.0, 0.0, 0.0
    for k in range(3):
        piece, gap = points[b, p + 1, k] - points[b, p, k], middle[k] - points[b, p, k]
        length += piece * piece
        along += piece * gap
        square += gap * gap
    length = np.sqrt(length)
    along /= length
    if square - along * along > (radius + reach) ** 2:
        return False
    for end in range(2):
        cosine = 0.0
        for k in range(3):
            cosine += tangents[b, p + end, k] * (points[b, p + 1, k] - points[b, p, k]) / length
        if cosine < 0.1:
            return True
        lean = radius * np.sqrt(max(1.0 / cosine**2 - 1.0, 0.0))
        beyond = -along if end == 0 else along - length
        if beyond > reach + lean + 1e-9:
            return False
    return True


@njit(cache=True)
def _distance_in_piece(x, y, z, points, tangents, b, p):  # type: ignore[no-untyped-def]
    """The squared distance to the line through points p and p + 1, infinite outside their cap planes."""
    a0, a1, a2 = x - points[b, p, 0], y - points[b, p, 1], z - points[b, p, 2]
    if a0 * tangents[b, p, 0] + a1 * tangents[b, p, 1] + a2 * tangents[b, p, 2] < 0:
        return np.inf
    b0, b1, b2 = x - points[b, p + 1, 0], y - points[b, p + 1, 1], z - points[b, p + 1, 2]
    if b0 * tangents[b, p + 1, 0] + b1 * tangents[b, p + 1, 1] + b2 * tangents[b, p + 1, 2] > 0:
        return np.inf
    u0, u1, u2 = a0 - b0, a1 - b1, a2 - b2
    along = (a0 * u0 + a1 * u1 + a2 * u2) ** 2 / (u0 * u0 + u1 * u1 + u2 * u2)
    return a0 * a0 + a1 * a1 + a2 * a2 - along


# --- signal ----------------------------------------------------------------------------------------------


def fibre_density(cosine: Float64, kappa: float = KAPPA) -> Float64:
    """The symmetric von Mises-Fisher kernel exp(kappa |cos|), scaled to have mean 1 on the sphere."""
    return kappa * np.exp(kappa * (np.abs(cosine) - 1.0)) / (1.0 - np.exp(-kappa))


def attenuation(bvalue: Any, cosine: Float64, tissue: Tissue = WHITE) -> Float64:
    """E = exp(-b l2) exp(-b (l1 - l2) cos^2), the axial Gaussian at an angle to its axis."""
    along, across = tissue.diffusivity
    return np.exp(-bvalue * across) * np.exp(-bvalue * (along - across) * cosine**2)


def relaxation(tissue: Tissue, t1: Any = None, t2: Any = None) -> Any:
    """rho (1 - exp(-TR/T1)) exp(-TE/T2), at the tissue's mean times when none are given."""
    t1 = tissue.t1[0] if t1 is None else t1
    t2 = tissue.t2[0] if t2 is None else t2
    return tissue.density * (1 - np.exp(-REPETITION_TIME / t1)) * np.exp(-ECHO_TIME / t2)


def _responses(table: Gradients, directions: Float64) -> Float64:
    """The attenuation of fibres along unit vectors (n, 3) in each volume, (n, n_volumes)."""
    density = basis(directions, HARMONIC_ORDER) * funk_hecke(fibre_density, HARMONIC_ORDER)
    out = np.empty((len(directions), len(table)))
    for bvalue in np.unique(table.bvals):
        chosen = np.flatnonzero(table.bvals == bvalue)
        response = funk_hecke(lambda t, b=float(bvalue): attenuation(b, t), HARMONIC_ORDER)  # type: ignore[misc]
        # A volume without weighting has no direction: only the mean counts, and any vector will do.
        vectors = np.where(
            np.any(table.bvecs[chosen] != 0, axis=1, keepdims=True), table.bvecs[chosen], [0.0, 0.0, 1.0]
        )
        out[:, chosen] = 4 * np.pi * (density * response) @ basis(vectors, HARMONIC_ORDER).T
    return out


def _signal(
    grid: _Grid,
    table: Gradients,
    bundles: _Bundles,
    fractions: dict[str, Float64],
    mixture: csr_array,
    seed: int,
) -> Float32:
    """The signal of all tissues, (X, Y, Z, n_volumes), in units of white matter's b0."""
    out = np.zeros((mixture.shape[0], len(table)), dtype=np.float32)
    responses = _responses(table, bundles.tangents.reshape(-1, 3))
    unit = relaxation(WHITE)
    for number, (name, tissue) in enumerate(TISSUES.items()):
        some = np.flatnonzero(fractions[name] > 0)
        times = _relaxation_times(grid, tissue, [seed, number])
        weight = fractions[name][some] * relaxation(tissue, *(t[some] for t in times)) / unit
        if tissue is WHITE:
            decay = mixture[some] @ responses
        else:
            decay = attenuation(table.bvals, np.zeros(1), tissue)[None, :]
        out[some] += (weight[:, None] * decay).astype(np.float32)
    return out.reshape(*grid.shape, len(table))


def _relaxation_times(grid: _Grid, tissue: Tissue, seed: list[int]) -> tuple[Float64, Float64]:
    """T1 and T2 of each voxel of the slices, drawn for the whole cube so that a part is as in the whole."""
    random = np.random.default_rng(seed)
    part = (slice(None), slice(None), slice(grid.first, grid.stop))
    t1 = tissue.t1[0] + tissue.t1[1] * smooth_field(random, grid.size)[part].ravel()
    t2 = tissue.t2[0] + tissue.t2[1] * smooth_field(random, grid.size)[part].ravel()
    return t1, t2


def smooth_field(random: np.random.Generator, size: int, share: float = 0.3) -> Float64:
    """A standard Gaussian field on a cube whose neighbours correlate by share / (1 + share^2) / 3, about 0.1.

    The sum of three fields, each white noise plus `share` times its neighbour's along one axis.
    """
    total = np.zeros((size, size, size))
    for axis in range(3):
        shape = [size, size, size]
        shape[axis] += 1
        white = random.standard_normal(shape)
        near, far = np.arange(size), np.arange(1, size + 1)
        total += white.take(near, axis=axis) + share * white.take(far, axis=axis)
    return total / np.sqrt(3 * (1 + share**2))


def _main_directions(mixture: csr_array, bundles: _Bundles, n_directions: int) -> tuple[Float32, Float32]:
    """Up to `n_directions` fibre directions of each voxel and their shares, largest first.

    The tangents of one bundle make one direction (the main axis of their scatter); bundles less than
    15 degrees apart are taken together.
    """
    n_points = bundles.points.shape[1]
    tangents = bundles.tangents.reshape(-1, 3)
    products = (tangents[:, :, None] * tangents[:, None, :]).reshape(-1, 9)
    directions = np.zeros((mixture.shape[0], n_directions, 3), dtype=np.float32)
    shares = np.zeros((mixture.shape[0], n_directions), dtype=np.float32)
    limit = np.cos(np.radians(MERGE_ANGLE))
    for voxel in np.flatnonzero(np.diff(mixture.indptr)):
        entries = slice(mixture.indptr[voxel], mixture.indptr[voxel + 1])
        columns, weights = mixture.indices[entries], mixture.data[entries]
        groups: list[tuple[float, Float64]] = []
        for bundle in np.unique(columns // n_points):
            own = columns // n_points == bundle
            scatter = (weights[own] @ products[columns[own]]).reshape(3, 3)
            groups.append((float(weights[own].sum()), scatter))
        merged = _merge(groups, limit)
        for rank, (weight, axis) in enumerate(merged[:n_directions]):
            directions[voxel, rank] = axis
            shares[voxel, rank] = weight
    return directions, shares


def _merge(groups: list[tuple[float, Float64]], limit: float) -> list[tuple[float, Float64]]:
    """Scatter matrices to axes, the closest pair taken together while one is closer than the limit."""
    groups = list(groups)
    while True:
        axes = np.array([np.linalg.eigh(scatter)[1][:, -1] for _, scatter in groups])
        cosines = np.abs(axes @ axes.T) - 2 * np.eye(len(axes))
        a, b = divmod(int(np.argmax(cosines)), len(axes))
        if cosines[a, b] <= limit:
            break
        joined = (groups[a][0] + groups[b][0], groups[a][1] + groups[b][1])
        groups = [g for k, g in enumerate(groups) if k not in (a, b)] + [joined]
    order = np.argsort([-weight for weight, _ in groups], kind="stable")
    return [(groups[k][0], axes[k]) for k in order]


def _positive(value: float, name: str) -> float:
    if not np.isfinite(value) or value <= 0:
        raise InvalidInputError(f"{name} must be positive, not {value}")
    return float(value)
