"""The last mode as a LinearOperator gives the codes of the same mode as a matrix."""

import numpy as np
import pytest
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from septum import kronecker, sparse_code
from septum.coding import reference
from septum.errors import InvalidInputError

SHAPES = [((9,), (14,)), ((6, 7), (4, 12)), ((6, 7), (8, 9)), ((4, 3, 5), (5, 2, 8))]


def make(d, r):
    rng = np.random.default_rng(0)
    dictionaries = [rng.standard_normal((a, b)) for a, b in zip(d, r, strict=True)]
    dictionaries = [A / np.linalg.norm(A, axis=0) for A in dictionaries]
    X = rng.standard_normal((3, *d))
    return X, dictionaries, 0.2 * np.abs(kronecker.correlate(X, dictionaries)).max()


@pytest.mark.parametrize(("d", "r"), SHAPES)
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_an_operator_gives_the_codes_of_its_matrix(d, r, positive, masked):
    X, dictionaries, alpha = make(d, r)
    mask = np.random.default_rng(1).random(X.shape) < 0.8 if masked else None
    with_operator = [*dictionaries[:-1], aslinearoperator(dictionaries[-1])]
    result = sparse_code(X, with_operator, alpha, tol=1e-9, positive=positive, mask=mask)
    plain = sparse_code(X, dictionaries, alpha, tol=1e-9, positive=positive, mask=mask)
    assert result.converged.all()
    assert result.codes.shape == (3, *r)
    np.testing.assert_allclose(result.codes.toarray(), plain.codes.toarray(), atol=2e-3)
    seen = X if mask is None else np.where(mask, X, 0.0)
    true = reference.gap(seen, dictionaries, result.codes.toarray(), alpha, mask, positive)
    np.testing.assert_allclose(result.gap, true, rtol=1e-3, atol=1e-12)


def test_only_matvec_and_rmatvec_are_needed():
    X, dictionaries, alpha = make((6, 7), (8, 9))
    B = dictionaries[1]
    bare = LinearOperator(B.shape, matvec=lambda v: B @ v, rmatvec=lambda v: B.T @ v, dtype=B.dtype)
    result = sparse_code(X, [dictionaries[0], bare], alpha, tol=1e-8)
    assert result.converged.all()


def test_warm_start_threads_and_float32():
    X, dictionaries, alpha = make((6, 7), (8, 9))
    dictionaries[1] = aslinearoperator(dictionaries[1])
    cold = sparse_code(X, dictionaries, alpha, tol=1e-8)
    warm = sparse_code(X, dictionaries, alpha, tol=1e-8, codes_init=cold.codes, n_jobs=2)
    assert warm.n_iter.sum() == 0
    np.testing.assert_array_equal(warm.codes.toarray(), cold.codes.toarray())
    single = sparse_code(X.astype(np.float32), dictionaries, alpha, tol=1e-5)
    assert single.codes.dtype == np.float32
    assert single.converged.all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda A, B: ([B, A], {}), "only the last"),
        (lambda A, B: ([A], {}), "1 dictionaries"),
        (lambda A, B: ([A, aslinearoperator(np.ones((5, 3)))], {}), "outputs of length 5"),
        (lambda A, B: ([A, aslinearoperator(np.ones((7, 3), complex))], {}), "complex"),
        (lambda A, B: ([A, B], {"refit": True}), "refit needs matrices"),
    ],
)
def test_bad_input_is_named(change, words):
    X, (A, B), alpha = make((6, 7), (8, 9))
    dictionaries, options = change(A, aslinearoperator(B))
    if len(dictionaries) == 1:
        dictionaries = [aslinearoperator(B)]
    with pytest.raises(InvalidInputError, match=words):
        sparse_code(X, dictionaries, alpha, **options)
