"""KDRSDL: its updates against the equations they solve, and a known model recovered."""

import numpy as np
import pytest
from sklearn.base import clone

from septum.baselines import KDRSDL
from septum.baselines.kdrsdl import _Settings, _soft, _start, _State
from septum.errors import InvalidInputError


def known_model(seed, T=30, G=30, V=40, r=4, share=0.05):
    rng = np.random.default_rng(seed)
    A, B = rng.standard_normal((G, r)), rng.standard_normal((V, r))
    R = rng.standard_normal((T, r, r)) * (rng.random((T, r, r)) < 0.6)
    low_rank = A @ R @ B.T
    errors = (rng.random(low_rank.shape) < share) * rng.standard_normal(low_rank.shape) * 5 * low_rank.std()
    return low_rank, errors


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_recovers_a_known_low_rank_plus_sparse_model(seed):
    low_rank, errors = known_model(seed)
    model = KDRSDL(alpha=1e-2).fit(low_rank + errors)
    found = model.inverse_transform(model.codes_)
    assert np.linalg.norm(found - low_rank) <= 1e-5 * np.linalg.norm(low_rank)
    assert np.linalg.norm(model.errors_ - errors) <= 1e-5 * np.linalg.norm(errors)
    assert model.residual_ <= 1e-7


def state(seed=0, T=5, G=6, V=8, r=4):
    rng = np.random.default_rng(seed)
    data = rng.standard_normal((T, G, V))
    left, right, cores = _start(data, r)
    made = _State(data, left, right, cores, _Settings(0.1, 0.2, 1.2))
    made.errors = 0.1 * rng.standard_normal(data.shape)
    made.fit_multiplier = rng.standard_normal(data.shape)
    made.cores = rng.standard_normal(cores.shape)
    made.sparse = rng.standard_normal(cores.shape)
    made.core_multiplier = rng.standard_normal(cores.shape)
    made.penalty, made.core_penalty = 0.7, 1.3
    return made, made.penalty * (made.data - made.errors) + made.fit_multiplier


def test_the_start_averages_singular_vectors_and_fits_each_sample():
    data = np.random.default_rng(0).standard_normal((1, 5, 7))
    left, right, cores = _start(data, 5)
    np.testing.assert_allclose(left @ cores[0] @ right.T, data[0], atol=1e-12)
    twice, _, _ = _start(np.concatenate([data, -data]), 5)
    np.testing.assert_allclose(np.abs(twice), np.abs(left), atol=1e-12)


def test_the_updates_of_a_and_b_are_stationary():
    made, target = state()
    made._update_left(target)
    gradient = made.left - sum(
        (S - made.penalty * made.left @ R @ made.right.T) @ made.right @ R.T
        for S, R in zip(target, made.cores, strict=True)
    )
    np.testing.assert_allclose(gradient, 0, atol=1e-10)
    made._update_right(target)
    gradient = made.right - sum(
        (S - made.penalty * made.left @ R @ made.right.T).T @ made.left @ R
        for S, R in zip(target, made.cores, strict=True)
    )
    np.testing.assert_allclose(gradient, 0, atol=1e-10)


def test_the_cores_solve_their_equation_and_k_is_their_shrinkage():
    made, target = state()
    before = made.sparse.copy()
    made._update_cores(target)
    A, B = made.left, made.right
    for R, S, K, Z in zip(made.cores, target, before, made.core_multiplier, strict=True):
        left_side = made.penalty * A.T @ A @ R @ B.T @ B + made.core_penalty * R
        np.testing.assert_allclose(left_side, A.T @ S @ B + made.core_penalty * K - Z, atol=1e-10)
    expected = _soft(made.cores + made.core_multiplier / made.core_penalty, 0.1 / made.core_penalty)
    np.testing.assert_allclose(made.sparse, expected)
    np.testing.assert_allclose(made.low_rank, A @ made.cores @ B.T)


def test_the_errors_are_a_shrinkage():
    made, _ = state()
    made._update_errors()
    free = made.data - made.low_rank + made.fit_multiplier / made.penalty
    expected = np.sign(free) * np.maximum(np.abs(free) - 0.2 / made.penalty, 0)
    np.testing.assert_allclose(made.errors, expected, atol=1e-12)


def test_unit_atoms_most_used_first_and_the_parts_add_up():
    low_rank, errors = known_model(3, T=20, G=12, V=15, r=3)
    X = low_rank + errors
    model = KDRSDL(alpha=5e-2).fit(X)
    for mode, atoms in enumerate(model.dictionaries_):
        np.testing.assert_allclose(np.linalg.norm(atoms, axis=0), 1, atol=1e-12)
        other = 2 if mode == 0 else 1
        usage = np.count_nonzero(model.codes_.toarray(), axis=(0, other))
        assert np.all(np.diff(usage) <= 0)
    rest = X - model.inverse_transform(model.codes_) - model.errors_
    assert np.linalg.norm(rest) <= 1e-5 * np.linalg.norm(X)


def test_defaults_are_the_authors():
    X = np.random.default_rng(0).standard_normal((9, 4, 6))
    model = KDRSDL().fit(X)
    assert model.lam_ == 1 / np.sqrt(9 * 6)
    assert (model.alpha, model.growth, model.tol, model.max_iter) == (1e-2, 1.2, 1e-7, 150)


def test_other_samples_are_coded_on_the_same_atoms():
    low_rank, errors = known_model(4, T=40)
    model = KDRSDL(alpha=1e-2).fit((low_rank + errors)[:30])
    found = model.inverse_transform(model.transform((low_rank + errors)[30:]))
    truth = low_rank[30:]
    assert np.linalg.norm(found - truth) <= 1e-3 * np.linalg.norm(truth)


def test_same_answer_each_run_single_precision_kept_and_data_unchanged():
    low_rank, errors = known_model(5, T=10, G=8, V=9, r=2)
    X = (low_rank + errors).astype(np.float32)
    before = X.copy()
    first, second = KDRSDL().fit(X), clone(KDRSDL()).fit(X)
    np.testing.assert_array_equal(first.dictionaries_[0], second.dictionaries_[0])
    np.testing.assert_array_equal(X, before)
    assert first.dictionaries_[0].dtype == first.errors_.dtype == first.codes_.dtype == np.float32
    assert first.transform(X).dtype == np.float32


@pytest.mark.parametrize(
    "options",
    [
        {"alpha": 0},
        {"lam": -1},
        {"n_atoms": 7},
        {"n_atoms": 0},
        {"growth": 0.5},
        {"tol": -1},
        {"max_iter": 0},
    ],
)
def test_bad_parameters_are_named(options):
    with pytest.raises(InvalidInputError):
        KDRSDL(**options).fit(np.random.default_rng(0).standard_normal((5, 4, 6)))


def test_bad_data_are_named():
    with pytest.raises(InvalidInputError, match="d_1, d_2"):
        KDRSDL().fit(np.ones((5, 4)))
    with pytest.raises(InvalidInputError, match="zero"):
        KDRSDL().fit(np.zeros((5, 4, 6)))
    X = np.random.default_rng(0).standard_normal((5, 4, 6))
    with pytest.raises(InvalidInputError, match="choose it larger"):
        KDRSDL(lam=1e-6).fit(X)
    model = KDRSDL().fit(X)
    with pytest.raises(InvalidInputError, match="must be"):
        model.transform(X[:, :3])
    with pytest.raises(InvalidInputError, match="must be"):
        model.inverse_transform(np.ones((5, 2)))
