"""One interface for every row of the comparison, so that an experiment is a list of methods.

A method learns from patches (T, G, V), T patches of G measurements at V voxels, and codes patches:

    method.fit(patches)                    learn, or build, the dictionaries; returns the method
    method.code(patches, alpha)            CodingResult, codes (T, r_1, r_2)
    method.reconstruct(patches, alpha)     (T, G, V), the denoised patches
    method.describe()                      what it is, as JSON-ready values

The protocol is `Method`. Two classes fill it for every dictionary: `SeparableMethod` joins an angular
dictionary (G, r_1) and a spatial one (V, r_2), from any learner; where the spatial one is the identity
each voxel is coded alone. `VectorisedMethod` codes whole patches (T, G V) on one dictionary. The third,
`TotalVariationMethod`, is in `tv_method`. Names are "spatial-angular", as in the paper's tables: I-SR is
the identity in space and spherical ridgelets in angle.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from septum.array import Float, as_samples, chunks
from septum.coding import CodingResult, sparse_code
from septum.errors import InvalidInputError, SeptumError
from septum.kronecker import flatten_codes, multiply_sparse


@dataclass(frozen=True)
class Learned:
    """What a learner hands back: the dictionaries, the fitted model if there is one, and facts to report.

    A spatial dictionary of None is the identity.
    """

    dictionaries: list[Any]
    model: Any = None
    facts: dict[str, Any] = field(default_factory=dict)


Learner = Callable[[Float], Learned]


@runtime_checkable
class Method(Protocol):
    """One row of the comparison."""

    name: str

    def fit(self, patches: ArrayLike) -> Self: ...

    def code(self, patches: ArrayLike, alpha: float) -> CodingResult: ...

    def reconstruct(self, patches: ArrayLike, alpha: float) -> Float: ...

    def describe(self) -> dict[str, Any]: ...


class _Fitted:
    """What the methods share: a name, a learner, the fitted dictionaries and their description."""

    def __init__(
        self,
        name: str,
        learner: Learner,
        *,
        kind: str,
        settings: dict[str, Any] | None = None,
        tol: float = 1e-4,
        n_jobs: int | None = None,
    ) -> None:
        if kind not in ("fixed", "separate", "joint"):
            raise InvalidInputError(f'kind must be "fixed", "separate" or "joint", not {kind!r}')
        self.name = name
        self.learner = learner
        self.kind = kind
        self.settings = dict(settings or {})
        self.tol = tol
        self.n_jobs = n_jobs
        self.learned_: Learned | None = None

    def describe(self) -> dict[str, Any]:
        """The method's name, kind and settings and, once fitted, its sizes."""
        said: dict[str, Any] = {"name": self.name, "kind": self.kind, **self.settings, "fitted": False}
        if self.learned_ is not None:
            atoms = [None if D is None else int(D.shape[1]) for D in self.learned_.dictionaries]
            said |= {"fitted": True, "atoms": atoms, "entries": self._entries(), **self.learned_.facts}
        return said

    def _entries(self) -> int:
        """Numbers that the dictionaries hold: what learning had to find."""
        matrices = [D for D in self._dictionaries() if isinstance(D, np.ndarray)]
        return sum(D.size for D in matrices)

    def _dictionaries(self) -> list[Any]:
        if self.learned_ is None:
            raise SeptumError(f"{self.name} has no dictionaries yet: call fit(patches) first")
        return self.learned_.dictionaries

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class SeparableMethod(_Fitted):
    """An angular and a spatial dictionary, coded by the separable lasso."""

    def fit(self, patches: ArrayLike) -> Self:
        """Learn the dictionaries from patches (T, G, V)."""
        self.learned_ = self.learner(as_patches(patches))
        return self

    @property
    def dictionaries_(self) -> list[Any]:
        """[angular, spatial]; a spatial dictionary of None is the identity."""
        return self._dictionaries()

    def code(self, patches: ArrayLike, alpha: float) -> CodingResult:
        """The codes of patches at `alpha`: (T, r_1, r_2), and (T, r_1, V) where space is the identity."""
        data = as_patches(patches)
        angular, spatial = self._dictionaries()
        if spatial is not None:
            return sparse_code(data, [angular, spatial], alpha, tol=self.tol, n_jobs=self.n_jobs)
        voxels = data.transpose(0, 2, 1).reshape(-1, data.shape[1])
        found = sparse_code(voxels, [angular], alpha, tol=self.tol, n_jobs=self.n_jobs)
        return _by_patch(found, len(data), data.shape[2])

    def reconstruct(self, patches: ArrayLike, alpha: float) -> Float:
        """The patches that their codes at `alpha` stand for: (T, G, V)."""
        return synthesise(self.code(patches, alpha).codes, self._dictionaries())


class VectorisedMethod(_Fitted):
    """One dictionary for whole patches, (G V, r): nothing is separable."""

    def fit(self, patches: ArrayLike) -> Self:
        """Learn the dictionary from patches (T, G, V)."""
        self.learned_ = self.learner(as_patches(patches))
        return self

    @property
    def dictionaries_(self) -> list[Any]:
        """[(G V, r)]."""
        return self._dictionaries()

    def code(self, patches: ArrayLike, alpha: float) -> CodingResult:
        """The codes of patches at `alpha`, (T, r)."""
        data = as_patches(patches)
        flat = data.reshape(len(data), -1)
        return sparse_code(flat, self._dictionaries(), alpha, tol=self.tol, n_jobs=self.n_jobs)

    def reconstruct(self, patches: ArrayLike, alpha: float) -> Float:
        """The patches that their codes at `alpha` stand for: (T, G, V)."""
        data = as_patches(patches)
        return synthesise(self.code(data, alpha).codes, self._dictionaries()).reshape(data.shape)


def as_patches(patches: ArrayLike) -> Float:
    """Checked patches (T, G, V)."""
    data = as_samples(patches, name="patches").data
    if data.ndim != 3:
        raise InvalidInputError(
            f"patches must be (T, G, V): patches, measurements, voxels flattened row by row, not {data.shape}"
        )
    return data


def synthesise(codes: sparse.coo_array, dictionaries: list[Any]) -> Float:
    """Reconstructions from sparse codes; the last dictionary is a matrix, an operator, or None for the identity."""
    last = dictionaries[-1]
    flat = flatten_codes(codes, codes.shape, codes.dtype)
    if isinstance(last, np.ndarray):
        return multiply_sparse(flat, dictionaries)
    if last is None:
        return _multiply_angular(codes, dictionaries[0])
    parts = []
    for part in chunks(codes.shape[0], 8 * prod(codes.shape[1:])):
        rows = flat[part].toarray().reshape(-1, *codes.shape[1:])
        if len(dictionaries) == 2:
            rows = np.matmul(dictionaries[0], rows)
        whole = last.matmat(rows.reshape(-1, rows.shape[-1]).T).T
        parts.append(np.ascontiguousarray(whole).reshape(*rows.shape[:-1], last.shape[0]))
    return np.concatenate(parts)


def _multiply_angular(codes: sparse.coo_array, angular: Any) -> Float:
    """Gamma C_t for codes (T, r, V) of single voxels."""
    n_patches, n_atoms, n_voxels = codes.shape
    patch, atom, voxel = codes.coords
    rows = sparse.csr_array(
        (codes.data, (patch * n_voxels + voxel, atom)), shape=(n_patches * n_voxels, n_atoms)
    )
    voxels = rows @ angular.T
    return np.ascontiguousarray(voxels.reshape(n_patches, n_voxels, -1).transpose(0, 2, 1))


def _by_patch(found: CodingResult, n_patches: int, n_voxels: int) -> CodingResult:
    """Voxel codes (T V, r) as patch codes (T, r, V); a patch's gap is the sum over its voxels."""
    rows, atoms = found.codes.coords
    codes = sparse.coo_array(
        (found.codes.data, (rows // n_voxels, atoms, rows % n_voxels)),
        shape=(n_patches, found.codes.shape[1], n_voxels),
    )
    return replace(found, codes=codes)
