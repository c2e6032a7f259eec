"""A sum of Kronecker terms: the operator against its matrix, and learning."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from septum.baselines import KroneckerSum
from septum.baselines.kronecker_sum import _least_squares, learn_kronecker_sum
from septum.errors import InvalidInputError


def terms(seed, n_terms=2, G=4, V=5, r1=3, r2=6):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n_terms, G, r1)), rng.standard_normal((n_terms, V, r2))


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), n_terms=st.integers(1, 3))
def test_the_operator_is_its_matrix_with_unit_columns(seed, n_terms):
    left, right = terms(seed, n_terms)
    dense = sum(np.kron(A, B) for A, B in zip(left, right, strict=True))
    dense /= np.linalg.norm(dense, axis=0)
    operator = KroneckerSum(left, right)
    np.testing.assert_allclose(operator @ np.eye(18), dense, atol=1e-10)
    np.testing.assert_allclose(operator.rmatmat(np.eye(20)), dense.T, atol=1e-10)
    np.testing.assert_allclose(operator.coding_form(), dense, atol=1e-10)
    c, x = np.arange(18.0), np.arange(20.0)
    np.testing.assert_allclose(operator @ c, dense @ c, atol=1e-9)
    np.testing.assert_allclose(operator.rmatvec(x), dense.T @ x, atol=1e-9)


def test_the_update_is_least_squares():
    rng = np.random.default_rng(0)
    left, right = terms(1)
    C = rng.standard_normal((30, 3, 6))
    X = sum(A @ C @ B.T for A, B in zip(left, right, strict=True))
    found = _least_squares(X, C, right, [np.zeros((4, 3))] * 2)
    np.testing.assert_allclose(found, left, rtol=1e-3, atol=1e-4)


def test_learning_lowers_the_objective_and_a_second_term_helps():
    rng = np.random.default_rng(2)
    left, right = terms(3)
    C = rng.standard_normal((60, 3, 6)) * (rng.random((60, 3, 6)) < 0.15)
    X = sum(A @ C @ B.T for A, B in zip(left, right, strict=True))
    start = [left[0] / np.linalg.norm(left[0], axis=0), right[0] / np.linalg.norm(right[0], axis=0)]
    _, one = learn_kronecker_sum(X, start, 1, 0.1, max_iter=8)
    best, two = learn_kronecker_sum(X, start, 2, 0.1, max_iter=8)
    assert two.min() < two[0]
    assert two.min() < one.min()
    assert best.shape == (20, 18)


def test_a_large_joint_dictionary_stays_an_operator():
    rng = np.random.default_rng(0)
    large = KroneckerSum(rng.standard_normal((1, 64, 64)), rng.standard_normal((1, 144, 144)))
    assert large.coding_form() is large


def test_mismatched_terms_are_named():
    left, right = terms(0)
    with pytest.raises(InvalidInputError):
        KroneckerSum(left, right[:1])
    with pytest.raises(InvalidInputError):
        KroneckerSum([], [])
