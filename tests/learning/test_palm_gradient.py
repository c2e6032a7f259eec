"""The three gradients of section 5.1: against finite differences, plain sums, and each other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from septum.kronecker import explicit, mode_product, multiply
from septum.learning.gradient import (
    Point,
    Quadratic,
    Residual,
    along,
    contract,
    curvature,
    joint_gram,
    reconstruct,
    samples_first,
    samples_second,
)
from septum.loss import Huber, Squared

SHAPES = [(5, 4), (4, 3, 5), (3, 2, 4, 3)]
SIZES = [(6,), (2, 7), (3, 2, 5)]


def make(case, seed=0, masked=False):
    rng = np.random.default_rng(seed)
    shape, r = SHAPES[case], SIZES[case]
    X = rng.standard_normal(shape)
    mask = rng.random(shape) < 0.7 if masked else None
    dictionaries = [rng.standard_normal((d, size)) / np.sqrt(d) for d, size in zip(shape[1:], r, strict=True)]
    codes = rng.standard_normal((shape[0], *r)) * (rng.random((shape[0], *r)) < 0.5)
    X = X if mask is None else np.where(mask, X, 0.0)
    return X, mask, Point(dictionaries, samples_second(codes))


def smooth_part(X, mask, loss):
    return Residual(samples_second(X), None if mask is None else samples_second(mask), loss)


def plain_value(X, mask, loss, point):
    """The smooth part by the definition, relative to zero codes."""
    error = X - multiply(samples_first(point.codes), point.dictionaries)
    error = error if mask is None else np.where(mask, error, 0.0)
    return float(loss.value(error).sum() - loss.value(X).sum())


def difference_quotient(value, at, direction, step=1e-5):
    return (value(at + step * direction) - value(at - step * direction)) / (2 * step)


@pytest.mark.parametrize("case", range(3))
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("loss", [Squared(), Huber(0.6)])
def test_gradients_are_those_of_the_plain_definition(case, masked, loss):
    X, mask, point = make(case, masked=masked)
    smooth = smooth_part(X, mask, loss)
    rng = np.random.default_rng(1)
    for mode, A in enumerate(point.dictionaries):
        block = smooth.in_dictionary(point, mode)
        direction = rng.standard_normal(A.shape)
        slope = difference_quotient(
            lambda B, k=mode: plain_value(X, mask, loss, point.with_dictionary(k, B)), A, direction
        )
        np.testing.assert_allclose(np.vdot(block.gradient(A), direction), slope, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(block.value(A), plain_value(X, mask, loss, point), rtol=1e-12, atol=1e-12)
    block = smooth.in_codes(point)
    direction = rng.standard_normal(point.codes.shape)
    slope = difference_quotient(
        lambda C: plain_value(X, mask, loss, Point(point.dictionaries, C)), point.codes, direction
    )
    np.testing.assert_allclose(np.vdot(block.gradient(point.codes), direction), slope, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(block.value(point.codes), plain_value(X, mask, loss, point), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("case", range(3))
def test_the_expanded_square_agrees_with_the_residual(case):
    X, _, point = make(case)
    quadratic, residual = Quadratic(samples_second(X)), smooth_part(X, None, Squared())
    blocks = [(quadratic.in_dictionary(point, k), residual.in_dictionary(point, k), A) for k, A in
              enumerate(point.dictionaries)]  # fmt: skip
    blocks.append((quadratic.in_codes(point), residual.in_codes(point), point.codes))
    rng = np.random.default_rng(2)
    for fast, plain, start in blocks:
        value = start + rng.standard_normal(start.shape)
        np.testing.assert_allclose(fast.gradient(value), plain.gradient(value), rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(fast.value(value), plain.value(value), rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(fast.lipschitz, plain.lipschitz, rtol=1e-12)
    np.testing.assert_allclose(quadratic.residual(point), residual.residual(point), atol=1e-12)


def test_what_is_kept_between_blocks_is_dropped_when_a_dictionary_changes():
    X, _, point = make(1)
    smooth = Quadratic(samples_second(X))
    smooth.in_dictionary(point, 0)
    changed = point.with_dictionary(1, point.dictionaries[1] + 1.0)
    for mode in (0, 1):
        fresh = Quadratic(samples_second(X)).in_dictionary(changed, mode)
        kept = smooth.in_dictionary(changed, mode)
        A = changed.dictionaries[mode]
        np.testing.assert_allclose(kept.gradient(A), fresh.gradient(A), rtol=1e-12)
    np.testing.assert_allclose(
        smooth.in_codes(point).gradient(point.codes),
        Quadratic(samples_second(X)).in_codes(point).gradient(point.codes),
        rtol=1e-12,
    )


@pytest.mark.parametrize("case", range(3))
@pytest.mark.parametrize("loss", [Squared(), Huber(0.6)])
@given(seed=st.integers(0, 2**16))
def test_lipschitz_constants_bound_every_change_of_the_gradient(case, loss, seed):
    X, mask, point = make(case, seed % 97, masked=True)
    smooth = smooth_part(X, mask, loss)
    rng = np.random.default_rng(seed)
    blocks = [(smooth.in_dictionary(point, k), A) for k, A in enumerate(point.dictionaries)]
    blocks.append((smooth.in_codes(point), point.codes))
    for block, start in blocks:
        move = rng.standard_normal(start.shape)
        change = block.gradient(start + move) - block.gradient(start)
        assert np.linalg.norm(change) <= block.lipschitz * np.linalg.norm(move) * (1 + 1e-10)


@pytest.mark.parametrize("case", range(3))
def test_lipschitz_constants_of_the_square_are_attained(case):
    """They are the spectral norms of the explicit Hessians, not only bounds of them."""
    X, _, point = make(case)
    smooth = Quadratic(samples_second(X))
    joint = explicit(point.dictionaries)
    np.testing.assert_allclose(smooth.in_codes(point).lipschitz, np.linalg.norm(joint.T @ joint, 2), rtol=1e-10)
    codes = samples_first(point.codes)
    for mode, A in enumerate(point.dictionaries):
        partial = codes
        for k in point.others(mode):
            partial = mode_product(partial, point.dictionaries[k], k)
        P = np.moveaxis(partial, mode + 1, 0).reshape(A.shape[1], -1)
        np.testing.assert_allclose(curvature(point, mode), P @ P.T, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(smooth.in_dictionary(point, mode).lipschitz, np.linalg.norm(P @ P.T, 2), rtol=1e-10)


@pytest.mark.parametrize("case", range(3))
def test_products_with_the_samples_second_agree_with_those_with_the_samples_first(case):
    X, _, point = make(case)
    codes = samples_first(point.codes)
    np.testing.assert_allclose(samples_first(reconstruct(point)), multiply(codes, point.dictionaries), atol=1e-12)
    rng = np.random.default_rng(3)
    for mode, d in enumerate(X.shape[1:]):
        M = rng.standard_normal((3, d))
        moved = samples_first(along(samples_second(X), M, mode))
        np.testing.assert_allclose(moved, mode_product(X, M, mode), atol=1e-12)
        unfolded = np.moveaxis(X, mode + 1, 0).reshape(d, -1)
        other = np.moveaxis(moved, mode + 1, 0).reshape(3, -1)
        found = contract(samples_second(X), samples_second(moved), mode)
        np.testing.assert_allclose(found, unfolded @ other.T, atol=1e-12)
    plain = codes.reshape(len(codes), -1) @ (explicit(point.dictionaries).T @ explicit(point.dictionaries))
    gram = samples_first(joint_gram(point.dictionaries, point.codes))
    np.testing.assert_allclose(gram.reshape(len(codes), -1), plain, atol=1e-10)


def test_two_modes_have_the_papers_gradients():
    """Section 5.1: (Z_t - X_t) B C_t^T and A^T (Z_t - X_t) B and (Z_t - X_t)^T A C_t, sample by sample."""
    X, _, point = make(1)
    A, B = point.dictionaries
    codes = samples_first(point.codes)
    D = [A @ C @ B.T - x for C, x in zip(codes, X, strict=True)]
    smooth = Quadratic(samples_second(X))
    paper_A = sum(d @ B @ C.T for d, C in zip(D, codes, strict=True))
    paper_B = sum(d.T @ A @ C for d, C in zip(D, codes, strict=True))
    paper_C = np.stack([A.T @ d @ B for d in D])
    np.testing.assert_allclose(smooth.in_dictionary(point, 0).gradient(A), paper_A, atol=1e-11)
    np.testing.assert_allclose(smooth.in_dictionary(point, 1).gradient(B), paper_B, atol=1e-11)
    found = samples_first(smooth.in_codes(point).gradient(point.codes))
    np.testing.assert_allclose(found, paper_C, atol=1e-11)
