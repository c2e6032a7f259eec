"""Lower bounds: feasible, below every objective, and tight where a convex solver can tell."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convex import best_objective
from septum import global_optimum
from septum.bound import DualPoint, dual_point, feasible_scale, lower_bound, merge, residual_point
from septum.certificate import as_factors
from septum.loss import Huber, Squared
from septum.problem import Problem
from septum.regularizer import L1Atoms, Separable, SparseAtoms, SparseCodes
from septum.spectral import bipartitions, unfold
from strategies import cases, make_case, make_mask, make_samples

losses = st.sampled_from([Squared(), Huber(0.5), Huber(2.0)])


def whole(problem):
    return slice(0, problem.n_samples)


def dual_value(problem, point):
    """D(Q) = <Q, X> - sum rho*(Q) for every sample, plainly."""
    x = problem.data(whole(problem))
    return (point.q * x - problem.loss.conjugate(point.q)).reshape(len(x), -1).sum(axis=1)


def assert_feasible(problem, point):
    polar = problem.regularizer.polar(point.q)
    assert polar.lower.max() <= problem.alpha * (1 + 1e-9)
    assert np.abs(point.q).max() <= problem.loss.dual_limit * (1 + 1e-12)
    if problem.samples.mask is not None:
        assert (point.q[~problem.samples.mask] == 0).all()


@given(cases(1, 3), losses, st.booleans())
def test_dual_points_are_feasible_and_below_every_objective(case, loss, masked):
    mask = make_mask(case.X.shape, case.seed) if masked else None
    problem = Problem.of(case.X, case.alpha, loss=loss, mask=mask)
    point = dual_point(problem, whole(problem), max_iter=200)
    assert_feasible(problem, point)
    bound = dual_value(problem, point)
    zero = problem.zero_objective()
    np.testing.assert_allclose(zero - point.decrease, bound, rtol=1e-9, atol=1e-9)
    for scale in (0.0, 0.02, 0.3):
        factors = as_factors(problem, case.dictionaries, scale * case.codes)
        assert (problem.objective(factors) >= bound - 1e-9 * (1 + zero)).all()


@given(cases(1, 3), losses, st.booleans())
def test_rescaled_residuals_are_feasible(case, loss, masked):
    mask = make_mask(case.X.shape, case.seed) if masked else None
    problem = Problem.of(case.X, case.alpha, loss=loss, mask=mask)
    error = problem.error(0.1 * case.reconstruction, whole(problem))
    residual = loss.influence(error)
    upper = problem.regularizer.polar_upper(residual)
    point = residual_point(problem, residual, upper, whole(problem))
    assert_feasible(problem, point)
    assert (point.decrease >= 0).all()


@given(cases(1, 2), st.floats(0.1, 3))
def test_the_scale_is_the_best_along_the_residual(case, stretch):
    """D(s R) is concave in s: no feasible s does better than the chosen one."""
    problem = Problem.of(case.X, case.alpha)
    residual = case.X - 0.1 * case.reconstruction
    upper = problem.regularizer.polar_upper(residual)
    s = feasible_scale(residual, case.X, upper, problem)

    def value(scale):
        q = residual * scale.reshape(-1, *[1] * (residual.ndim - 1))
        return dual_value(problem, DualPoint(q, s, s))

    other = np.minimum(stretch * s, np.where(upper > 0, case.alpha / np.where(upper > 0, upper, 1), 1.0))
    assert (value(s) >= value(other) - 1e-9).all()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 5)])
def test_masked_squared_loss_against_a_convex_solver(seed, shape):
    X, mask = make_samples(shape, "gaussian", seed), make_mask(shape, seed, 0.6)
    problem = Problem.of(X, 0.4, mask=mask)
    zero, decrease, known = lower_bound(problem)
    expected = [best_objective(x, 0.4, mask=m) for x, m in zip(X, mask, strict=True)]
    assert known
    np.testing.assert_allclose(zero - decrease, expected, rtol=2e-6)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("delta", [0.3, 1.0])
@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 5)])
def test_huber_against_a_convex_solver(shape, delta, masked):
    X = make_samples(shape, "gaussian", 7, scale=2.0)
    mask = make_mask(shape, 7) if masked else None
    problem = Problem.of(X, 0.5, loss=Huber(delta), mask=mask)
    zero, decrease, known = lower_bound(problem)
    expected = [
        best_objective(x, 0.5, mask=None if mask is None else mask[t], delta=delta) for t, x in enumerate(X)
    ]
    assert known
    np.testing.assert_allclose(zero - decrease, expected, rtol=2e-6)


@given(cases(1, 2), st.booleans(), st.sampled_from([Squared(), Huber(0.7)]))
def test_the_slack_bounds_what_is_missing(case, masked, loss):
    """However early the descent stops, the best objective is between the bound and the bound plus slack."""
    mask = make_mask(case.X.shape, case.seed) if masked else None
    problem = Problem.of(case.X, case.alpha, loss=loss, mask=mask)
    exact = dual_point(problem, whole(problem), tol=1e-10, max_iter=3000)
    for max_iter in (1, 7, 40):
        rough = dual_point(problem, whole(problem), max_iter=max_iter)
        missing = rough.decrease - exact.decrease
        assert (missing >= -1e-9 * (1 + problem.zero_objective())).all()
        assert (missing <= rough.slack + 1e-9 * (1 + problem.zero_objective())).all()


@given(cases(1, 2))
def test_the_closed_form_is_the_bound_of_complete_squared_data(case):
    problem = Problem.of(case.X, case.alpha)
    zero, decrease, known = lower_bound(problem)
    assert known
    np.testing.assert_allclose((zero - decrease).sum(), global_optimum(case.X, case.alpha).value, rtol=1e-11)


@given(cases(3, 3))
def test_tensors_take_the_best_bipartition(case):
    """f*_t >= max over unfoldings of 1/2 ||X_t||^2 - 1/2 sum (sigma - alpha)_+^2."""
    problem = Problem.of(case.X, case.alpha)
    zero, decrease, _ = lower_bound(problem)
    plain = [
        0.5
        * (np.maximum(np.linalg.svd(unfold(case.X, rows), compute_uv=False) - case.alpha, 0) ** 2).sum(axis=1)
        for rows in bipartitions(3)
    ]
    np.testing.assert_allclose(decrease, np.min(plain, axis=0), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(zero, 0.5 * (case.X**2).sum(axis=(1, 2, 3)), rtol=1e-12)


def test_clipping_leaves_the_mask_and_masking_raises_sigma():
    """Both shortcuts of the complete case are invalid with a mask: why the bound is solved for."""
    X, mask = make_samples((1, 6, 7), "gaussian", 1), make_mask((1, 6, 7), 1, 0.6)
    alpha, seen = 1.0, np.where(mask, X, 0.0)
    left, sigma, right = np.linalg.svd(seen, full_matrices=False)
    clipped = (left * np.minimum(sigma, alpha)[:, None, :]) @ right
    assert np.abs(clipped[~mask]).max() > 0.01
    masked = np.where(mask, clipped, 0.0)
    assert np.linalg.svd(masked, compute_uv=False).max() > 1.001 * alpha
    problem = Problem.of(X, alpha, mask=mask)
    assert_feasible(problem, dual_point(problem, slice(0, 1)))


def test_one_scale_for_each_sample_is_far_tighter_than_one_for_all():
    """All samples but one at their optimum: that one alone should pay."""
    X = make_samples((30, 5, 6), "gaussian", 2)
    optimum = global_optimum(X, 1.0)
    residual = X - optimum.reconstruction
    residual[0] = X[0]
    problem = Problem.of(X, 1.0)
    upper = Separable().polar_upper(residual)
    zero = problem.zero_objective().sum()
    each = optimum.value - (zero - residual_point(problem, residual, upper, slice(0, 30)).decrease.sum())
    for_all = optimum.value - (zero - 0.5 * ((X - residual / upper.max()) ** 2).sum())
    assert -1e-9 < each < 0.1 * for_all


def test_screened_samples_need_no_iteration(monkeypatch):
    """Where the polar of the gradient at zero is at most alpha the residual of zero is optimal at once."""
    X, mask = make_samples((4, 5, 6), "gaussian", 3), make_mask((4, 5, 6), 3)
    monkeypatch.setattr("septum.bound._Descent._step", None)
    for loss in (Squared(), Huber(0.5)):
        problem = Problem.of(X, 100.0, loss=loss, mask=mask)
        point = dual_point(problem, slice(0, 4))
        np.testing.assert_allclose(point.decrease, 0.0, atol=1e-12)
        np.testing.assert_allclose(point.slack, 0.0, atol=1e-12)


@pytest.mark.parametrize("regularizer", [L1Atoms(0), L1Atoms(1)])
def test_other_exact_optima(regularizer):
    """l1 atoms: f* by shrinking rows (or columns)."""
    X = make_samples((4, 3, 5), "gaussian", 4)
    axis = 2 - regularizer.mode
    kept = np.maximum(np.linalg.norm(X, axis=axis) - 0.8, 0)
    _, decrease, known = lower_bound(Problem.of(X, 0.8, regularizer=regularizer))
    assert known
    np.testing.assert_allclose(decrease, 0.5 * (kept**2).sum(axis=1))


@pytest.mark.parametrize("beta", [0.2, 1.0])
@pytest.mark.parametrize("coupled", [False, True])
def test_bounds_with_sparsity_against_a_convex_solver(beta, coupled):
    """The relaxation ||Z||_* + beta sum of row norms, with the data as one matrix where samples couple."""
    import cvxpy as cp

    X = make_samples((2, 4, 5), "gaussian", 5) if not coupled else make_samples((4, 5), "gaussian", 5)
    regularizer = SparseCodes(beta) if coupled else SparseAtoms(beta)

    def norm(Z):
        return cp.normNuc(Z) + beta * cp.sum(cp.norm(Z, 2, axis=1))

    expected = sum(best_objective(x, 0.4, norm=norm) for x in (X[None] if coupled else X))
    zero, decrease, known = lower_bound(Problem.of(X, 0.4, regularizer=regularizer))
    assert not known
    got = (zero - decrease).sum()
    assert expected * (1 - 1e-3) <= got <= expected * (1 + 1e-6)


@given(cases(1, 1), st.floats(0.1, 2.0), losses)
def test_coupled_bounds_stay_below_every_objective(case, beta, loss):
    problem = Problem.of(case.X, case.alpha, loss=loss, regularizer=SparseCodes(beta))
    point = dual_point(problem, whole(problem), max_iter=50)
    assert_feasible(problem, point)
    bound = dual_value(problem, point).sum()
    for scale in (0.0, 0.05, 0.5):
        factors = as_factors(problem, case.dictionaries, scale * case.codes)
        assert problem.objective(factors).sum() >= bound - 1e-9


def test_merging_keeps_the_better_of_two():
    q = np.arange(6.0).reshape(3, 2)
    first = DualPoint(q, np.array([1.0, 5.0, 2.0]), np.array([0.5, np.inf, 0.0]))
    second = DualPoint(-q, np.array([2.0, 3.0, 2.0]), np.array([np.inf, 0.25, 1.0]))
    best = merge(first, second, coupled=False)
    np.testing.assert_array_equal(best.decrease, [1.0, 3.0, 2.0])
    np.testing.assert_array_equal(best.q, [[0, 1], [-2, -3], [4, 5]])
    np.testing.assert_array_equal(best.slack, [0.5, 0.25, 0.0])
    together = merge(first, second, coupled=True)
    np.testing.assert_array_equal(together.q, -q)


def test_bounds_of_float32_data_are_computed_in_double():
    case = make_case((3, 4, 5), "gaussian", 6)
    single = case.X.astype(np.float32)
    one, two = (lower_bound(Problem.of(x, 0.7)) for x in (single, single.astype(np.float64)))
    np.testing.assert_array_equal(one[0] - one[1], two[0] - two[1])
