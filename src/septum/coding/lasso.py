"""`sparse_code`: the codes of samples with given dictionaries, each with its certificate.

Check the input, choose the solver (compiled for dictionaries that are matrices, FISTA for an operator), refit if
asked, and hand back the codes in their public form. The problem is convex once the dictionaries are fixed (the
paper's problem in C alone), so a duality gap says exactly how far each sample is from its optimum.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from septum.array import Float, Samples, as_alpha, as_dictionaries, as_samples
from septum.coding.engine import solve
from septum.coding.linear_operator import solve_operator
from septum.coding.refit import refit_codes
from septum.coding.result import CodingResult
from septum.coding.thread import count_jobs
from septum.errors import InvalidInputError
from septum.kronecker import flatten_codes, sizes, unflatten_codes


def sparse_code(
    X: ArrayLike,
    dictionaries: Sequence[ArrayLike | LinearOperator],
    alpha: float,
    *,
    tol: float = 1e-4,
    mask: ArrayLike | None = None,
    positive: bool = False,
    refit: bool = False,
    codes_init: ArrayLike | sparse.sparray | None = None,
    n_jobs: int | None = None,
) -> CodingResult:
    """Separable lasso: min over C_t of 1/2 ||X_t - C_t x_1 A_1 ... x_n A_n||^2 + alpha ||C_t||_1, for every sample.

    Parameters
    ----------
    X : (n_samples, d_1, ..., d_n), n >= 1. float32 stays float32 in the codes; the arithmetic is float64.
    dictionaries : one (d_k, r_k) array for each mode. The last may be a SciPy `LinearOperator`, which needs
        matvec and rmatvec (matmat and rmatmat are used too).
    alpha : the weight of the penalty. The penalty is the plain l1 norm of the codes, also when atoms are not of unit
        norm. (scikit-learn's Lasso divides the squared error by the number of entries; here it is not divided.)
    tol : a sample is solved when its duality gap is at most tol * 1/2 ||X_t||^2, over observed entries. The rounding
        of float32 codes leaves a gap of about 1e-7 of that.
    mask : of X's shape, True where observed; X may be NaN elsewhere, and such entries count for nothing.
    positive : only non-negative codes.
    refit : replace the codes by least squares on their support (of least norm if its atoms are dependent). The
        gap and `converged` then speak of the lasso's codes before the refit.
    codes_init : codes to start from, (n_samples, r_1, ..., r_n), dense or sparse. They change the time, not the answer.
    n_jobs : threads, as in scikit-learn: None is one, -1 every core. Results are the same bit for bit.

    Returns
    -------
    CodingResult : `codes`, a COO array (n_samples, r_1, ..., r_n); `gap`, the absolute duality gap of each sample in
        float64, from the returned codes; `n_iter`; `converged`.

    Examples
    --------
    >>> import numpy as np, septum
    >>> A, B = np.eye(3), np.eye(4)
    >>> X = np.zeros((1, 3, 4))
    >>> X[0, 1, 2] = 5.0
    >>> septum.sparse_code(X, [A, B], alpha=1.0).codes.toarray()[0, 1, 2]
    np.float64(4.0)
    """
    samples = as_samples(X, mask, jobs=count_jobs(n_jobs))
    alpha, tol = as_alpha(alpha), as_tolerance(tol)
    operator = _last_operator(dictionaries)
    if operator is not None:
        return _code_with_operator(
            samples, dictionaries, operator, alpha, tol, positive, refit, codes_init, n_jobs
        )
    matrices = as_dictionaries(dictionaries, samples.shape)  # type: ignore[arg-type]
    ranks = sizes(matrices)
    if 0 in ranks:
        raise InvalidInputError(f"dictionaries[{ranks.index(0)}] has no atoms")
    found = solve(
        samples.data, matrices, alpha, tol=tol, warm=_as_codes(codes_init, samples, ranks), mask=samples.mask,
        positive=bool(positive), n_jobs=n_jobs,
    )  # fmt: skip
    codes = found.codes
    if refit:
        codes = refit_codes(
            samples.data, matrices, codes, mask=samples.mask, positive=bool(positive), n_jobs=n_jobs
        )
    return CodingResult(unflatten_codes(codes, ranks), found.gap, found.n_iter, found.converged)


def as_tolerance(tol: object) -> float:
    """A finite number >= 0."""
    if isinstance(tol, (bool, str)) or not np.isscalar(tol) or not np.isreal(tol):
        raise InvalidInputError(f"tol must be one number, not {tol!r}")
    value = float(tol)  # type: ignore[arg-type]
    if not np.isfinite(value) or value < 0:
        raise InvalidInputError(f"tol must be finite and not negative, not {tol!r}")
    return value


def _last_operator(dictionaries: Sequence[object]) -> LinearOperator | None:
    if isinstance(dictionaries, np.ndarray):
        return None
    for k, A in enumerate(dictionaries):
        if isinstance(A, LinearOperator):
            if k != len(dictionaries) - 1:
                raise InvalidInputError(
                    f"dictionaries[{k}] is a LinearOperator; only the last mode's may be one: reorder the modes"
                )
            return A
    return None


def _code_with_operator(
    samples: Samples,
    dictionaries: Sequence[object],
    operator: LinearOperator,
    alpha: float,
    tol: float,
    positive: bool,
    refit: bool,
    codes_init: Any,
    n_jobs: int | None,
) -> CodingResult:
    if refit:
        raise InvalidInputError("refit needs matrices: refit=True does not go with a LinearOperator")
    if len(dictionaries) != len(samples.shape):
        raise InvalidInputError(
            f"{len(dictionaries)} dictionaries were given, but each sample has {len(samples.shape)} mode(s)"
        )
    if operator.shape[0] != samples.shape[-1]:
        raise InvalidInputError(
            f"the operator has outputs of length {operator.shape[0]}, but the last mode has {samples.shape[-1]}"
        )
    if operator.dtype is not None and np.dtype(operator.dtype).kind == "c":
        raise InvalidInputError("the operator is complex; wrap it as a real one (real and imaginary parts)")
    matrices: list[Float] = []
    if len(dictionaries) > 1:
        matrices = as_dictionaries(dictionaries[:-1], samples.shape[:-1])  # type: ignore[arg-type]
    ranks = (*sizes(matrices), operator.shape[1])
    warm = _as_codes(codes_init, samples, ranks)
    codes, gap, n_iter, converged = solve_operator(
        samples.data, matrices, operator, alpha, tol=tol, warm=warm, mask=samples.mask, positive=bool(positive),
        n_jobs=n_jobs,
    )  # fmt: skip
    return CodingResult(unflatten_codes(codes, ranks), gap, n_iter, converged)


def _as_codes(codes: Any, samples: Samples, ranks: tuple[int, ...]) -> sparse.csr_array | None:
    """Checked warm codes as CSR, or None."""
    if codes is None:
        return None
    shape = (samples.n_samples, *ranks)
    given = tuple(codes.shape) if sparse.issparse(codes) else np.shape(codes)
    if given not in (shape, (shape[0], prod(ranks))):
        raise InvalidInputError(f"codes_init has shape {given}, but the codes have shape {shape}")
    warm = flatten_codes(codes, shape, np.dtype(np.float64))
    values: NDArray = warm.data
    if not np.isfinite(values).all():
        raise InvalidInputError("codes_init contains NaN or infinity")
    return warm
