"""K-SVD: the dictionary learning of the paper's rows I-KSVD, Curve-KSVD, KSVD-SR and KSVD-KSVD.

    min over D, C of ||X - C D^T||^2   with at most s nonzeros in each row of C and unit atoms.

Each sweep codes the signals by batch OMP (`pursuit`) and then visits the atoms one by one. With
R = X - C D^T the residual, S the signals that use atom d, g their codes and E = R_S + g d^T, approximate
K-SVD replaces the leading singular pair of E by one alternating step, d <- E^T g / ||E^T g||, then
g <- E d. After every sweep but the last few, atoms that hardly any signal uses, and the less used of two
atoms with |<d_i, d_j>| > 0.99, are replaced by the signals that are represented worst.

The approximate step and OMP: Rubinstein, Zibulevsky and Elad, CS Technion, 2008. K-SVD and the
replacements: Aharon, Elad and Bruckstein, IEEE Transactions on Signal Processing 54(11), 2006.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from septum.array import Float, as_float
from septum.baselines.pursuit import batch_omp
from septum.dictionaries.atom import as_count, as_positive
from septum.errors import InvalidInputError, InvalidTypeError

_ALIKE = 0.99  # two atoms this coherent are one
_LEAST_USE = 3  # an atom with fewer signals than this is unused
_SETTLING = 5  # the last sweeps replace nothing


class KSVD(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Approximate K-SVD with batch OMP.

    Parameters
    ----------
    n_atoms : int or None
        Atoms to learn; None: twice the number of features.
    n_nonzero : int or None
        Atoms in each code; None: a tenth of the features, at least one.
    max_iter : int
        Sweeps.
    tol : float or None
        When given, a code stops once its residual norm is at most `tol`, as for denoising at a known
        noise level; `n_nonzero` still caps it.
    init : None or array (n_features, n_atoms)
        Starting atoms; None: random signals, unit norm.
    random_state : None, int or RandomState
        Chooses the starting signals and the order of the atoms.

    Attributes
    ----------
    dictionary_ : (n_features, n_atoms), unit columns, most used first.
    components_ : (n_atoms, n_features), its transpose, as scikit-learn names it.
    codes_ : sparse COO array (n_samples, n_atoms), of the training signals.
    usage_ : (n_atoms,), how many training signals use each atom.
    error_ : (n_iter_,), the root mean square error of each sweep, after its atoms are updated.
    n_replaced_ : int, atoms replaced in all.
    """

    def __init__(
        self,
        n_atoms: int | None = None,
        n_nonzero: int | None = None,
        *,
        max_iter: int = 50,
        tol: float | None = None,
        init: ArrayLike | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_atoms = n_atoms
        self.n_nonzero = n_nonzero
        self.max_iter = max_iter
        self.tol = tol
        self.init = init
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: object = None) -> "KSVD":
        """Learn from signals in the rows of X, (n_samples, n_features). Zero rows teach nothing."""
        signals = self._signals(X, reset=True)
        n_features = signals.shape[1]
        n_atoms = 2 * n_features if self.n_atoms is None else as_count(self.n_atoms, "n_atoms")
        n_nonzero, tolerance = self._sparsity(n_features, n_atoms)
        sweeps = as_count(self.max_iter, "max_iter")
        random = check_random_state(self.random_state)
        used = np.flatnonzero(np.any(signals != 0, axis=1))
        if used.size == 0:
            raise InvalidInputError("every signal in X is zero: there is nothing to learn")
        learner = _Learner(np.ascontiguousarray(signals[used]), n_nonzero, tolerance)
        learner.dictionary = self._start(learner.signals, n_atoms, random)
        errors = [learner.sweep(random, settle=k >= sweeps - _SETTLING) for k in range(sweeps)]
        learner.order()
        self.dictionary_ = learner.dictionary
        self.components_ = learner.dictionary.T
        self.usage_ = learner.usage()
        self.codes_ = _as_coo(learner.atoms, learner.values, used, (len(signals), n_atoms))
        self.error_ = np.array(errors)
        self.n_replaced_ = learner.n_replaced
        self.n_iter_ = sweeps
        self._n_features_out = n_atoms
        return self

    def transform(self, X: ArrayLike, *, sparse_output: bool = False) -> "Float | sparse.coo_array":
        """The OMP codes of signals, (n_samples, n_atoms), at the same sparsity."""
        check_is_fitted(self)
        signals = self._signals(X, reset=False)
        dictionary = self.dictionary_.astype(signals.dtype, copy=False)
        n_nonzero, tolerance = self._sparsity(*dictionary.shape)
        atoms, values = pursue(signals, dictionary, n_nonzero, tolerance)
        codes = _as_coo(atoms, values, np.arange(len(signals)), (len(signals), dictionary.shape[1]))
        return codes if sparse_output else codes.toarray()

    def inverse_transform(self, C: Any) -> Float:
        """The signals that codes stand for, (n_samples, n_features)."""
        check_is_fitted(self)
        codes = sparse.csr_array(C) if sparse.issparse(C) else as_float(C, "C")
        if codes.ndim != 2 or codes.shape[1] != self.dictionary_.shape[1]:
            raise InvalidInputError(
                f"C must be (n_samples, {self.dictionary_.shape[1]}), one column for each atom, not {codes.shape}"
            )
        return np.asarray(codes @ self.dictionary_.T)

    def _signals(self, X: ArrayLike, *, reset: bool) -> Float:
        try:
            return validate_data(self, X, reset=reset, dtype=[np.float64, np.float32])
        except ValueError as error:
            raise InvalidInputError(str(error)) from error
        except TypeError as error:
            raise InvalidTypeError(str(error)) from error

    def _sparsity(self, n_features: int, n_atoms: int) -> tuple[int, float]:
        asked = max(1, n_features // 10) if self.n_nonzero is None else as_count(self.n_nonzero, "n_nonzero")
        tolerance = 0.0 if self.tol is None else as_positive(self.tol, "tol", or_zero=True) ** 2
        return min(asked, n_features, n_atoms), tolerance

    def _start(self, signals: Float, n_atoms: int, random: np.random.RandomState) -> Float:
        if self.init is not None:
            start = as_float(self.init, "init").astype(signals.dtype)
            if start.shape != (signals.shape[1], n_atoms) or not np.isfinite(start).all():
                raise InvalidInputError(f"init must be a finite array of shape {(signals.shape[1], n_atoms)}")
            norms = np.linalg.norm(start, axis=0)
            if not norms.all():
                raise InvalidInputError("init has a zero atom")
            return start / norms
        chosen = random.permutation(len(signals))[:n_atoms]
        start = signals[chosen].T
        if chosen.size < n_atoms:
            more = random.standard_normal((signals.shape[1], n_atoms - chosen.size))
            start = np.concatenate([start, more.astype(signals.dtype)], axis=1)
        return np.ascontiguousarray(start / np.linalg.norm(start, axis=0))


def pursue(
    signals: Float, dictionary: Float, n_nonzero: int, tolerance: float = 0.0
) -> tuple[NDArray[np.int32], Float]:
    """Batch OMP of the rows of `signals` on the columns of `dictionary`."""
    energies = np.einsum("td,td->t", signals, signals)
    return batch_omp(dictionary.T @ dictionary, signals @ dictionary, energies, n_nonzero, tolerance)


class _Learner:
    """The state of one fit: signals, dictionary, and codes as (atoms, values) of a few slots for each signal."""

    dictionary: Float
    atoms: NDArray[np.int32]
    values: Float

    def __init__(self, signals: Float, n_nonzero: int, tolerance: float) -> None:
        self.signals = signals
        self.n_nonzero = n_nonzero
        self.tolerance = tolerance
        self.n_replaced = 0

    def sweep(self, random: np.random.RandomState, *, settle: bool) -> float:
        """One coding and one pass over the atoms; returns the root mean square error."""
        n_atoms = self.dictionary.shape[1]
        self.atoms, self.values = pursue(self.signals, self.dictionary, self.n_nonzero, self.tolerance)
        codes = _as_coo(self.atoms, self.values, np.arange(len(self.signals)), (len(self.signals), n_atoms))
        residual = self.signals - codes @ self.dictionary.T
        by_atom, starts = _slots_by_atom(self.atoms, n_atoms)
        rows = np.ascontiguousarray(self.dictionary.T)
        _update_atoms(rows, residual, self.values, by_atom, starts, random.permutation(n_atoms))
        self.dictionary = np.ascontiguousarray(rows.T)
        if not settle:
            self._replace(residual)
        return float(np.sqrt(np.mean(residual.astype(np.float64) ** 2)))

    def usage(self) -> NDArray[np.intp]:
        """How many signals use each atom."""
        return np.bincount(self.atoms[self.atoms >= 0], minlength=self.dictionary.shape[1])

    def order(self) -> None:
        """Put the most used atoms first."""
        order = np.argsort(-self.usage(), kind="stable")
        position = np.empty_like(order)
        position[order] = np.arange(order.size)
        self.dictionary = np.ascontiguousarray(self.dictionary[:, order])
        self.atoms = np.where(self.atoms >= 0, position[self.atoms], -1).astype(np.int32)

    def _replace(self, residual: Float) -> None:
        """Put the worst-fitted signals in place of unused and duplicated atoms."""
        usage = self.usage()
        coherent = np.abs(self.dictionary.T @ self.dictionary)
        order = np.argsort(-usage, kind="stable")
        kept: list[int] = []
        dropped: list[int] = []
        least = min(_LEAST_USE, max(1, len(self.signals) // self.dictionary.shape[1]))
        for j in order:
            duplicated = bool(kept) and coherent[j, kept].max() > _ALIKE
            (dropped if duplicated or usage[j] < least else kept).append(int(j))
        errors = np.einsum("td,td->t", residual, residual)
        worst = np.argsort(-errors, kind="stable")[: len(dropped)]
        for j, t in zip(dropped, worst, strict=False):
            self.dictionary[:, j] = self.signals[t] / np.linalg.norm(self.signals[t])
        self.n_replaced += min(len(dropped), len(worst))


def _slots_by_atom(atoms: NDArray[np.int32], n_atoms: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The flat slots of each atom, atom after atom, and where each atom's begin."""
    flat = atoms.ravel()
    by_atom = np.argsort(flat, kind="stable")
    return by_atom, np.searchsorted(flat[by_atom], np.arange(n_atoms + 1))


@njit(cache=True, nogil=True)
def _update_atoms(
    rows: Float,
    residual: Float,
    values: Float,
    by_atom: NDArray[np.intp],
    starts: NDArray[np.intp],
    visits: NDArray[np.intp],
) -> None:
    """Approximate K-SVD on every atom in the order of `visits`; atoms, codes and residual change in place.

    E = R_S + g d^T is never formed: E^T g = R_S^T g + (g . g) d and E d' = R_S d' + (d . d') g.
    """
    n_nonzero = values.shape[1]
    n_features = rows.shape[1]
    new = np.empty(n_features, dtype=rows.dtype)
    for atom in visits:
        slots = by_atom[starts[atom] : starts[atom + 1]]
        if slots.size == 0:
            continue
        old = rows[atom]
        weight = 0.0
        new[:] = 0
        for slot in slots:
            t, k = slot // n_nonzero, slot % n_nonzero
            g = values[t, k]
            weight += g * g
            for i in range(n_features):
                new[i] += g * residual[t, i]
        norm = 0.0
        for i in range(n_features):
            new[i] += weight * old[i]
            norm += new[i] * new[i]
        norm = np.sqrt(norm)
        if norm == 0:
            continue
        overlap = 0.0
        for i in range(n_features):
            new[i] /= norm
            overlap += new[i] * old[i]
        for slot in slots:
            t, k = slot // n_nonzero, slot % n_nonzero
            g = values[t, k]
            updated = overlap * g
            for i in range(n_features):
                updated += residual[t, i] * new[i]
            for i in range(n_features):
                residual[t, i] += g * old[i] - updated * new[i]
            values[t, k] = updated
        rows[atom] = new


def _as_coo(
    atoms: NDArray[np.int32], values: Float, rows: NDArray[np.intp], shape: tuple[int, int]
) -> sparse.coo_array:
    """Slots as a sparse array; row k of the slots is row rows[k] of the array."""
    signal, slot = np.nonzero(atoms >= 0)
    entries = (values[signal, slot], (rows[signal], atoms[signal, slot]))
    return sparse.coo_array(entries, shape=shape)
