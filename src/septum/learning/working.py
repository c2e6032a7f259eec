"""What the fast solver works on: the samples that matter, the current factors, and exact codes for them.

Samples whose zero codes are optimal for every unit-norm dictionary (polar of the gradient at zero at most
alpha) are screened out before anything else; they cost nothing and change nothing.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from septum.array import Float
from septum.coding import engine
from septum.factors import Factors
from septum.kronecker import Codes, code_indices, sizes
from septum.learning.value import plain_gain, reconstruct
from septum.loss import Loss, Squared
from septum.problem import Problem


def active_samples(problem: Problem) -> NDArray[np.intp]:
    """Samples that some dictionary could use; the bound is exact for n <= 2."""
    found = []
    for part in problem.parts():
        force = problem.loss.influence(problem.data(part))
        upper = problem.regularizer.polar(force).upper
        found.append(part.start + np.flatnonzero(upper > problem.alpha))
    return np.concatenate(found)


@dataclass
class Working:
    """Active samples with the dictionaries and codes that the solver changes as it goes.

    `decrease` is f(0) - lower bound for each active sample; `value` is f(0) - f, always kept in step with
    the factors.
    """

    X: Float
    mask: NDArray[np.bool_] | None
    loss: Loss
    alpha: float
    decrease: Float
    code_tol: float
    n_jobs: int
    dictionaries: list[Float]
    codes: Codes
    value: Float

    @property
    def is_plain(self) -> bool:
        """Squared loss, everything observed."""
        return self.mask is None and isinstance(self.loss, Squared)

    @property
    def sizes(self) -> tuple[int, ...]:
        return sizes(self.dictionaries)

    @property
    def n_atoms(self) -> int:
        """r_1 + ... + r_n."""
        return sum(self.sizes)

    @property
    def gain(self) -> float:
        """f(0) - f over the active samples."""
        return float(self.value.sum())

    def residual_error(self) -> Float:
        """M o (X - Z)."""
        return self._masked(self.X - reconstruct(self.codes, self.dictionaries))

    def force(self) -> Float:
        """R = rho'(M o (X - Z)), minus the gradient of the loss."""
        return self.loss.influence(self.residual_error())

    def weights(self, error: Float) -> Float | None:
        """Entry weights of the quadratic that touches the loss from above at the current error."""
        if self.is_plain:
            return None
        if isinstance(self.loss, Squared):
            weights = np.ones_like(error)
        else:
            size = np.abs(error)
            safe = np.where(size > 0, size, 1.0)
            weights = np.where(size > 0, np.abs(self.loss.influence(error)) / safe, self.loss.lipschitz)
        return self._masked(weights)

    def set_factors(self, dictionaries: list[Float], codes: Codes) -> None:
        """Replace the factors and bring `value` up to date."""
        self.dictionaries, self.codes = dictionaries, codes
        self.value = self.value_of(dictionaries, codes)

    def solve_codes(self, *, tol: float | None = None) -> None:
        """Exact codes for the current dictionaries; a sample keeps its old codes if they are better."""
        self.value = self.value_of(self.dictionaries, self.codes)
        coded = engine.solve(
            self.X,
            self.dictionaries,
            self.alpha,
            tol=self.code_tol if tol is None else tol,
            warm=self.codes,
            mask=self.mask,
            loss=None if isinstance(self.loss, Squared) else self.loss,
            n_jobs=self.n_jobs,
        )
        value = self.value_of(self.dictionaries, coded.codes)
        worse = value < self.value
        if worse.any():
            self.codes = _choose(worse, self.codes, coded.codes)
            self.value = np.maximum(value, self.value)
        else:
            self.codes, self.value = coded.codes, value

    def scale_codes(self, mode: int, factors: Float) -> None:
        """Multiply the codes of every atom of a mode by that atom's factor."""
        _, index = code_indices(self.codes, self.sizes)
        codes = self.codes.copy()
        codes.data = codes.data * factors[index[mode]]
        self.codes = codes

    def restricted(self, kept: list[NDArray[np.intp]]) -> "Working":
        """A copy with only the named atoms."""
        factors = Factors(self.dictionaries, self.codes).restricted(kept)
        copy = Working(**self.__dict__)
        copy.set_factors(list(factors.dictionaries), factors.codes)
        return copy

    def extended(self, new_atoms: list[Float]) -> "Working":
        """A copy with further atoms, not yet used, appended to each mode."""
        r_old = self.sizes
        dictionaries = [
            np.concatenate([A, new], axis=1) for A, new in zip(self.dictionaries, new_atoms, strict=True)
        ]
        sample, index = code_indices(self.codes, r_old)
        flat = np.zeros(self.codes.nnz, dtype=np.int64)
        for A, i in zip(dictionaries, index, strict=True):
            flat = flat * A.shape[1] + i
        width = int(np.prod([A.shape[1] for A in dictionaries], dtype=np.int64))
        codes = sparse.csr_array((self.codes.data, (sample, flat)), shape=(len(self.X), width))
        copy = Working(**self.__dict__)
        copy.dictionaries, copy.codes = dictionaries, codes
        return copy

    def _masked(self, values: Float) -> Float:
        return values if self.mask is None else np.where(self.mask, values, 0.0)

    def value_of(self, dictionaries: list[Float], codes: Codes) -> Float:
        """f(0) - f for every active sample, without cancellation for the squared loss."""
        if self.is_plain:
            return plain_gain(self.X, codes, dictionaries, self.alpha)
        Z = self._masked(reconstruct(codes, dictionaries))
        if isinstance(self.loss, Squared):
            change = Z * (self.X - 0.5 * Z)
        else:
            change = self.loss.value(self.X) - self.loss.value(self.X - Z)
        paid = np.add.reduceat(np.append(np.abs(codes.data), 0.0), codes.indptr[:-1]) if codes.nnz else 0.0
        paid = np.where(np.diff(codes.indptr) > 0, paid, 0.0)
        return change.reshape(len(Z), -1).sum(axis=1) - self.alpha * paid


def _choose(first_wins: NDArray[np.bool_], first: Codes, second: Codes) -> Codes:
    """Rows of `first` where it wins, else rows of `second`."""
    keep_first = sparse.diags_array(first_wins.astype(np.float64), format="csr")
    keep_second = sparse.diags_array((~first_wins).astype(np.float64), format="csr")
    mixed = (keep_first @ first + keep_second @ second).tocsr()
    mixed.eliminate_zeros()
    return mixed
