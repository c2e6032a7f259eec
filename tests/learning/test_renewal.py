"""Swaps: what a new atom gains at least, what an old one costs at most, and that a stream uses both."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import septum
from septum import SeparableDictionaryLearning
from septum.coding.engine import solve
from septum.datasets import make_separable
from septum.factors import Factors
from septum.kronecker import unflatten_codes
from septum.learning.online import statistic
from septum.learning.renewal import best_addition, novel, removal_cost, unexplained
from septum.problem import Problem


def unit(rng, d, r):
    A = rng.standard_normal((d, r))
    return A / np.linalg.norm(A, axis=0)


def best_objective(X, dictionaries, alpha):
    """f with optimal codes, by sample and in all."""
    codes = solve(X, dictionaries, alpha, tol=1e-10).codes
    public = unflatten_codes(codes, tuple(A.shape[1] for A in dictionaries))
    return septum.certify(X, dictionaries, public, alpha).objective


@given(st.integers(0, 500), st.sampled_from([(12, 6), (12, 4, 5), (8, 3, 2, 4)]), st.integers(0, 2))
def test_an_addition_gains_at_least_what_it_says(seed, shape, mode):
    rng = np.random.default_rng(seed)
    mode = mode % (len(shape) - 1)
    X = 2 * rng.standard_normal(shape)
    dictionaries = [unit(rng, d, 2) for d in shape[1:]]
    problem = Problem.of(X, 1.0)
    codes = solve(X, dictionaries, 1.0, tol=1e-10).codes
    new = best_addition(problem, Factors(dictionaries, codes), mode)
    if new is None:
        return
    assert np.linalg.norm(new.atom) == pytest.approx(1.0)
    grown = [np.column_stack([A, new.atom]) if k == mode else A for k, A in enumerate(dictionaries)]
    before, after = best_objective(X, dictionaries, 1.0), best_objective(X, grown, 1.0)
    assert before - after >= new.gain - 1e-7 * before


def test_no_addition_at_the_optimum_of_one_side():
    """All right singular vectors are atoms: with every left axis too, nothing can be added."""
    X = np.random.default_rng(0).standard_normal((3, 3, 4))
    dictionaries = [np.eye(3), np.eye(4)]
    alpha = 10.0
    codes = sparse.csr_array((3, 12))
    assert best_addition(Problem.of(X, alpha), Factors(dictionaries, codes), 0) is None


def test_an_atom_for_one_sample_gains_nothing():
    X = np.zeros((5, 3, 4))
    X[2] = np.outer([1.0, 0, 0], [0, 5.0, 0, 0])
    factors = Factors([np.eye(3)[:, :1], np.eye(4)[:, :1]], sparse.csr_array((5, 1)))
    new = best_addition(Problem.of(X, 1.0), factors, 1)
    assert new.gain == 0.0
    np.testing.assert_allclose(np.abs(new.atom), np.eye(4)[1], atol=1e-12)


@given(st.integers(0, 500), st.sampled_from([0.05, 0.5]))
def test_removal_costs_at_most_what_it_says(seed, alpha):
    """f with optimal codes without an atom, against f of the factors that the statistics came from."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((10, 4, 5))
    dictionaries = [unit(rng, 4, 3), unit(rng, 5, 4)]
    problem = Problem.of(X, alpha)
    codes = solve(X, dictionaries, alpha, tol=1e-10).codes
    known = statistic(problem, dictionaries, codes, 1)
    cost = removal_cost(dictionaries[1], known.gram, known.cross, known.mass, alpha)
    before = best_objective(X, dictionaries, alpha)
    for i in range(4):
        after = best_objective(X, [dictionaries[0], np.delete(dictionaries[1], i, axis=1)], alpha)
        assert after - before <= cost[i] + 1e-7 * before


def test_a_duplicate_costs_nothing():
    """Codes of an atom can go to its copy, of either sign, at no cost; a needed atom costs its whole gain."""
    cross = np.array([[3.0, 3.0, 0.0], [0.0, 0.0, 2.0]])
    cost = removal_cost(np.array([[1.0, -1.0, 0.0], [0.0, 0.0, 1.0]]), np.eye(3), cross, np.ones(3), 0.5)
    np.testing.assert_allclose(cost, [0.0, 0.0, 0.5 * (2.0 - 0.5) ** 2])


def test_novel_candidates():
    atoms = np.eye(3)[:, :1]
    candidates = np.array([[1.0, 0, 0], [0, 1.0, 0], [0, -1.0, 0], [0, 0, 1.0]]).T
    np.testing.assert_array_equal(novel(atoms, candidates), candidates[:, [1, 3]])
    assert novel(np.eye(3), candidates).shape == (3, 0)


def test_the_unexplained_are_leading_singular_vectors():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 4, 5)) * np.linspace(0.1, 2, 20)[:, None, None]
    factors = Factors([np.eye(4)[:, :1], np.eye(5)[:, :1]], sparse.csr_array((20, 1)))
    left, right = unexplained(Problem.of(X, 0.5), factors, 3)
    U, sigma, Vh = np.linalg.svd(X, full_matrices=False)
    top = np.argsort(-sigma[:, 0])[:3]
    np.testing.assert_allclose(np.abs(np.sum(left * U[top, :, 0].T, axis=0)), 1.0, atol=1e-6)
    np.testing.assert_allclose(np.abs(np.sum(right * Vh[top, 0].T, axis=0)), 1.0, atol=1e-6)
    assert unexplained(Problem.of(X, 1e3), factors, 3)[0].shape == (4, 0)


def test_a_stream_trades_a_duplicate_for_a_missing_atom(monkeypatch):
    """Here the first batch leaves two atoms near one direction and none near another: only a swap mends that."""
    X = make_separable(900, random_state=30).X

    def score():
        est = SeparableDictionaryLearning(0.9, n_atoms=(4, 6), random_state=0)
        for start in range(0, 900, 60):
            est.partial_fit(X[start : start + 60])
        return est.score(X)

    assert score() > 0.95
    monkeypatch.setattr("septum.learning.online.best_addition", lambda *given: None)
    assert score() < 0.9
