"""The closed form of section 4.2 against its plain formula, and its explicit minimiser."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import septum
from septum import certify, global_optimum
from septum.datasets import make_separable
from septum.errors import InvalidInputError
from strategies import make_case, make_samples, samples

alphas = st.sampled_from((0.05, 0.5, 1.0, 2.0, 30.0))


def as_matrices(X):
    return X if X.ndim == 3 else X[:, :, None]


def plain_value(X, alpha):
    """1/2 ||X||^2 - 1/2 sum (sigma - alpha)_+^2."""
    sigma = np.linalg.svd(as_matrices(X.astype(np.float64)), compute_uv=False)
    return 0.5 * (X.astype(np.float64) ** 2).sum() - 0.5 * (np.maximum(sigma - alpha, 0) ** 2).sum()


def plain_rank(X, alpha):
    return int((np.linalg.svd(as_matrices(X), compute_uv=False) > alpha).sum())


@given(samples(1, 2, max_side=6), alphas)
def test_value_rank_and_reconstruction_are_the_plain_formulas(X, alpha):
    optimum = global_optimum(X, alpha)
    np.testing.assert_allclose(optimum.value, plain_value(X, alpha), rtol=1e-12, atol=1e-12)
    sigma = np.linalg.svd(as_matrices(X), compute_uv=False)
    if (np.abs(sigma - alpha) > 1e-10).all():
        assert optimum.rank == plain_rank(X, alpha)
    left, sigma, right = np.linalg.svd(as_matrices(X), full_matrices=False)
    shrunk = (left * np.maximum(sigma - alpha, 0)[:, None, :]) @ right
    np.testing.assert_allclose(optimum.reconstruction, shrunk.reshape(X.shape), atol=1e-11)


@given(samples(1, 2, max_side=6), alphas)
def test_the_explicit_minimiser_reaches_the_value(X, alpha):
    """r~ atoms a side, unit norm, one code each: f = f*, and the certificate agrees to 1e-10 of the scale."""
    optimum = global_optimum(X, alpha)
    dictionaries, codes = optimum.dictionaries, optimum.codes
    assert all(A.shape == (d, optimum.rank) for A, d in zip(dictionaries, X.shape[1:], strict=True))
    assert codes.shape == (len(X), *[optimum.rank] * (X.ndim - 1))
    assert codes.nnz == optimum.rank
    assert (codes.data >= 0).all()
    for A in dictionaries:
        np.testing.assert_allclose(np.linalg.norm(A, axis=0), 1.0, rtol=1e-12)
    found = certify(X, dictionaries, codes, alpha)
    scale = 0.5 * (X**2).sum()
    np.testing.assert_allclose(found.objective, optimum.value, rtol=1e-10, atol=1e-12)
    assert found.gap <= 1e-10 * scale
    assert found.verdict == "optimal"
    assert found.attainment >= 1 - 1e-9
    if optimum.rank:
        assert found.stationarity <= 1e-9
        np.testing.assert_allclose([found.polar.lower, found.polar.upper], 1.0, rtol=1e-9)


@pytest.mark.parametrize("shape", [(20, 6, 9), (20, 9, 6), (30, 8), (3, 50, 60)])
def test_single_precision(shape):
    X = make_samples(shape, "gaussian", 0).astype(np.float32)
    alpha = 0.5 * np.linalg.svd(as_matrices(X), compute_uv=False).max()
    optimum = global_optimum(X, alpha)
    assert {A.dtype for A in optimum.dictionaries} == {optimum.codes.dtype} == {np.dtype(np.float32)}
    assert optimum.reconstruction.dtype == np.float32
    found = certify(X, optimum.dictionaries, optimum.codes, alpha)
    assert found.gap <= 1e-5 * 0.5 * (X.astype(np.float64) ** 2).sum()
    assert found.verdict == "optimal"


@given(samples(1, 2, max_side=5), alphas, st.sampled_from((1e-6, 1e6)))
def test_scaling_the_data_scales_the_value(X, alpha, scale):
    value = global_optimum(X, alpha).value
    np.testing.assert_allclose(global_optimum(scale * X, scale * alpha).value, scale**2 * value, rtol=1e-10)


@given(samples(2, 2, max_side=5), alphas)
def test_modes_and_samples_may_be_permuted(X, alpha):
    one = global_optimum(X, alpha)
    other = global_optimum(-X.transpose(0, 2, 1)[::-1], alpha)
    np.testing.assert_allclose(other.value, one.value, rtol=1e-12)
    assert other.rank == one.rank


@given(samples(1, 2, max_side=4), alphas)
def test_no_factors_do_better(X, alpha):
    value = global_optimum(X, alpha).value
    case = make_case(X.shape, "gaussian", 3)
    for scale in (0.0, 0.01, 0.1, 1.0):
        found = certify(X, case.dictionaries, scale * case.codes, alpha)
        assert found.objective >= value * (1 - 1e-12)
        np.testing.assert_allclose(found.lower_bound, value, rtol=1e-9, atol=1e-9)


def test_alpha_above_every_singular_value():
    X = make_samples((3, 4, 5), "gaussian", 1)
    optimum = global_optimum(X, 100.0)
    assert optimum.rank == 0
    np.testing.assert_allclose(optimum.value, 0.5 * (X**2).sum())
    assert [A.shape for A in optimum.dictionaries] == [(4, 0), (5, 0)]
    assert optimum.codes.shape == (3, 0, 0)
    assert certify(X, optimum.dictionaries, optimum.codes, 100.0).verdict == "optimal"


def test_vectors_follow_the_data():
    X = np.array([[3.0, 4.0], [0.3, 0.4]])
    optimum = global_optimum(X, 1.0)
    np.testing.assert_allclose(optimum.dictionaries[0][:, 0], [0.6, 0.8])
    np.testing.assert_allclose(optimum.codes.toarray(), [[4.0], [0.0]])


def test_big_fields_wait_until_they_are_asked_for(monkeypatch):
    X = make_samples((5, 4, 6), "gaussian", 2)

    def refuse(*args, **kwargs):
        raise AssertionError("made too early")

    monkeypatch.setattr("septum.optimum.pairs_above", refuse)
    monkeypatch.setattr("septum.optimum.shrink_singular_values", refuse)
    optimum = global_optimum(X, 1.0)
    np.testing.assert_allclose(optimum.value, plain_value(X, 1.0))
    with pytest.raises(AssertionError, match="too early"):
        _ = optimum.dictionaries


def test_tensors_are_refused():
    with pytest.raises(InvalidInputError, match="one or two modes"):
        global_optimum(np.ones((2, 3, 4, 5)), 1.0)


def test_the_papers_counts():
    """Printed in section 6 for its synthetic set: r~ = 1002, 702, 460, 369 at these alphas."""
    counts = [
        [global_optimum(make_separable(random_state=seed).X, alpha).rank for alpha in (0.75, 0.85, 0.9, 0.95)]
        for seed in range(5)
    ]
    np.testing.assert_allclose(np.median(counts, axis=0), [1002, 702, 460, 369], rtol=0.05)


def test_the_example_of_the_docstring():
    X = np.array([[[3.0, 0.0], [0.0, 1.0]]])
    optimum = septum.global_optimum(X, alpha=2.0)
    assert (optimum.value, optimum.rank) == (4.5, 1)
