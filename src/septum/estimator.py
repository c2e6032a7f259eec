"""Separable dictionary learning with scikit-learn's manners.

The estimator checks its parameters once, lets a solver learn, puts the answer in its public form
(unit-norm atoms, those without codes dropped, the most used first, the data's dtype), and has the
certificate computed from those very arrays. It holds no mathematics of its own:

    fit            Problem -> septum.learning.solve -> Factors -> a fresh certificate
    transform      Problem -> the convex problem in the codes, dictionaries fixed
    partial_fit    Problem -> septum.learning.online
    score          transform -> a fresh certificate -> its attainment
"""

from collections.abc import Callable, Sequence
from math import prod
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted, validate_data

from septum.array import Float, as_dictionaries, as_float
from septum.certificate import Certificate, certify_factors
from septum.coding.engine import solve as solve_codes
from septum.coding.thread import count_jobs
from septum.errors import InvalidInputError, InvalidTypeError
from septum.factors import Factors
from septum.kronecker import Codes, flatten_codes, multiply_sparse, sizes, unflatten_codes
from septum.learning import SOLVERS, Settings, solve
from septum.learning.history import GROWTH_LIMIT
from septum.learning.online import Online
from septum.loss import Loss
from septum.problem import Problem
from septum.regularizer import Regularizer

INITS = ("spectral", "random")

# Duality gap of transform's codes, relative to the loss at zero codes.
CODE_TOLERANCE = 1e-6


class SeparableDictionaryLearning(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Learn one dictionary for each mode of the samples, with sparse codes, and certify the answer.

    Minimises sum_t loss(X_t, C_t x_1 A_1 ... x_n A_n) + alpha ||C||_1 over dictionaries A_k with unit-norm
    atoms and codes C (equation 22 of the paper). Samples are matrices (n = 2) in the paper; here n >= 1,
    and n = 1 (2-D X) is plain dictionary learning. Nothing is centred: subtract means first if they
    are not part of what the dictionaries should explain.

    Parameters
    ----------
    alpha : float > 0
        Weight of the penalty, the paper's lambda. Larger means sparser; from the largest singular value
        of any sample on, zero codes are optimal, and the fit says so in `stopped_because_`.
    n_atoms : int, sequence of int, or None
        At most so many atoms in each mode, or one cap per mode. None: grow until `tol`, `min_gain`, or
        four times the mode's length.
    tol : float
        Stop at attainment 1 - tol.
    min_gain : float
        Stop growing when a new atom adds less attainment than this.
    solver : {"fast", "palm"}
        "palm" is the paper's algorithms 1-4, corrected.
    init : {"spectral", "random"} or list of arrays (d_k, r_k)
        Start from the singular vectors of the known optimum, from random atoms as the paper does, or from
        given dictionaries (atoms of any norm; zero atoms are dropped).
    loss : {"squared", "huber"} or a loss object of `septum.loss`
    regularizer : None or an object of `septum.regularizer`
        None is the paper's product of l2 norms of the atoms with the l1 norm of the codes.
    max_iter : int
        At most so many outer steps.
    max_time : float or None
        Stop after about so many seconds.
    random_state : int, Generator, RandomState or None
    n_jobs : int or None
        Threads; None is one, -1 every core. The result does not depend on it.
    verbose : int
        1 prints a line for each outer step.
    callback : callable or None
        Called with a `septum.learning.Step` after each outer step; returning True stops the fit.

    Attributes
    ----------
    dictionaries_ : list of arrays (d_k, r_k)
        Unit-norm columns, most used first.
    codes_ : scipy.sparse.coo_array (n_samples, r_1, ..., r_n)
        Codes of the samples given to `fit`; absent after `partial_fit`.
    certificate_ : Certificate
        Computed afresh, in float64, from `dictionaries_` and `codes_`.
    history_ : dict of equal-length arrays, one entry for each outer step
        "objective", "lower_bound", "attainment", "polar", "seconds", "atoms" (n_steps, n), and
        "inner_objective", a list of arrays. The solver's own record; the certificate does not use it.
    n_iter_ : int
        Outer steps made.
    stopped_because_ : str
        Why the fit ended.
    shape_in_ : tuple
        (d_1, ..., d_n), the shape of one sample.
    n_features_in_ : int
        d_1 * ... * d_n.
    n_samples_seen_, n_steps_ : int
        Samples and batches seen by `partial_fit`, a `fit` before it included.

    Examples
    --------
    >>> import numpy as np
    >>> from septum import SeparableDictionaryLearning
    >>> X = np.zeros((2, 2, 3))
    >>> X[0, 0, 0], X[1, 0, 1] = 3.0, 5.0
    >>> est = SeparableDictionaryLearning(alpha=1.0).fit(X)
    >>> [A.shape for A in est.dictionaries_], est.certificate_.verdict
    ([(2, 1), (3, 2)], 'optimal')
    """

    # Parameters of methods that are no metadata of the samples.
    __metadata_request__transform: ClassVar = {"sparse_output": UNUSED}
    __metadata_request__inverse_transform: ClassVar = {"C": UNUSED}

    def __init__(
        self,
        alpha: float,
        *,
        n_atoms: int | Sequence[int] | None = None,
        tol: float = 0.02,
        min_gain: float = 1e-4,
        solver: str = "fast",
        init: str | Sequence[ArrayLike] = "spectral",
        loss: str | Loss = "squared",
        regularizer: Regularizer | None = None,
        max_iter: int = 1000,
        max_time: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callback: Callable[[Any], Any] | None = None,
    ) -> None:
        self.alpha = alpha
        self.n_atoms = n_atoms
        self.tol = tol
        self.min_gain = min_gain
        self.solver = solver
        self.init = init
        self.loss = loss
        self.regularizer = regularizer
        self.max_iter = max_iter
        self.max_time = max_time
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callback = callback

    def fit(self, X: ArrayLike, y: Any = None, mask: ArrayLike | None = None) -> "SeparableDictionaryLearning":
        """Learn dictionaries and codes of samples X `(n_samples, d_1, ..., d_n)`.

        `mask` has X's shape: True = observed, False = ignored (X may be NaN there). `y` is ignored.
        """
        problem = self._problem(X, y, mask)
        learned = solve(problem, self.solver, self._settings(problem))
        factors = finished(learned.factors, problem.samples.dtype)
        self._remember_input(X, problem)
        self._set_dictionaries(factors.dictionaries)
        self.codes_ = unflatten_codes(factors.codes, factors.sizes)
        self.certificate_: Certificate = certify_factors(problem, in_double(factors))
        self.history_: dict[str, Any] = learned.history
        self.n_iter_ = learned.n_iter
        self.stopped_because_ = self._reason(learned.stopped_because, problem)
        self._online = Online.after_fit(problem, factors)
        self._count_seen()
        if self.verbose:
            print(f"[septum] stopped: {self.stopped_because_}\n{self.certificate_}", flush=True)
        return self

    def partial_fit(self, X: ArrayLike, y: Any = None, mask: ArrayLike | None = None) -> "SeparableDictionaryLearning":
        """Update dictionaries of fixed sizes with one batch of samples.

        The first call learns its batch as `fit` would; its sizes, or `n_atoms` where given, or those of
        given `init` dictionaries, are then kept, so let the first batch be a fair sample of the data. Call it for
        every batch of several passes; the memory of old batches fades. No `codes_` or `certificate_` is
        left: use `transform` and `score`. Needs the paper's regulariser.
        """
        is_first = not hasattr(self, "_online")
        problem = self._problem(X, y, mask, reset=is_first)
        if is_first or self._online.is_empty:
            start = self._starting_dictionaries(problem.shape)
            caps = None if self.n_atoms is None else self._caps(problem.shape)
            online = Online.begin(problem, start, caps, lambda: self._first_factors(problem))
        else:
            online = self._online
        self._online = online.updated(problem, n_jobs=self.n_jobs)
        if is_first:
            self._remember_input(X, problem)
            self._dtype = problem.samples.dtype
        for name in ("codes_", "certificate_", "history_", "n_iter_", "stopped_because_", "extra_"):
            self.__dict__.pop(name, None)
        self._set_dictionaries([A.astype(self._dtype) for A in self._online.dictionaries])
        self._count_seen()
        return self

    def fit_transform(self, X: ArrayLike, y: Any = None, mask: ArrayLike | None = None) -> Any:
        """`fit`, then `transform`, both with the mask."""
        return self.fit(X, y, mask=mask).transform(X, mask=mask)

    def transform(
        self, X: ArrayLike, mask: ArrayLike | None = None, sparse_output: bool = False
    ) -> NDArray | sparse.coo_array:
        """Codes of samples with the learnt dictionaries, at the same alpha: `(n_samples, r_1, ..., r_n)`.

        Each sample's codes solve their convex problem to a duality gap of 1e-6 of the loss at zero codes
        and depend on that sample alone. `sparse_output=True` gives a SciPy COO array, else it is dense.
        """
        check_is_fitted(self, "dictionaries_")
        self._refuse_containers()
        problem = self._problem(X, None, mask, reset=False)
        codes = unflatten_codes(self._encode(problem), sizes(self.dictionaries_))
        return codes if sparse_output else codes.toarray()

    def inverse_transform(self, C: ArrayLike | sparse.sparray) -> Float:
        """Reconstructions `(n_samples, d_1, ..., d_n)` of codes, dense or sparse.

        Codes are `(n_samples, r_1, ..., r_n)`, or `(n_samples, r_1 * ... * r_n)` in row-major order.
        """
        check_is_fitted(self, "dictionaries_")
        r = sizes(self.dictionaries_)
        codes: Any = C if sparse.issparse(C) else as_float(C, "C")
        if codes.shape[1:] not in (r, (prod(r),)):
            raise InvalidInputError(f"C has shape {codes.shape}, but the dictionaries ask for (n_samples, {str(r)[1:-1]})")
        if codes.dtype.kind == "c":
            raise InvalidInputError("C must be real, not complex")
        dtype = np.result_type(codes.dtype, self.dictionaries_[0].dtype)
        dtype = dtype if dtype in (np.float32, np.float64) else np.dtype(np.float64)
        flat = flatten_codes(codes, (codes.shape[0], *r), dtype)
        if not np.isfinite(flat.data).all():
            raise InvalidInputError("C contains NaN or infinity")
        return multiply_sparse(flat, self.dictionaries_, dtype=dtype)

    def score(self, X: ArrayLike, y: Any = None, mask: ArrayLike | None = None) -> float:
        """Attainment on X with the learnt dictionaries: at most 1, larger is better.

        It is the guaranteed share of the decrease, from zero codes, that any dictionaries of any size
        could give *at this alpha*, for these samples. So it compares sizes, starts and solvers at one alpha; it
        does not compare values of alpha, because each has its own problem and its own optimum.
        """
        check_is_fitted(self, "dictionaries_")
        problem = self._problem(X, y, mask, reset=False)
        factors = Factors(self.dictionaries_, self._encode(problem))
        return certify_factors(problem, in_double(factors)).attainment

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Names of the codes in row-major order: `separabledictionarylearning{i_1}_{i_2}...`."""
        check_is_fitted(self, "dictionaries_")
        if len(self.shape_in_) == 1:
            return super().get_feature_names_out(input_features)
        prefix = type(self).__name__.lower()
        index = np.ndindex(*sizes(self.dictionaries_))
        return np.array([prefix + "_".join(map(str, i)) for i in index], dtype=object)

    def set_output(self, *, transform: str | None = None) -> "SeparableDictionaryLearning":
        """Ask for a data frame from `transform`; only for samples with one mode (2-D X)."""
        if transform not in (None, "default") and len(getattr(self, "shape_in_", (0,))) > 1:
            raise InvalidInputError(_NO_CONTAINER)
        return super().set_output(transform=transform)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.three_d_array = True
        return tags

    @property
    def _n_features_out(self) -> int:
        return prod(sizes(self.dictionaries_))

    def _problem(self, X: ArrayLike, y: Any, mask: ArrayLike | None, *, reset: bool = True) -> Problem:
        """X checked against the parameters, and, unless `reset`, against what was fitted."""
        _refuse_mask_as_y(X, y, mask)
        problem = Problem.of(X, self.alpha, loss=self.loss, mask=mask, regularizer=self.regularizer)
        if reset:
            return problem
        validate_data(self, X, reset=False, skip_check_array=True, ensure_2d=False)
        if problem.shape != self.shape_in_:
            if len(problem.shape) == len(self.shape_in_) == 1:
                raise InvalidInputError(
                    f"X has {problem.shape[0]} features, but {type(self).__name__} is expecting "
                    f"{self.n_features_in_} features as input"
                )
            raise InvalidInputError(
                f"X has samples of shape {problem.shape}, but {type(self).__name__} was fitted to {self.shape_in_}"
            )
        return problem

    def _remember_input(self, X: ArrayLike, problem: Problem) -> None:
        self.__dict__.pop("extra_", None)
        validate_data(self, X, reset=True, skip_check_array=True, ensure_2d=False)
        self.shape_in_ = problem.shape
        self.n_features_in_ = prod(problem.shape)
        self._dtype = problem.samples.dtype

    def _set_dictionaries(self, dictionaries: Sequence[Float]) -> None:
        self.dictionaries_: list[Float] = list(dictionaries)

    def _count_seen(self) -> None:
        self.n_samples_seen_ = self._online.n_samples
        self.n_steps_ = self._online.n_steps

    def _encode(self, problem: Problem) -> Codes:
        """Codes of a problem's samples with the learnt dictionaries."""
        return encode(problem, self.dictionaries_, n_jobs=self.n_jobs)

    def _first_factors(self, problem: Problem) -> Factors:
        return finished(solve(problem, self.solver, self._settings(problem)).factors, np.dtype(np.float64))

    def _reason(self, reason: str, problem: Problem) -> str:
        """The solver's reason to stop, or, for an answer without codes, why there are none."""
        certificate = self.certificate_
        if self.codes_.nnz or certificate.attainment < 1:
            return reason
        if not problem.zero_objective().any():
            return "zero codes are optimal: X is zero wherever it is observed"
        largest = certificate.polar.lower * problem.alpha
        return f"zero codes are optimal at alpha={problem.alpha:.6g}: choose alpha below {largest:.6g} to learn atoms"

    def _settings(self, problem: Problem) -> Settings:
        """The parameters, checked."""
        if self.solver not in SOLVERS:
            raise InvalidInputError(f"solver must be one of {list(SOLVERS)}, not {self.solver!r}")
        start = self._starting_dictionaries(problem.shape)
        caps = self._caps(problem.shape)
        if start is not None:
            if self.n_atoms is not None and any(size > cap for size, cap in zip(sizes(start), caps, strict=True)):
                raise InvalidInputError(f"init holds {sizes(start)} atoms, more than n_atoms={self.n_atoms!r} allows")
            caps = tuple(max(size, cap) for size, cap in zip(sizes(start), caps, strict=True))
        if self.callback is not None and not callable(self.callback):
            raise InvalidTypeError(f"callback must be callable, not {self.callback!r}")
        return Settings(
            caps=caps,
            is_capped=self.n_atoms is not None,
            tol=_number("tol", self.tol, least=0.0),
            min_gain=_number("min_gain", self.min_gain, least=0.0),
            max_iter=_count("max_iter", self.max_iter),
            max_time=None if self.max_time is None else _number("max_time", self.max_time, least=0.0),
            init=self.init if isinstance(self.init, str) else "spectral",
            start=start,
            rng=_generator(self.random_state),
            n_jobs=count_jobs(self.n_jobs),
            verbose=int(self.verbose),
            callback=self.callback,
        )

    def _caps(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The largest number of atoms of each mode."""
        if self.n_atoms is None:
            return tuple(GROWTH_LIMIT * d for d in shape)
        if isinstance(self.n_atoms, Integral):
            return (_count("n_atoms", self.n_atoms),) * len(shape)
        if isinstance(self.n_atoms, str) or not np.iterable(self.n_atoms):
            raise InvalidInputError(f"n_atoms must be None, a positive whole number, or one per mode, not {self.n_atoms!r}")
        caps = tuple(_count("n_atoms", cap) for cap in self.n_atoms)
        if len(caps) != len(shape):
            raise InvalidInputError(f"n_atoms names {len(caps)} caps, but each sample has {len(shape)} mode(s)")
        return caps

    def _starting_dictionaries(self, shape: tuple[int, ...]) -> list[Float] | None:
        """Given dictionaries with unit-norm atoms, in float64; None for a named start."""
        if isinstance(self.init, str):
            if self.init not in INITS:
                raise InvalidInputError(f"init must be one of {list(INITS)} or a list of dictionaries, not {self.init!r}")
            return None
        if not np.iterable(self.init):
            raise InvalidInputError(f"init must be one of {list(INITS)} or a list of dictionaries, not {self.init!r}")
        start = as_dictionaries(self.init, shape, dtype=np.dtype(np.float64))
        norms = [np.linalg.norm(A, axis=0) for A in start]
        start = [A[:, norm > 0] / norm[norm > 0] for A, norm in zip(start, norms, strict=True)]
        if 0 in sizes(start):
            raise InvalidInputError("init has a mode without a nonzero atom: give atoms, or use init='spectral'")
        return start

    def _refuse_containers(self) -> None:
        own = getattr(self, "_sklearn_output_config", {})
        if len(self.shape_in_) > 1 and own.get("transform", get_config()["transform_output"]) != "default":
            raise InvalidInputError(_NO_CONTAINER)


_NO_CONTAINER = (
    "codes of samples with several modes are no table, so transform cannot give a data frame: use "
    "set_output(transform='default'), and reshape the codes to (n_samples, -1) for one; get_feature_names_out "
    "names its columns"
)


def encode(
    problem: Problem, dictionaries: Sequence[Float], *, tol: float = CODE_TOLERANCE, n_jobs: int | None = None
) -> Codes:
    """Optimal codes of a problem's samples for fixed dictionaries: a convex problem for each sample."""
    if problem.regularizer.couples_samples:
        raise InvalidInputError(
            f"the regulariser {problem.regularizer.name!r} couples samples, so a sample has no codes of its own: "
            "codes exist for the samples of fit only (codes_)"
        )
    if 0 in sizes(dictionaries):
        return sparse.csr_array((problem.n_samples, 0), dtype=problem.samples.dtype)
    return solve_codes(
        problem.samples.data,
        dictionaries,
        problem.alpha,
        tol=tol,
        mask=problem.samples.mask,
        loss=problem.loss,
        weights=_weights(problem, dictionaries),
        n_jobs=n_jobs,
    ).codes


def _weights(problem: Problem, dictionaries: Sequence[Float]) -> list[Float] | None:
    """The atoms' weights in the penalty, None when all are one: unit atoms of the paper's regulariser."""
    return None if problem.regularizer.name == "separable" else problem.regularizer.atom_weights(dictionaries)


def finished(factors: Factors, dtype: np.dtype) -> Factors:
    """The public form: unit-norm atoms, none without codes, most used first, of the data's dtype."""
    clean = in_double(factors).normalized().pruned().ordered()
    codes = clean.codes.astype(dtype)
    codes.eliminate_zeros()
    return Factors([A.astype(dtype) for A in clean.dictionaries], codes)


def in_double(factors: Factors) -> Factors:
    """The same factors in float64."""
    return Factors([A.astype(np.float64) for A in factors.dictionaries], factors.codes.astype(np.float64))


def _refuse_mask_as_y(X: ArrayLike, y: Any, mask: ArrayLike | None) -> None:
    """`fit(X, mask)` would take the mask for a target and ignore it: say so instead."""
    shape = getattr(y, "shape", None)
    if mask is None and shape is not None and len(shape) > 1 and shape == np.shape(X) and y.dtype == bool:
        raise InvalidInputError("the second argument is y, which is ignored: give the mask by name, mask=mask")


def _count(name: str, value: Any) -> int:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Integral) or value < 1:
        raise InvalidInputError(f"{name} must be a positive whole number, not {value!r}")
    return int(value)


def _number(name: str, value: Any, *, least: float) -> float:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real) or not float(value) >= least:
        raise InvalidInputError(f"{name} must be a number of at least {least:g}, not {value!r}")
    return float(value)


def _generator(random_state: Any) -> np.random.Generator:
    """A NumPy Generator from None, an integer, a Generator, or scikit-learn's RandomState."""
    if random_state is None or isinstance(random_state, (int, np.integer, np.random.Generator)):
        return np.random.default_rng(random_state)
    return np.random.default_rng(check_random_state(random_state).randint(0, 2**31 - 1))
