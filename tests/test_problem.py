"""The objective and its parts against plain formulas, for every loss, with and without a mask."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from septum.certificate import as_factors
from septum.errors import InvalidInputError
from septum.loss import Huber, Squared
from septum.problem import Problem
from septum.regularizer import L1Atoms, SparseAtoms, SparseCodes
from strategies import cases, make_case, make_mask

losses = st.sampled_from([Squared(), Huber(0.5), Huber(2.0)])


def plain_objective(case, loss, mask):
    error = np.where(mask, case.X - case.reconstruction, 0.0)
    norms = np.ones(())
    for A in case.dictionaries:
        norms = np.multiply.outer(norms, np.linalg.norm(A, axis=0))
    axes = tuple(range(1, case.X.ndim))
    return loss.value(error).sum(axis=axes) + case.alpha * (np.abs(case.codes) * norms).sum(axis=axes)


@given(cases(1, 3), losses, st.booleans())
def test_objective_is_the_plain_formula(case, loss, masked):
    mask = make_mask(case.X.shape, case.seed) if masked else np.ones(case.X.shape, bool)
    data = np.where(mask, case.X, np.nan)
    problem = Problem.of(data, case.alpha, loss=loss, mask=mask)
    factors = as_factors(problem, case.dictionaries, case.codes)
    np.testing.assert_allclose(problem.objective(factors), plain_objective(case, loss, mask), rtol=1e-10)
    zero = loss.value(np.where(mask, case.X, 0.0)).reshape(len(case.X), -1).sum(axis=1)
    np.testing.assert_allclose(problem.zero_objective(), zero, rtol=1e-12)


def test_ranges_of_samples_add_up(monkeypatch):
    case = make_case((7, 3, 4), "gaussian", 1)
    problem = Problem.of(case.X, 0.5)
    factors = as_factors(problem, case.dictionaries, case.codes)
    whole = problem.objective(factors)
    monkeypatch.setattr("septum.problem.chunks", lambda n, size: (slice(t, t + 1) for t in range(n)))
    np.testing.assert_allclose(problem.objective(factors), whole, rtol=1e-12)


def test_plain_means_squared_and_complete():
    X = np.ones((2, 3))
    assert Problem.of(X, 1.0).is_plain
    assert not Problem.of(X, 1.0, loss="huber").is_plain
    assert not Problem.of(X, 1.0, mask=np.array([[1, 1, 0]] * 2)).is_plain


def test_coupled_samples_come_all_at_once(monkeypatch):
    monkeypatch.setattr("septum.problem.chunks", lambda n, size: (slice(t, t + 1) for t in range(n)))
    X = np.ones((5, 3))
    assert len(list(Problem.of(X, 1.0).parts())) == 5
    assert list(Problem.of(X, 1.0, regularizer=SparseCodes(0.1)).parts()) == [slice(0, 5)]


@pytest.mark.parametrize("regularizer", [L1Atoms(1), SparseAtoms(0.1, 2), SparseCodes(0.1)])
def test_regularisers_that_do_not_fit(regularizer):
    X = np.ones((2, 3)) if regularizer.name != "sparse_codes" else np.ones((2, 3, 4))
    with pytest.raises(InvalidInputError):
        Problem.of(X, 1.0, regularizer=regularizer)


def test_factors_that_do_not_fit():
    problem = Problem.of(np.ones((2, 3, 4)), 1.0)
    other = Problem.of(np.ones((2, 3, 5)), 1.0)
    more = Problem.of(np.ones((3, 3, 4)), 1.0)
    factors = as_factors(problem, [np.ones((3, 1)), np.ones((4, 1))], np.ones((2, 1, 1)))
    with pytest.raises(InvalidInputError, match="lengths"):
        other.check(factors)
    with pytest.raises(InvalidInputError, match="samples"):
        more.check(factors)
