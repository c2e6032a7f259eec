"""The dictionaries of an image: learned from patches across its whole volume, certified, kept, and used.

A sample is the contrasts of one patch in units of the noise, (n_directions, n_voxels). Patches whose largest
singular value is below the noise edge have zero codes for every dictionary (the screening rule), so samples
are drawn from the others, everywhere in the image. `learn` seeds the dictionaries from the known
optimum of those samples and certifies them at alpha = the noise edge; `code_layer` denoises patches with them:
sparse codes at the level where noise alone has none, then least squares on the atoms found.

    draw     which patches, and their samples
    learn    septum.SeparableDictionaryLearning on them
    recertify  the certificate again, from the saved codes on the model's own image or from fresh codes
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from septum.array import Float
from septum.certificate import Certificate, certify
from septum.coding.compiled import compiled
from septum.coding.engine import solve
from septum.dmri.band import Float32, Source, in_order
from septum.dmri.contrast import Groups, group
from septum.dmri.gradient import Gradients, check_same_scheme
from septum.dmri.noise import Noise, coding_alpha, edge
from septum.dmri.patch import Tiling, count_inside, gather, tile
from septum.dmri.shrinkage import edge_squared
from septum.errors import InvalidInputError
from septum.estimator import SeparableDictionaryLearning
from septum.persistence import load as load_estimator
from septum.persistence import save as save_estimator

N_PATCHES = 300
# Patches coded at once by one thread.
RUN = 256
_CODE_GAP = 1e-3
_KIND = "diffusion contrasts"


@dataclass(frozen=True, eq=False)
class Origin:
    """Where a model's samples lie: image, x, y, z of each (n_samples, 4), sigma in its voxels, the images' hashes."""

    positions: NDArray[np.int64]
    scales: Float32
    hashes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Model:
    """Fitted dictionaries [angular (n_directions, r_1), spatial (n_voxels, r_2)] and what they are for."""

    estimator: SeparableDictionaryLearning
    patch: tuple[int, int, int]
    gradients: Gradients
    origin: Origin
    centre: bool = True

    @property
    def groups(self) -> Groups:
        return group(self.gradients, centre=self.centre)

    @property
    def dictionaries(self) -> list[Float]:
        return self.estimator.dictionaries_

    @property
    def sizes(self) -> tuple[int, int]:
        angular, spatial = self.dictionaries
        return angular.shape[1], spatial.shape[1]

    @property
    def alpha(self) -> float:
        return float(self.estimator.alpha)

    @property
    def certificate(self) -> Certificate:
        return self.estimator.certificate_

    def check(self, gradients: Gradients) -> None:
        """Raise unless the model is for this scheme, its volumes in this order."""
        check_same_scheme(self.gradients, gradients)
        ours, theirs = self.groups.contrasted, group(gradients, centre=self.centre).contrasted
        if len(ours) != len(theirs) or not np.array_equal(self.gradients.is_b0[ours], gradients.is_b0[theirs]):
            raise InvalidInputError(
                f"the model was made for {self.gradients.describe()}, but this image has {gradients.describe()}, or has its "
                "b0s in another place: learn a model on this scheme, or leave --model out"
            )

    def save(self, path: str | Path) -> None:
        """Write the model, whole or not at all."""
        extra: dict[str, Any] = {
            "kind": _KIND,
            "patch": list(self.patch),
            "centre": self.centre,
            "bvals": self.gradients.bvals,
            "bvecs": self.gradients.bvecs,
            "b0_threshold": float(self.gradients.b0_threshold),
            "positions": self.origin.positions,
            "scales": self.origin.scales,
            "hashes": list(self.origin.hashes),
        }
        save_estimator(self.estimator, path, extra=extra)


def load(path: str | Path) -> Model:
    """Read a model that `Model.save` (or `septum learn`) wrote."""
    try:
        estimator = load_estimator(path)
    except OSError as error:
        raise InvalidInputError(f"cannot read {path}: {error.strerror or error}") from error
    extra: Mapping[str, Any] = getattr(estimator, "extra_", {})
    if extra.get("kind") != _KIND:
        raise InvalidInputError(f"{path} holds dictionaries, but not of diffusion images: make one with septum learn")
    gradients = Gradients(extra["bvals"], extra["bvecs"], extra["b0_threshold"])
    x, y, z = extra["patch"]
    origin = Origin(extra["positions"], extra["scales"], tuple(extra["hashes"]))
    return Model(estimator, (x, y, z), gradients, origin, bool(extra["centre"]))


def fingerprint(source: Source) -> str:
    """The SHA-256 of an image's values, slice after slice as float32."""
    total = hashlib.sha256(repr(tuple(source.shape)).encode())
    for z in range(source.shape[2]):
        total.update(np.ascontiguousarray(source.slab(z, z + 1)).data)
    return total.hexdigest()


# --- samples -------------------------------------------------------------------------------------------


def draw(
    source: Source,
    inside: NDArray[np.bool_],
    noise: Noise,
    groups: Groups,
    patch: Sequence[int],
    n_patches: int,
    seed: int,
    n_jobs: int,
) -> NDArray[np.int64]:
    """Starts (n, 3) of at most `n_patches` patches that stand out of the noise, from everywhere inside."""
    tiling = tile(source.shape, patch, [max(1, p // 2) for p in patch])
    corners = np.stack(np.meshgrid(*tiling.starts, indexing="ij"), axis=-1).reshape(-1, 3)
    order = np.random.default_rng(seed).permutation(len(corners))
    found: list[NDArray[np.int64]] = []
    count = 0
    step = 2 * n_patches
    for first in range(0, min(len(order), 8 * step), step):
        tried = corners[order[first : first + step]]
        stands = np.zeros(len(tried), dtype=bool)
        layers = [np.flatnonzero(tried[:, 2] == z) for z in np.unique(tried[:, 2])]

        def look(rows: NDArray[np.intp], tried: NDArray[np.int64] = tried) -> NDArray[np.bool_]:
            z = int(tried[rows[0], 2])
            values = contrasts_of(source, noise, groups, slice(z, z + tiling.shape[2]))
            out = np.zeros(len(rows), dtype=np.bool_)
            stand_out(values, inside[:, :, z : z + tiling.shape[2]], tried[rows], tiling.shape, groups.n_free, out)
            return out

        for rows, out in zip(layers, in_order(look, layers, n_jobs), strict=True):
            stands[rows] = out
        found.append(tried[stands])
        count += int(stands.sum())
        if count >= n_patches:
            break
    return np.concatenate(found)[:n_patches].astype(np.int64) if found else np.zeros((0, 3), np.int64)


def contrasts_of(source: Source, noise: Noise, groups: Groups, z: slice) -> Float32:
    """The contrasts of some slices in units of the noise, (X, Y, depth, n_directions)."""
    values = source.slab(z.start, z.stop)
    values /= noise.at(z)
    return groups.contrasts(values, groups.means(values))


def samples_at(
    source: Source, groups: Groups, positions: NDArray[np.int64], scales: Float32, patch: tuple[int, int, int]
) -> Float32:
    """Samples (n, n_directions, n_voxels) of patches that start at `positions`; `scales` is sigma in each voxel."""
    n_voxels = int(np.prod(patch))
    out = np.empty((len(positions), len(groups.contrasted), n_voxels), np.float32)
    for z in np.unique(positions[:, 2]):
        values = source.slab(int(z), int(z) + patch[2])
        for t in np.flatnonzero(positions[:, 2] == z):
            x, y = positions[t, :2]
            block = values[x : x + patch[0], y : y + patch[1]].reshape(n_voxels, -1) / scales[t][:, None]
            out[t] = groups.contrasts(block, groups.means(block)).T
    return out


def scales_at(noise: Noise, positions: NDArray[np.int64], patch: tuple[int, int, int]) -> Float32:
    """Sigma in every voxel of every patch, (n, n_voxels)."""
    n_voxels = int(np.prod(patch))
    if noise.field is None:
        return np.full((len(positions), n_voxels), noise.sigma, np.float32)
    a, b, c = patch
    return np.stack([noise.field[x : x + a, y : y + b, z : z + c].reshape(-1) for x, y, z in positions]).reshape(
        -1, n_voxels
    )


@compiled
def stand_out(contrast, inside, corners, shape, n_free, out):
    """Whether the largest singular value of each patch (all in one layer, z = 0) is above the noise edge."""
    n_voxels, n = shape[0] * shape[1] * shape[2], contrast.shape[3]
    patch = np.empty((n_voxels, n), np.float32)
    for t in range(len(corners)):
        x, y = corners[t, 0], corners[t, 1]
        count = count_inside(inside, x, y, 0, shape)
        out[t] = False
        if 2 * count < n_voxels:
            continue
        gather(contrast, x, y, 0, shape, patch)
        if n_voxels < n:
            gram = np.dot(patch, patch.T)
        else:
            gram = np.dot(patch.T, patch)
        squares = np.linalg.eigvalsh(gram)
        out[t] = squares[-1] > edge_squared(count, n_free)


# --- learning ------------------------------------------------------------------------------------------


def default_sizes(n_directions: int, n_voxels: int) -> tuple[int, int]:
    """At most this many atoms: as many as directions, and as voxels."""
    return n_directions, n_voxels


def learn(
    images: Sequence[tuple[Source, NDArray[np.bool_], Noise]],
    gradients: Gradients,
    *,
    patch: tuple[int, int, int] = (5, 5, 5),
    n_patches: int = N_PATCHES,
    n_atoms: Sequence[int] | None = None,
    alpha: float | None = None,
    centre: bool = True,
    seed: int = 0,
    n_jobs: int = 1,
    callback: Callable[[float, str], Any] | None = None,
    **options: Any,
) -> Model | None:
    """Learn a model from images of one scheme, each with what is inside and its noise; None where all is noise.

    `alpha` is in units of the noise; None is the noise edge.
    """
    report = callback or (lambda fraction, text: None)
    groups = group(gradients, centre=centre)
    share = -(-n_patches // len(images))
    positions, scales, samples = [], [], []
    for k, (source, inside, noise) in enumerate(images):
        report(0.3 * k / len(images), "choosing patches")
        at = draw(source, inside, noise, groups, patch, share, seed, n_jobs)
        scales.append(scales_at(noise, at, patch))
        samples.append(samples_at(source, groups, at, scales[-1], patch))
        positions.append(np.column_stack([np.full(len(at), k), at]))
    X = np.concatenate(samples)
    if not len(X):
        return None
    report(0.3, "learning dictionaries")
    level = edge(groups.n_free, X.shape[2]) if alpha is None else float(alpha)
    estimator = SeparableDictionaryLearning(
        level,
        n_atoms=list(default_sizes(X.shape[1], X.shape[2]) if n_atoms is None else n_atoms),
        random_state=seed,
        n_jobs=n_jobs,
        **{"max_iter": 1, "tol": 0.01, **options},
    )
    estimator.fit(X)
    if estimator.codes_.nnz == 0:
        return None
    hashes = tuple(fingerprint(source) for source, _, _ in images)
    origin = Origin(np.concatenate(positions).astype(np.int64), np.concatenate(scales), hashes)
    report(1.0, "learning dictionaries")
    return Model(estimator, patch, gradients, origin, centre)


def recertify(
    model: Model,
    source: Source,
    inside: NDArray[np.bool_],
    noise: Callable[[], Noise],
    *,
    seed: int = 0,
    n_jobs: int = 1,
) -> tuple[Certificate, bool]:
    """The certificate on an image, and whether it comes from the model's own codes: its own image, else fresh codes.

    `noise` is called only where fresh codes are needed.
    """
    groups = model.groups
    if len(model.origin.hashes) == 1 and fingerprint(source) == model.origin.hashes[0]:
        X = samples_at(source, groups, model.origin.positions[:, 1:], model.origin.scales, model.patch)
        return certify(X, model.dictionaries, model.estimator.codes_, model.alpha), True
    found = noise()
    n_patches = max(1, len(model.origin.positions))
    at = draw(source, inside, found, groups, model.patch, n_patches, seed, n_jobs)
    if not len(at):
        raise InvalidInputError("no patch of this image stands out of its noise, so there is nothing to certify on it")
    X = samples_at(source, groups, at, scales_at(found, at, model.patch), model.patch)
    codes = solve(X, model.dictionaries, model.alpha, tol=1e-8, n_jobs=n_jobs).codes
    return certify(X, model.dictionaries, codes.toarray().reshape(len(X), *model.sizes), model.alpha), False


# --- denoising -----------------------------------------------------------------------------------------


class Coder:
    """A model made ready to denoise patches."""

    def __init__(self, model: Model, groups: Groups) -> None:
        angular, spatial = (np.ascontiguousarray(A, dtype=np.float64) for A in model.dictionaries)
        self.angular, self.spatial = angular, spatial
        self.grams = (angular.T @ angular, spatial.T @ spatial)
        rows = edge(groups.n_free, len(spatial))
        self.alpha = coding_alpha(rows, (angular.shape[1], spatial.shape[1]), 1)

    def add_layer(
        self, contrast: Float32, tiling: Tiling, z: int, rank: NDArray[np.int64], share: float, total: Float32
    ) -> None:
        """Add `share` times the estimate of each patch of a layer that stands out, weighted as the others are."""
        rows = np.argwhere(rank > 0)
        corners = np.column_stack([tiling.starts[0][rows[:, 0]], tiling.starts[1][rows[:, 1]]])
        ranks = rank[rows[:, 0], rows[:, 1]]
        for first in range(0, len(rows), RUN):
            part = slice(first, first + RUN)
            X = np.empty((len(corners[part]), len(self.angular), len(self.spatial)), np.float32)
            gather_samples(contrast, corners[part], z, tiling.shape, X)
            codes: sparse.csr_array = solve(X, [self.angular, self.spatial], self.alpha, tol=_CODE_GAP).codes
            refit_patches(
                X,
                codes.indptr.astype(np.int64),
                codes.indices.astype(np.int64),
                self.angular,
                self.spatial,
                *self.grams,
                corners[part],
                z,
                tiling.shape,
                ranks[part],
                np.float32(share),
                total,
            )


@compiled
def gather_samples(contrast, corners, z, shape, out):
    """Samples (n, n_directions, n_voxels) of patches of one layer."""
    n = contrast.shape[3]
    for t in range(len(corners)):
        row = 0
        for i in range(corners[t, 0], corners[t, 0] + shape[0]):
            for j in range(corners[t, 1], corners[t, 1] + shape[1]):
                for k in range(z, z + shape[2]):
                    for v in range(n):
                        out[t, v, row] = contrast[i, j, k, v]
                    row += 1


@compiled
def refit_patches(X, start, index, angular, spatial, gram_a, gram_s, corners, z, shape, ranks, share, total):
    """Least squares on each patch's atoms, added to the sums with the weight of its rank."""
    n_directions, n_voxels = X.shape[1], X.shape[2]
    n_spatial = spatial.shape[1]
    for t in range(len(X)):
        n = start[t + 1] - start[t]
        if n == 0:
            continue
        left = np.empty((n, n_directions))
        right = np.empty((n, n_voxels))
        gram = np.empty((n, n))
        for a in range(n):
            atom = index[start[t] + a]
            i, j = atom // n_spatial, atom % n_spatial
            left[a] = angular[:, i]
            right[a] = spatial[:, j]
            for b in range(n):
                other = index[start[t] + b]
                gram[a, b] = gram_a[i, other // n_spatial] * gram_s[j, other % n_spatial]
            gram[a, a] += 1e-4
        products = np.dot(X[t].astype(np.float64), right.T)
        signal = np.empty(n)
        for a in range(n):
            value = 0.0
            for v in range(n_directions):
                value += left[a, v] * products[v, a]
            signal[a] = value
        codes = np.linalg.solve(gram, signal)
        for a in range(n):
            right[a] *= codes[a]
        estimate = np.dot(right.T, left)
        w = share * np.float32(1.0 / (1.0 + ranks[t]))
        row = 0
        for i in range(corners[t, 0], corners[t, 0] + shape[0]):
            for j in range(corners[t, 1], corners[t, 1] + shape[1]):
                for k in range(z, z + shape[2]):
                    for v in range(n_directions):
                        total[i, j, k, v] += w * estimate[row, v]
                    row += 1
