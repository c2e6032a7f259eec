"""I-SR + TV as a `Method`: each patch, or each whole slice, is coded with total variation over its image."""

from math import prod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from septum.array import Float
from septum.baselines.method import as_patches
from septum.baselines.total_variation import TotalVariationResult, total_variation_code
from septum.coding import CodingResult
from septum.dictionaries.atom import as_extent, as_positive
from septum.errors import InvalidInputError, SeptumError


class TotalVariationMethod:
    """Spherical ridgelets in angle, the identity and total variation in space.

    `beta` is `strength` times alpha. Total variation sees the borders of a patch as borders of the
    image, so whole slices, as patches (1, G, V), suit it better than small ones. `results_` keeps the
    certificate of each patch coded last.
    """

    kind = "fixed"

    def __init__(
        self,
        name: str,
        angular: Float,
        image_shape: tuple[int, ...],
        *,
        strength: float = 0.1,
        tol: float = 1e-3,
        max_iter: int = 100,
    ) -> None:
        self.name = name
        self.angular = angular
        self.image_shape = as_extent(image_shape, "image_shape")
        self.strength = as_positive(strength, "strength")
        self.tol = tol
        self.max_iter = max_iter
        self.results_: list[TotalVariationResult] | None = None

    def fit(self, patches: ArrayLike) -> Self:
        """Nothing is learned; the patches' shape is checked."""
        self._check(as_patches(patches))
        return self

    def code(self, patches: ArrayLike, alpha: float) -> CodingResult:
        """The codes of patches at `alpha`, (T, r, V), each certified by its own duality gap."""
        data = self._check(as_patches(patches))
        self.results_ = [
            total_variation_code(
                patch,
                self.angular,
                self.image_shape,
                alpha,
                self.strength * alpha,
                tol=self.tol,
                max_iter=self.max_iter,
            )
            for patch in data
        ]
        return self._joined(self.results_)

    def reconstruct(self, patches: ArrayLike, alpha: float) -> Float:
        """The patches that their codes at `alpha` stand for: (T, G, V)."""
        self.code(patches, alpha)
        if self.results_ is None:
            raise SeptumError(f"{self.name} has no codes")
        return np.stack([result.image for result in self.results_])

    def describe(self) -> dict[str, Any]:
        """The method's name, kind, settings and sizes."""
        return {
            "name": self.name,
            "kind": self.kind,
            "angular": "spherical ridgelets",
            "spatial": "identity, total variation",
            "strength": self.strength,
            "image_shape": list(self.image_shape),
            "fitted": True,
            "atoms": [int(self.angular.shape[1]), None],
            "entries": int(self.angular.size),
        }

    def _check(self, data: Float) -> Float:
        wanted = (self.angular.shape[0], prod(self.image_shape))
        if data.shape[1:] != wanted:
            raise InvalidInputError(
                f"{self.name} needs patches of shape (T, {wanted[0]}, {wanted[1]}), not {data.shape}"
            )
        return data

    def _joined(self, results: list[TotalVariationResult]) -> CodingResult:
        coords = [
            np.concatenate(parts)
            for parts in zip(*(_indices(r, t) for t, r in enumerate(results)), strict=True)
        ]
        values = np.concatenate([result.codes.data for result in results])
        shape = (len(results), self.angular.shape[1], prod(self.image_shape))
        codes = sparse.coo_array((values, tuple(coords)), shape=shape)
        return CodingResult(
            codes=codes,
            gap=np.array([result.objective - result.lower_bound for result in results]),
            n_iter=np.array([result.n_iter for result in results]),
            converged=np.array([result.converged for result in results]),
        )


def _indices(result: TotalVariationResult, patch: int) -> tuple[Any, Any, Any]:
    voxel, atom = result.codes.coords
    return np.full(voxel.size, patch), atom, voxel
