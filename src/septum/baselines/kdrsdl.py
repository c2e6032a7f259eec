"""Kronecker-decomposable robust sparse dictionary learning, the paper's row KDRSDL.

    min over A, B, R_t, E_t of  alpha sum_t ||R_t||_1 + lam sum_t ||E_t||_1 + (||A||_F^2 + ||B||_F^2)/2
    subject to  X_t = A R_t B^T + E_t.

ADMM on the splitting K_t = R_t (the l1 norm acts on K), multipliers Y_t and Z_t, penalties mu and nu.
With S_t = mu (X_t - E_t) + Y_t one sweep does

    E_t <- soft(X_t - A R_t B^T + Y_t/mu, lam/mu)
    A   <- (sum_t S_t B R_t^T) (I + mu sum_t R_t B^T B R_t^T)^-1,   B likewise
    R_t <- the solution of  mu A^T A R B^T B + nu R = A^T S_t B + nu K_t - Z_t
    K_t <- soft(R_t + Z_t/nu, alpha/nu)
    Y_t <- Y_t + mu (X_t - A R_t B^T - E_t),   Z_t <- Z_t + nu (R_t - K_t),   mu, nu <- growth * (mu, nu).

The equation of R_t is diagonal in the eigenvectors of A^T A and B^T B, which all samples share. The
start averages the samples' singular vectors. The problem is not convex and the penalties grow, so the
answer is a feasible point near a local minimum, not a certified one.

Bahri, Panagakis and Zafeiriou, "Robust Kronecker-decomposable component analysis for low-rank
modeling", ICCV 2017.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg, sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from septum.array import Float, as_alpha, as_float, as_samples
from septum.dictionaries.atom import as_count, as_positive
from septum.errors import InvalidInputError

_FIRST_PENALTY = 1.25  # over the mean norm of the samples
_LARGEST_PENALTY = 1e9  # times the first


class NoAtomsLeftError(InvalidInputError):
    """The error term took all the data, so no atom is left."""


class KDRSDL(TransformerMixin, BaseEstimator):
    """Robust separable dictionary learning; samples (n_samples, d_1, d_2).

    Parameters
    ----------
    alpha : float
        Weight of the codes' l1 norm.
    lam : float or None
        Weight of the errors' l1 norm; None: 1/sqrt(n_samples max(d_1, d_2)), the authors' default. On
        centred data that lets E absorb almost everything: see `tuned_kdrsdl`.
    n_atoms : int or None
        The same number of atoms on both sides; None: min(d_1, d_2).
    growth : float
        Factor of the penalties after each sweep.
    tol : float
        Stops when every sample's constraints hold to this relative error.
    max_iter : int

    Attributes
    ----------
    dictionaries_ : [(d_1, r_1), (d_2, r_2)], unit columns, most used first. Atoms that shrank to zero
        are left out.
    codes_ : sparse COO array (n_samples, r_1, r_2), K with the atoms' norms taken in.
    errors_ : (n_samples, d_1, d_2), the sparse error term E.
    objective_ : float, at the returned point, with the unscaled A and B.
    residual_ : float, the largest relative violation of the constraints.
    n_iter_ : int
    """

    def __init__(
        self,
        alpha: float = 1e-2,
        lam: float | None = None,
        n_atoms: int | None = None,
        *,
        growth: float = 1.2,
        tol: float = 1e-7,
        max_iter: int = 150,
    ) -> None:
        self.alpha = alpha
        self.lam = lam
        self.n_atoms = n_atoms
        self.growth = growth
        self.tol = tol
        self.max_iter = max_iter

    def fit(self, X: ArrayLike, y: object = None) -> "KDRSDL":
        """Learn both dictionaries from X (n_samples, d_1, d_2)."""
        given = _matrices(X)
        data = given.astype(np.float64, copy=False)
        most = min(data.shape[1:])
        n_atoms = most if self.n_atoms is None else as_count(self.n_atoms, "n_atoms")
        if n_atoms > most:
            raise InvalidInputError(f"n_atoms is at most min(d_1, d_2) = {most} here, not {n_atoms}")
        if not data.any():
            raise InvalidInputError("every sample in X is zero: there is nothing to learn")
        left, right, cores = _start(data, n_atoms)
        settings = self._settings(len(data), max(data.shape[1:]))
        state = _State(data, left, right, cores, settings)
        self.n_iter_, self.residual_ = state.run(self.max_iter, self.tol, learn=True)
        norms = np.linalg.norm(state.left, axis=0), np.linalg.norm(state.right, axis=0)
        if min(norms[0].max(), norms[1].max()) < 1e-12:
            raise NoAtomsLeftError(
                f"every atom shrank to zero: the error term took all the data at lam = {settings.lam:.3g}; choose it larger"
            )
        self.objective_ = float(
            settings.alpha * np.abs(state.sparse).sum()
            + settings.lam * np.abs(state.errors).sum()
            + (np.sum(norms[0] ** 2) + np.sum(norms[1] ** 2)) / 2
        )
        codes = state.sparse * norms[0][:, None] * norms[1]
        keep = [_most_used(norms[0], codes, (0, 2)), _most_used(norms[1], codes, (0, 1))]
        self._factors = [state.left[:, keep[0]], state.right[:, keep[1]]]
        self.dictionaries_ = [
            (factor / np.linalg.norm(factor, axis=0)).astype(given.dtype) for factor in self._factors
        ]
        codes = codes[:, keep[0]][:, :, keep[1]].astype(given.dtype)
        self.codes_ = sparse.coo_array(codes)
        self.errors_ = state.errors.astype(given.dtype)
        self.lam_ = settings.lam
        self.n_fitted_ = len(data)
        return self

    def transform(self, X: ArrayLike) -> Float:
        """Codes of other samples, dense (n_samples, r_1, r_2): the same problem with A and B held fixed."""
        check_is_fitted(self)
        given = _matrices(X)
        if given.shape[1:] != tuple(len(factor) for factor in self._factors):
            raise InvalidInputError(
                f"X must be (n_samples, {len(self._factors[0])}, {len(self._factors[1])}), not {given.shape}"
            )
        data = given.astype(np.float64, copy=False)
        left, right = self._factors
        cores = np.zeros((len(data), left.shape[1], right.shape[1]))
        state = _State(data, left, right, cores, self._settings(self.n_fitted_, max(data.shape[1:])))
        state.run(self.max_iter, self.tol, learn=False)
        norms = np.linalg.norm(left, axis=0)[:, None] * np.linalg.norm(right, axis=0)
        return (state.sparse * norms).astype(given.dtype)

    def inverse_transform(self, C: Any) -> Float:
        """The low-rank part that codes stand for, without the errors: (n_samples, d_1, d_2)."""
        check_is_fitted(self)
        codes = C.toarray() if sparse.issparse(C) else as_float(C, "C")
        left, right = self.dictionaries_
        if codes.ndim != 3 or codes.shape[1:] != (left.shape[1], right.shape[1]):
            raise InvalidInputError(
                f"C must be (n_samples, {left.shape[1]}, {right.shape[1]}), not {codes.shape}"
            )
        return left @ codes @ right.T

    def _settings(self, n_samples: int, longest: int) -> "_Settings":
        growth = as_positive(self.growth, "growth")
        if growth < 1:
            raise InvalidInputError(f"growth must be at least 1, not {growth}")
        as_count(self.max_iter, "max_iter")
        as_positive(self.tol, "tol", or_zero=True)
        lam = 1 / np.sqrt(n_samples * longest) if self.lam is None else as_positive(self.lam, "lam")
        return _Settings(as_alpha(self.alpha), float(lam), growth)


@dataclass(frozen=True)
class _Settings:
    alpha: float
    lam: float
    growth: float


class _State:
    """The variables of the ADMM: A, B, R, K, E, and the multipliers and penalties of both constraints."""

    def __init__(self, data: Float, left: Float, right: Float, cores: Float, settings: _Settings) -> None:
        self.data, self.left, self.right, self.cores, self.settings = data, left, right, cores, settings
        self.sparse = cores.copy()
        self.errors = np.zeros_like(data)
        self.fit_multiplier = np.zeros_like(data)
        self.core_multiplier = np.zeros_like(cores)
        self.low_rank = left @ cores @ right.T
        self.norms = np.linalg.norm(data, axis=(1, 2))
        self.penalty = _FIRST_PENALTY / max(self.norms.mean(), np.finfo(float).tiny)
        core_norm = np.linalg.norm(cores, axis=(1, 2)).mean()
        self.core_penalty = _FIRST_PENALTY / core_norm if core_norm > 0 else self.penalty
        self.largest = _LARGEST_PENALTY * self.penalty, _LARGEST_PENALTY * self.core_penalty

    def run(self, max_iter: int, tol: float, *, learn: bool) -> tuple[int, float]:
        """Sweeps until the constraints hold; returns their number and the last violation."""
        violation = np.inf
        sweep = 0
        while sweep < max_iter and violation > tol:
            sweep += 1
            self._update_errors()
            target = self.penalty * (self.data - self.errors) + self.fit_multiplier
            if learn:
                self._update_left(target)
                self._update_right(target)
            self._update_cores(target)
            violation = self._update_multipliers()
        return sweep, violation

    def _update_errors(self) -> None:
        free = self.data - self.low_rank + self.fit_multiplier / self.penalty
        self.errors = _soft(free, self.settings.lam / self.penalty)

    def _update_left(self, target: Float) -> None:
        gram = self.right.T @ self.right
        normal = np.eye(len(gram)) + self.penalty * _sum_products(self.cores @ gram, self.cores)
        self.left = linalg.solve(normal, _sum_products(target @ self.right, self.cores).T, assume_a="pos").T

    def _update_right(self, target: Float) -> None:
        gram = self.left.T @ self.left
        turned = np.ascontiguousarray(self.cores.transpose(0, 2, 1))
        normal = np.eye(len(gram)) + self.penalty * _sum_products(turned @ gram, turned)
        turned_target = np.ascontiguousarray((self.left.T @ target).transpose(0, 2, 1))
        self.right = linalg.solve(normal, _sum_products(turned_target, turned).T, assume_a="pos").T

    def _update_cores(self, target: Float) -> None:
        left_values, left_vectors = np.linalg.eigh(self.left.T @ self.left)
        right_values, right_vectors = np.linalg.eigh(self.right.T @ self.right)
        wanted = (self.left.T @ target) @ self.right
        wanted += self.core_penalty * self.sparse - self.core_multiplier
        turned = left_vectors.T @ wanted @ right_vectors
        turned /= self.penalty * np.outer(left_values, right_values) + self.core_penalty
        self.cores = left_vectors @ turned @ right_vectors.T
        free = self.cores + self.core_multiplier / self.core_penalty
        self.sparse = _soft(free, self.settings.alpha / self.core_penalty)
        self.low_rank = (self.left @ self.cores) @ self.right.T

    def _update_multipliers(self) -> float:
        fit = self.data - self.low_rank - self.errors
        split = self.cores - self.sparse
        self.fit_multiplier += self.penalty * fit
        self.core_multiplier += self.core_penalty * split
        self.penalty = min(self.settings.growth * self.penalty, self.largest[0])
        self.core_penalty = min(self.settings.growth * self.core_penalty, self.largest[1])
        fit_error = _largest_ratio(np.linalg.norm(fit, axis=(1, 2)), self.norms)
        core_error = _largest_ratio(
            np.linalg.norm(split, axis=(1, 2)), np.linalg.norm(self.cores, axis=(1, 2))
        )
        return max(fit_error, core_error)


def _start(data: Float, n_atoms: int) -> tuple[Float, Float, Float]:
    """The averaged singular vectors, each pair's sign set by its largest left entry, and the singular values."""
    left, values, right = np.linalg.svd(data, full_matrices=False)
    largest = np.take_along_axis(left, np.abs(left).argmax(axis=1)[:, None], axis=1)
    signs = np.where(largest < 0, -1.0, 1.0)
    left = (left * signs)[:, :, :n_atoms]
    right = (right * signs.transpose(0, 2, 1))[:, :n_atoms].transpose(0, 2, 1)
    cores = np.zeros((len(data), n_atoms, n_atoms))
    cores[:, np.arange(n_atoms), np.arange(n_atoms)] = values[:, :n_atoms]
    return left.mean(axis=0), right.mean(axis=0), cores


def _sum_products(first: Float, second: Float) -> Float:
    """sum_t first_t second_t^T, as one product."""
    return np.tensordot(first, second, axes=([0, 2], [0, 2]))


def _soft(values: Float, threshold: float) -> Float:
    return values - np.clip(values, -threshold, threshold)


def _largest_ratio(errors: Float, norms: Float) -> float:
    """The largest relative error; a sample of norm zero counts absolutely."""
    return float((errors / np.where(norms > 0, norms, 1.0)).max())


def _most_used(norms: Float, codes: Float, axes: tuple[int, int]) -> NDArray[np.intp]:
    """Atoms that did not shrink to zero, by how many codes use them."""
    alive = np.flatnonzero(norms > 1e-10 * norms.max())
    usage = np.count_nonzero(codes, axis=axes)
    return alive[np.argsort(-usage[alive], kind="stable")]


def _matrices(X: ArrayLike) -> Float:
    data = as_samples(X).data
    if data.ndim != 3:
        raise InvalidInputError(f"X must be (n_samples, d_1, d_2), not {data.shape}")
    return data
