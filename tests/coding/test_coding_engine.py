"""The internal `solve`: fast paths against the plain FISTA of the reference, for any shape, loss and weight."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from septum import kronecker
from septum.coding import reference
from septum.coding.engine import solve
from septum.loss import Huber, Squared


@st.composite
def problems(draw):
    """Samples, dictionaries (with some duplicated, zero or badly scaled atoms) and an alpha."""
    n = draw(st.integers(1, 3))
    d = [draw(st.integers(1, 5)) for _ in range(n)]
    r = [draw(st.integers(1, 5)) for _ in range(n)]
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    dictionaries = [rng.standard_normal((a, b)) for a, b in zip(d, r, strict=True)]
    for A in dictionaries:
        flaw = draw(st.sampled_from(["none", "none", "duplicate", "opposite", "zero", "scale"]))
        if flaw == "duplicate":
            A[:, -1] = A[:, 0]
        elif flaw == "opposite":
            A[:, -1] = -2 * A[:, 0]
        elif flaw == "zero":
            A[:, 0] = 0
        elif flaw == "scale":
            A[:, 0] *= 100
    X = rng.standard_normal((draw(st.integers(1, 3)), *d))
    if draw(st.booleans()):
        X[0] = 0
    largest = np.abs(kronecker.correlate(X, dictionaries)).max()
    alpha = max(draw(st.sampled_from([0.01, 0.2, 0.7, 1.5])) * largest, 1e-3)
    return X, dictionaries, alpha


@settings(max_examples=120, deadline=None)
@given(problem=problems(), positive=st.booleans())
def test_every_small_problem_is_solved_to_its_true_gap(problem, positive):
    X, dictionaries, alpha = problem
    found = solve(X, dictionaries, alpha, tol=1e-9, positive=positive)
    codes = found.codes.toarray().reshape(len(X), *[A.shape[1] for A in dictionaries])
    energy = 0.5 * (X.reshape(len(X), -1) ** 2).sum(axis=1)
    true = reference.gap(X, dictionaries, codes, alpha, positive=positive)
    assert found.converged.all()
    assert (true <= 1.01e-9 * energy + 1e-13).all()
    np.testing.assert_allclose(found.gap, true, rtol=1e-4, atol=1e-12 * (1 + energy.max()))
    assert found.codes.has_sorted_indices
    assert (found.codes.data != 0).all()


@settings(max_examples=40, deadline=None)
@given(problem=problems(), seed=st.integers(0, 99), huber=st.booleans(), masked=st.booleans())
def test_masks_and_losses_agree_with_the_reference(problem, seed, huber, masked):
    X, dictionaries, alpha = problem
    rng = np.random.default_rng(seed)
    mask = None
    if masked:
        mask = rng.random(X.shape) < 0.7
        mask.reshape(len(X), -1)[:, 0] = True
        X = np.where(mask, X, 0.0)
    loss = Huber(0.4) if huber else Squared()
    found = solve(X, dictionaries, alpha, tol=1e-5, mask=mask, loss=loss)
    codes = found.codes.toarray().reshape(len(X), *[A.shape[1] for A in dictionaries])
    assert found.converged.all()
    start = loss.value(X).reshape(len(X), -1).sum(axis=1)
    true = reference.gap(X, dictionaries, codes, alpha, mask, loss=loss)
    assert (true <= 1.01e-5 * start + 1e-12).all()
    assert (true >= -1e-12 * (1 + start)).all()


@pytest.mark.parametrize("loss", [None, Huber(0.5)])
def test_the_objective_is_that_of_plain_fista(loss):
    rng = np.random.default_rng(0)
    dictionaries = [rng.standard_normal((6, 5)), rng.standard_normal((7, 6))]
    X = rng.standard_normal((4, 6, 7))
    alpha = 0.2 * np.abs(kronecker.correlate(X, dictionaries)).max()
    found = solve(X, dictionaries, alpha, tol=1e-9, loss=loss)
    ours = reference.objective(X, dictionaries, found.codes.toarray().reshape(4, 5, 6), alpha, loss=loss)
    plain = reference.solve(X, dictionaries, alpha, loss=loss, n_iter=5000)
    np.testing.assert_allclose(ours, reference.objective(X, dictionaries, plain, alpha, loss=loss), rtol=1e-7)


@pytest.mark.parametrize("masked", [False, True])
def test_weights_multiply_the_penalty(masked):
    rng = np.random.default_rng(0)
    dictionaries = [rng.standard_normal((6, 8)), rng.standard_normal((7, 9))]
    X = rng.standard_normal((5, 6, 7))
    mask = rng.random(X.shape) < 0.8 if masked else None
    X = X if mask is None else np.where(mask, X, 0.0)
    weights = [rng.uniform(0.5, 2, 8), rng.uniform(0.5, 2, 9)]
    joint = np.multiply.outer(*weights).ravel()
    alpha = 0.3 * np.abs(kronecker.correlate(X, dictionaries)).max()
    found = solve(X, dictionaries, alpha, tol=1e-12, weights=weights, mask=mask)
    codes = found.codes.toarray()
    assert codes.any()
    residual = X - kronecker.multiply(codes.reshape(5, 8, 9), dictionaries)
    residual = residual if mask is None else np.where(mask, residual, 0.0)
    correlation = kronecker.correlate(residual, dictionaries).reshape(5, -1)
    assert (np.abs(correlation) <= alpha * joint * (1 + 1e-4)).all()
    np.testing.assert_allclose(
        correlation[codes != 0], (alpha * joint * np.sign(codes))[codes != 0], rtol=1e-4
    )
    again = solve(X, dictionaries, alpha, tol=1e-12, weights=weights, mask=mask, warm=found.codes)
    np.testing.assert_allclose(again.codes.toarray(), codes, atol=1e-5)


def test_a_working_set_larger_than_its_room_is_handed_to_fista(monkeypatch):
    from septum.coding import engine

    rng = np.random.default_rng(0)
    dictionaries = [rng.standard_normal((10, 14)), rng.standard_normal((12, 16))]
    X = rng.standard_normal((3, 10, 12))
    alpha = 0.05 * np.abs(kronecker.correlate(X, dictionaries)).max()
    plain = solve(X, dictionaries, alpha, tol=1e-10)
    monkeypatch.setattr(engine, "CAPACITY", 20)
    crowded = solve(X, dictionaries, alpha, tol=1e-10)
    assert np.diff(plain.codes.indptr).min() > 20
    assert crowded.converged.all()
    np.testing.assert_allclose(crowded.codes.toarray(), plain.codes.toarray(), atol=1e-3)
    warm = solve(X, dictionaries, alpha, tol=1e-10, warm=plain.codes)
    assert warm.converged.all()


def test_coherent_dictionaries_converge():
    grid = np.linspace(0, 1, 30)
    smooth = np.exp(-((grid[:, None] - np.linspace(0, 1, 60)) ** 2) / 0.02)
    waves = np.cos(np.pi * np.outer(np.arange(20) + 0.5, np.arange(40)) / 40)
    rng = np.random.default_rng(0)
    dictionaries = [smooth / np.linalg.norm(smooth, axis=0), waves / np.linalg.norm(waves, axis=0)]
    codes = sparse.random_array((10, 2400), density=0.01, rng=rng).toarray().reshape(10, 60, 40)
    X = kronecker.multiply(codes, dictionaries) + 0.01 * rng.standard_normal((10, 30, 20))
    alpha = 0.02 * np.abs(kronecker.correlate(X, dictionaries)).max()
    found = solve(X, dictionaries, alpha, tol=1e-8)
    assert found.converged.all()
    true = reference.gap(X, dictionaries, found.codes.toarray().reshape(10, 60, 40), alpha)
    assert (true <= 1.01e-8 * 0.5 * (X**2).sum(axis=(1, 2))).all()
