"""Multilinear products against explicit Kronecker products and plain sums."""

import numpy as np
import pytest
from hypothesis import given
from scipy import sparse

from septum.kronecker import (
    atom_norms,
    code_indices,
    correlate,
    correlate_at,
    explicit,
    flatten_codes,
    gram,
    mode_product,
    multiply,
    multiply_sparse,
    sizes,
    unflatten_codes,
)
from strategies import cases, make_case


def flat(codes):
    return codes.reshape(len(codes), -1)


def csr(codes, dtype=np.float64):
    return flatten_codes(codes, codes.shape, np.dtype(dtype))


@given(cases(1, 4))
def test_products_are_kronecker_products(case):
    joint = explicit(case.dictionaries)
    expected = (flat(case.codes) @ joint.T).reshape(case.X.shape)
    np.testing.assert_allclose(multiply(case.codes, case.dictionaries), expected, atol=1e-12)
    np.testing.assert_allclose(case.reconstruction, expected, atol=1e-12)
    np.testing.assert_allclose(multiply_sparse(csr(case.codes), case.dictionaries), expected, atol=1e-12)


@given(cases(1, 4))
def test_correlations_are_the_adjoint(case):
    expected = (flat(case.X) @ explicit(case.dictionaries)).reshape(case.codes.shape)
    got = correlate(case.X, case.dictionaries)
    np.testing.assert_allclose(got, expected, atol=1e-11)
    np.testing.assert_allclose((got * case.codes).sum(), (case.X * case.reconstruction).sum(), atol=1e-10)
    sample, index = code_indices(csr(case.codes), sizes(case.dictionaries))
    at = correlate_at(case.X, case.dictionaries, sample, index)
    np.testing.assert_allclose(at, got[(sample, *index)], atol=1e-11)


@given(cases(1, 3))
def test_grams_and_norms(case):
    joint = explicit(case.dictionaries)
    product = np.ones((1, 1))
    for G in gram(case.dictionaries):
        product = np.kron(product, G)
    np.testing.assert_allclose(product, joint.T @ joint, atol=1e-11)
    norms = np.ones(1)
    for norm in atom_norms(case.dictionaries):
        norms = np.multiply.outer(norms, norm).ravel()
    np.testing.assert_allclose(norms, np.linalg.norm(joint, axis=0), atol=1e-12)


@given(cases(1, 4))
def test_codes_survive_the_internal_form(case):
    for form in (case.codes, case.sparse_codes):
        inside = csr(form)
        assert inside.shape == (len(case.X), int(np.prod(case.codes.shape[1:])))
        outside = unflatten_codes(inside, case.codes.shape[1:])
        assert outside.shape == case.codes.shape
        np.testing.assert_array_equal(outside.toarray(), case.codes)


def test_duplicates_are_summed_and_zeros_dropped():
    coords = (np.array([0, 0, 1]), np.array([1, 1, 0]), np.array([0, 0, 1]))
    codes = sparse.coo_array((np.array([1.0, -1.0, 2.0]), coords), shape=(2, 2, 2))
    inside = csr(codes)
    assert inside.nnz == 1
    assert codes.nnz == 3
    np.testing.assert_array_equal(inside.toarray(), [[0, 0, 0, 0], [0, 2, 0, 0]])


def test_the_callers_codes_are_left_alone():
    for codes in (
        np.eye(3),
        sparse.csr_array(np.eye(3)),
        sparse.csc_array(np.eye(3)),
        sparse.coo_array(np.eye(3)),
    ):
        inside = csr(codes)
        inside.data[:] = 7.0
        dense = codes.toarray() if sparse.issparse(codes) else codes
        np.testing.assert_array_equal(dense, np.eye(3))


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_one_mode_at_a_time(mode):
    X = np.random.default_rng(0).standard_normal((2, 3, 4, 5))
    M = np.random.default_rng(1).standard_normal((6, X.shape[mode + 1]))
    expected = np.moveaxis(np.tensordot(X, M, axes=(mode + 1, 1)), -1, mode + 1)
    np.testing.assert_allclose(mode_product(X, M, mode), expected, atol=1e-12)


def test_single_precision_stays_single_unless_asked():
    case = make_case((3, 4, 5), "gaussian", 0)
    dictionaries = [A.astype(np.float32) for A in case.dictionaries]
    codes = csr(case.codes, np.float32)
    assert multiply_sparse(codes, dictionaries).dtype == np.float32
    assert multiply_sparse(codes, dictionaries, dtype=np.dtype(np.float64)).dtype == np.float64
    np.testing.assert_allclose(multiply_sparse(codes, dictionaries), case.reconstruction, atol=1e-5)


def test_very_wide_codes_are_never_dense():
    """Two codes among 10^10: the joint index needs 64 bits and no block of codes is formed."""
    A, B = np.ones((3, 10**5)), np.ones((4, 10**5))
    coords = (np.array([0, 1]), np.array([99_999, 5]), np.array([99_998, 7]))
    codes = sparse.coo_array((np.array([2.0, -3.0]), coords), shape=(2, 10**5, 10**5))
    inside = csr(codes)
    Z = multiply_sparse(inside, [A, B])
    np.testing.assert_array_equal(Z, np.array([2.0, -3.0])[:, None, None] * np.ones((2, 3, 4)))
    sample, index = code_indices(inside, (10**5, 10**5))
    np.testing.assert_array_equal(index, [[99_999, 5], [99_998, 7]])
    np.testing.assert_array_equal(sample, [0, 1])


def test_no_codes_at_all():
    empty = sparse.csr_array((2, 6))
    np.testing.assert_array_equal(
        multiply_sparse(empty, [np.ones((4, 2)), np.ones((5, 3))]), np.zeros((2, 4, 5))
    )
