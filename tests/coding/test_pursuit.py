"""`omp` against scikit-learn's on the explicit Kronecker dictionary, and on atoms that repeat."""

import numpy as np
import pytest
from sklearn.linear_model import orthogonal_mp

from septum import kronecker, omp
from septum.errors import InvalidInputError

SHAPES = [((12,), (20,)), ((6, 7), (8, 9)), ((4, 5, 3), (5, 4, 4)), ((1, 8), (1, 12))]


def make(d, r, n_samples=6, seed=0):
    rng = np.random.default_rng(seed)
    dictionaries = [rng.standard_normal((a, b)) for a, b in zip(d, r, strict=True)]
    dictionaries = [A / np.linalg.norm(A, axis=0) for A in dictionaries]
    return rng.standard_normal((n_samples, *d)), dictionaries


@pytest.mark.parametrize(("d", "r"), SHAPES)
@pytest.mark.parametrize("n_nonzero", [1, 4, 7])
def test_chooses_and_fits_as_scikit_learn_does(d, r, n_nonzero):
    X, dictionaries = make(d, r)
    result = omp(X, dictionaries, n_nonzero)
    joint = kronecker.explicit(dictionaries)
    expected = orthogonal_mp(joint, X.reshape(len(X), -1).T, n_nonzero_coefs=n_nonzero).T
    np.testing.assert_allclose(result.codes.toarray().reshape(len(X), -1), expected, atol=1e-9)
    residual = X - kronecker.multiply(result.codes.toarray(), dictionaries)
    np.testing.assert_allclose(result.gap, 0.5 * (residual.reshape(len(X), -1) ** 2).sum(axis=1), rtol=1e-9)
    assert result.converged.all()
    assert (result.n_iter == n_nonzero).all()


def test_the_tolerance_is_the_squared_residual():
    X, dictionaries = make((6, 7), (8, 9))
    tol = 0.2 * (X**2).sum(axis=(1, 2)).min()
    result = omp(X, dictionaries, 42, tol=tol)
    joint = kronecker.explicit(dictionaries)
    expected = orthogonal_mp(joint, X.reshape(len(X), -1).T, tol=tol).T
    np.testing.assert_allclose(result.codes.toarray().reshape(len(X), -1), expected, atol=1e-8)
    assert result.converged.all()
    assert (2 * result.gap <= tol).all()
    short = omp(X, dictionaries, 2, tol=tol)
    assert not short.converged.any()
    assert (short.n_iter == 2).all()


def test_atoms_of_any_norm_are_chosen_by_angle():
    X, dictionaries = make((6, 7), (8, 9))
    scale = [np.random.default_rng(k).uniform(0.01, 100, A.shape[1]) for k, A in enumerate(dictionaries)]
    plain = omp(X, dictionaries, 5).codes.toarray()
    scaled = omp(X, [A * s for A, s in zip(dictionaries, scale, strict=True)], 5).codes.toarray()
    np.testing.assert_allclose(scaled * np.multiply.outer(*scale), plain, atol=1e-8)


def test_duplicated_dependent_and_zero_atoms_do_no_harm():
    X, (A, B) = make((4, 5), (3, 3))
    A = np.hstack([A, A, np.zeros((4, 2)), A[:, :1] + A[:, 1:2]])
    X[1] = 0
    X[2] = np.outer(A[:, 0], B[:, 1])
    result = omp(X, [A, B], 20)
    assert result.converged.all()
    assert np.isfinite(result.codes.data).all()
    assert result.n_iter[1] == 0
    assert result.n_iter[2] == 1
    assert result.gap[2] == pytest.approx(0, abs=1e-25)
    joint = kronecker.explicit([A, B])
    best = np.linalg.lstsq(joint, X.reshape(len(X), -1).T, rcond=1e-10)[0]
    rest = 0.5 * ((X.reshape(len(X), -1).T - joint @ best) ** 2).sum(axis=0)
    np.testing.assert_allclose(result.gap, rest, atol=1e-9)
    assert (np.diff(np.unique(result.codes.coords[0])) >= 1).all()


def test_independent_of_neighbours_and_threads():
    X, dictionaries = make((16, 20), (18, 24), n_samples=900)
    whole = omp(X, dictionaries, 6)
    threaded = omp(X, dictionaries, 6, n_jobs=2)
    np.testing.assert_array_equal(whole.codes.toarray(), threaded.codes.toarray())
    order = np.random.default_rng(0).permutation(len(X))[:5]
    np.testing.assert_array_equal(
        omp(X[order], dictionaries, 6).codes.toarray(), whole.codes.toarray()[order]
    )


def test_float32_stays_float32():
    X, dictionaries = make((6, 7), (8, 9))
    result = omp(X.astype(np.float32), dictionaries, 5)
    assert result.codes.dtype == np.float32
    np.testing.assert_allclose(result.codes.toarray(), omp(X, dictionaries, 5).codes.toarray(), atol=1e-5)


@pytest.mark.parametrize(
    ("n_nonzero", "tol", "words"),
    [(0, None, "n_nonzero"), (1.5, None, "whole number"), (True, None, "n_nonzero"), (3, -1.0, "tol")],
)
def test_bad_input_is_named(n_nonzero, tol, words):
    X, dictionaries = make((6, 7), (8, 9))
    with pytest.raises(InvalidInputError, match=words):
        omp(X, dictionaries, n_nonzero, tol=tol)
