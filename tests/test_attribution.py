"""The best objective with one dictionary fixed, against a convex solver and the closed form."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from septum import certify, global_optimum
from septum.attribution import blame
from septum.errors import InvalidInputError
from septum.loss import Huber, Squared
from strategies import cases, make_case, make_mask


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("delta", [None, 0.6])
@pytest.mark.parametrize("masked", [False, True])
def test_against_a_convex_solver(mode, delta, masked):
    """A group lasso: sum_t loss(X_t - A Y_t) + alpha sum_i ||row_i(Y_t)||_2 with unit atoms."""
    case = make_case((2, 4, 5), "gaussian", 1, alpha=0.4)
    mask = make_mask(case.X.shape, 1) if masked else np.ones(case.X.shape, bool)
    A = case.dictionaries[mode]
    A = A / np.linalg.norm(A, axis=0)
    expected = 0.0
    for x, m in zip(case.X, mask, strict=True):
        x, m = (x, m) if mode == 0 else (x.T, m.T)
        Y = cp.Variable((A.shape[1], x.shape[1]))
        error = cp.multiply(m.astype(float), x - A @ Y)
        loss = 0.5 * cp.sum_squares(error) if delta is None else 0.5 * cp.sum(cp.huber(error, delta))
        problem = cp.Problem(cp.Minimize(loss + 0.4 * cp.sum(cp.norm(Y, 2, axis=1))))
        expected += problem.solve(solver="CLARABEL")
    loss = Squared() if delta is None else Huber(delta)
    found = blame(case.X, case.dictionaries, 0.1 * case.codes, 0.4, loss=loss, mask=mask)[mode]
    assert found.lower <= expected * (1 + 1e-6)
    assert found.upper >= expected * (1 - 1e-6)
    assert found.upper - found.lower <= 2e-6 * found.upper


@given(cases(1, 3), st.booleans(), st.sampled_from([Squared(), Huber(0.7)]))
def test_it_lies_between_the_bound_and_the_objective(case, masked, loss):
    mask = make_mask(case.X.shape, case.seed) if masked else None
    options = {"loss": loss, "mask": mask}
    certificate = certify(case.X, case.dictionaries, 0.1 * case.codes, case.alpha, **options)
    for mode, found in enumerate(
        blame(case.X, case.dictionaries, 0.1 * case.codes, case.alpha, tol=1e-5, **options)
    ):
        tiny = 1e-9 * (1 + certificate.objective)
        assert found.mode == mode
        assert found.lower <= found.upper
        assert found.upper <= certificate.objective + tiny
        assert found.upper >= certificate.lower_bound - 1e-5 * certificate.objective - tiny
        np.testing.assert_allclose(found.others, certificate.objective - found.upper, atol=tiny)


@pytest.mark.parametrize("shape", [(3, 6), (3, 3, 4)])
def test_the_optimal_dictionaries_are_not_to_blame(shape):
    case = make_case(shape, "gaussian", 2, alpha=0.6)
    optimum = global_optimum(case.X, 0.6)
    for found in blame(case.X, optimum.dictionaries, 0.3 * optimum.codes, 0.6):
        np.testing.assert_allclose([found.lower, found.upper], optimum.value, rtol=1e-5)
        assert found.others > 0


def test_a_dictionary_that_spans_nothing_is_to_blame_for_everything():
    """Atoms orthogonal to the data: nothing but zero codes is possible."""
    X = np.zeros((2, 4, 5))
    X[:, :2] = np.random.default_rng(0).standard_normal((2, 2, 5))
    A, B = np.eye(4)[:, 2:], np.eye(5)
    left, right = blame(X, [A, B], np.zeros((2, 2, 5)), 0.3)
    zero = 0.5 * (X**2).sum()
    np.testing.assert_allclose([left.lower, left.upper], zero)
    assert right.upper < zero


def test_no_atoms():
    X = np.ones((2, 3, 4))
    left, _ = blame(X, [np.zeros((3, 0)), np.eye(4)], np.zeros((2, 0, 4)), 0.3)
    np.testing.assert_allclose([left.lower, left.upper], 12.0)


def test_bad_tolerance():
    with pytest.raises(InvalidInputError, match="tol"):
        blame(np.ones((2, 3)), [np.eye(3)], np.zeros((2, 3)), 0.3, tol=0)
