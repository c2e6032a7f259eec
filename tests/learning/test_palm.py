"""The paper's algorithm whole: descents that never rise, stops that mean what they say, symmetries."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as budget
from hypothesis import strategies as st
from scipy import sparse

from septum.certificate import certify_factors
from septum.datasets import make_separable
from septum.errors import InvalidInputError
from septum.factors import Factors
from septum.kronecker import atom_norms, correlate, multiply
from septum.learning import Settings, solve
from septum.learning.gradient import Point, samples_second
from septum.learning.palm import PalmOptions, correlated_point, learn, objective_on, reach_at_zero
from septum.learning.proximal import Stop, descend, sparse_codes
from septum.loss import Huber
from septum.problem import Problem
from septum.regularizer import L1Atoms, SparseAtoms, SparseCodes


def make_settings(**changed):
    plain = Settings(
        caps=(40, 40, 40), is_capped=False, tol=0.02, min_gain=1e-4, max_iter=200, max_time=None, init="spectral",
        start=None, rng=np.random.default_rng(0), n_jobs=1, verbose=0, callback=None,
    )  # fmt: skip
    return replace(plain, **changed)


def run(X, alpha, options=None, *, how=None, **changed):
    problem = Problem.of(X, alpha, **(how or {}))
    changed.setdefault("caps", (40,) * (X.ndim - 1))
    return problem, learn(problem, make_settings(**changed), options)


def low_rank_samples(n_modes=2, n_samples=30, noise=0.05, seed=0):
    """Sparse combinations of a few atoms in each mode, plus noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, *[2] * n_modes)) * (rng.random((n_samples, *[2] * n_modes)) < 0.5)
    for mode in range(n_modes):
        atoms = rng.standard_normal((mode + 4, 2))
        X = np.moveaxis(np.tensordot(X, atoms / np.linalg.norm(atoms, axis=0), axes=(mode + 1, 1)), -1, mode + 1)
    return 2.0 * X + noise * rng.standard_normal(X.shape)


def hides(X, seed=5):
    mask = np.random.default_rng(seed).random(X.shape) < 0.8
    mask.reshape(len(X), -1)[:, 0] = True
    return mask


def recomputed(problem, factors):
    return float(problem.objective(factors).sum())


@pytest.fixture(scope="module")
def synthetic():
    return make_separable(200, random_state=0).X


@pytest.fixture(scope="module")
def learned(synthetic):
    return run(synthetic, 0.9)


# --- descent at fixed sizes ---------------------------------------------------------------------


@pytest.mark.parametrize("n_modes", [1, 2, 3])
@pytest.mark.parametrize("kind", ["plain", "masked", "huber"])
@budget(max_examples=8)
@given(seed=st.integers(0, 2**16))
def test_no_iteration_of_a_descent_raises_f(n_modes, kind, seed):
    rng = np.random.default_rng(seed)
    X = low_rank_samples(n_modes, 8, seed=seed)
    how = {"plain": {}, "masked": {"mask": hides(X, seed)}, "huber": {"loss": Huber(0.3)}}[kind]
    problem = Problem.of(X, 0.5, **how)
    objective = objective_on(problem, np.arange(len(X)))
    atoms = [rng.standard_normal((d, 3)) for d in X.shape[1:]]
    codes = rng.standard_normal((len(X), *[3] * n_modes))
    start = Point([A / np.linalg.norm(A, axis=0) for A in atoms], samples_second(codes))
    end, trace = descend(objective, start, Stop(0.0, 60, code_steps=2))
    assert (np.diff(trace) <= 0).all()
    assert trace[-1] < trace[0]
    for A in end.dictionaries:
        assert (np.linalg.norm(A, axis=0) <= 1 + 1e-12).all()
    # The trace is f - f(0) with every atom counted as one of unit norm, and normalising can only lower it.
    zero = float(problem.zero_objective().sum())
    unit = objective.normalized(end)
    f = recomputed(problem, Factors(unit.dictionaries, sparse_codes(unit)))
    np.testing.assert_allclose(recomputed(problem, Factors(end.dictionaries, sparse_codes(end))), f, rtol=1e-10)
    assert f <= (trace[-1] + zero) * (1 + 1e-10)


def test_a_long_descent_reaches_a_critical_point():
    """The codes become stationary, and no block can be moved by its own proximal step."""
    X = low_rank_samples(2, 20)
    problem = Problem.of(X, 0.5)
    objective = objective_on(problem, np.arange(len(X)))
    rng = np.random.default_rng(1)
    atoms = [rng.standard_normal((d, 2)) for d in X.shape[1:]]
    codes = rng.standard_normal((len(X), 2, 2))
    start = Point([A / np.linalg.norm(A, axis=0) for A in atoms], samples_second(codes))
    end, _ = descend(objective, start, Stop(0.0, 5000))
    end = objective.normalized(end)
    certificate = certify_factors(problem, Factors(end.dictionaries, sparse_codes(end)))
    assert certificate.stationarity < 1e-5
    for mode, A in enumerate(end.dictionaries):
        block = objective.smooth.in_dictionary(end, mode)
        moved = problem.regularizer.project_atoms(A - block.gradient(A) / block.lipschitz, mode)
        np.testing.assert_allclose(moved, A, atol=1e-5)


def test_acceleration_needs_fewer_iterations_than_plain_steps(monkeypatch):
    X = low_rank_samples(2, 20, seed=3)
    problem = Problem.of(X, 0.3)
    objective = objective_on(problem, np.arange(len(X)))
    rng = np.random.default_rng(1)
    atoms = [rng.standard_normal((d, 3)) for d in X.shape[1:]]
    start = Point([A / np.linalg.norm(A, axis=0) for A in atoms], rng.standard_normal((3, len(X), 3)))
    _, fast = descend(objective, start, Stop(0.0, 100))
    monkeypatch.setattr("septum.learning.proximal.DAMPING", 0.0)
    _, plain = descend(objective, start, Stop(0.0, 100))
    assert fast[-1] < plain[-1]


# --- the whole algorithm ------------------------------------------------------------------------


def test_it_reaches_the_tolerance_with_few_atoms(learned):
    problem, result = learned
    certificate = certify_factors(problem, result.factors)
    assert certificate.attainment >= 0.98
    assert result.stopped_because.startswith("attainment reached")
    # The explicit optimum needs r~ atoms a side; the paper's own run 7 + 12 on six times the samples.
    assert sum(result.factors.sizes) < 40


def test_the_history_never_rises_and_agrees_with_the_certificate(learned):
    problem, result = learned
    history = result.history
    lengths = {len(history[name]) for name in history}
    assert lengths == {result.n_iter}
    previous = np.inf
    for outer, inner in zip(history["objective"], history["inner_objective"], strict=True):
        # The first entry is f after growth: every growth descends, every iteration after it too.
        assert inner[0] < previous
        assert (np.diff(inner) <= 1e-12 * inner[0]).all()
        assert inner[-1] == pytest.approx(outer, rel=1e-12)
        previous = outer
    certificate = certify_factors(problem, result.factors)
    assert history["objective"][-1] == pytest.approx(recomputed(problem, result.factors), rel=1e-12)
    assert history["objective"][-1] == pytest.approx(certificate.objective, rel=1e-12)
    assert history["attainment"][-1] == pytest.approx(certificate.attainment, abs=1e-9)
    assert history["polar"][-1] == pytest.approx(certificate.polar.upper, rel=1e-9)
    assert history["lower_bound"][-1] == pytest.approx(certificate.lower_bound, rel=1e-9)
    assert tuple(history["atoms"][-1]) == result.factors.sizes


def test_what_it_returns_is_in_order(learned):
    problem, result = learned
    for norms, use in zip(atom_norms(result.factors.dictionaries), result.factors.usage(), strict=True):
        np.testing.assert_allclose(norms, 1.0, rtol=1e-12)
        assert (use > 0).all()
        assert (np.diff(use) <= 0).all()
    idle = np.flatnonzero(reach_at_zero(problem) <= 1.0)
    assert idle.size > 0
    assert result.factors.codes[idle].nnz == 0


@pytest.mark.parametrize("n_modes", [1, 2, 3])
@pytest.mark.parametrize("kind", ["plain", "masked", "huber", "float32"])
def test_every_loss_and_number_of_modes(n_modes, kind):
    X = low_rank_samples(n_modes, 12)
    how = {}
    if kind == "masked":
        mask = hides(X)
        X, how = np.where(mask, X, np.nan), {"mask": mask}
    elif kind == "huber":
        how = {"loss": Huber(0.8)}
    elif kind == "float32":
        X = X.astype(np.float32)
    kept = X.copy()
    problem, result = run(X, 0.8, how=how, max_iter=8, tol=0.1)
    np.testing.assert_array_equal(X, kept)
    certificate = certify_factors(problem, result.factors)
    assert certificate.attainment > 0.3
    assert result.factors.codes.dtype == X.dtype
    assert {A.dtype for A in result.factors.dictionaries} == {X.dtype}
    rounding = 1e-12 if X.dtype == np.float64 else 1e-6
    assert result.history["attainment"][-1] == pytest.approx(certificate.attainment, abs=1e-4)
    steps = zip(result.history["objective"][:-1], result.history["inner_objective"][1:], strict=True)
    for before, inner in steps:
        assert inner[0] <= before * (1 + rounding)
        assert (np.diff(inner) <= rounding * before).all()


@pytest.mark.parametrize(
    ("n_modes", "regularizer"), [(1, SparseCodes(0.3)), (2, L1Atoms(0)), (2, SparseAtoms(0.3, mode=1))]
)
def test_other_regularisers(n_modes, regularizer):
    X = low_rank_samples(n_modes, 12)
    problem, result = run(X, 0.8, how={"regularizer": regularizer}, max_iter=8)
    objective = result.history["objective"]
    assert (np.diff(objective) <= 1e-12 * objective[0]).all()
    assert recomputed(problem, result.factors) == pytest.approx(objective[-1], rel=1e-10)
    assert certify_factors(problem, result.factors).attainment > 0.5


# --- stops --------------------------------------------------------------------------------------


def test_the_polar_stops_it_at_the_optimum():
    """Noiseless rank-one samples on one pair of atoms: both rules hold, and the certificate says optimal."""
    u, v = np.array([0.6, 0.8]), np.array([1.0, 2.0, 2.0]) / 3
    X = np.array([3.0, -2.0, 1.5])[:, None, None] * np.outer(u, v)
    options = PalmOptions(polar_tol=1e-7, inner_tol=1e-13)
    problem, result = run(X, 1.0, options, tol=0.0, min_gain=0.0)
    assert result.factors.sizes == (1, 1)
    assert certify_factors(problem, result.factors).verdict == "optimal"
    assert abs(result.factors.dictionaries[0][:, 0] @ u) == pytest.approx(1.0)


def test_a_loose_polar_tolerance_stops_before_the_attainment_does():
    X = low_rank_samples(2, 20)
    _, result = run(X, 1.0, PalmOptions(polar_tol=0.5), tol=0.0, min_gain=0.0)
    assert "polar" in result.stopped_because
    assert result.history["polar"][-1] <= 1.5


def test_caps_are_honoured(synthetic):
    _, result = run(synthetic, 0.9, caps=(2, 3), is_capped=True)
    assert (result.history["atoms"] <= [2, 3]).all()
    assert "caps" in result.stopped_because


def test_min_gain_stops_growth(synthetic):
    _, result = run(synthetic, 0.9, min_gain=10.0, tol=0.0)
    assert "min_gain" in result.stopped_because
    assert result.n_iter == 1 + PalmOptions().patience


def test_time_iterations_and_the_callback_stop_it(synthetic):
    _, result = run(synthetic, 0.9, max_iter=2)
    assert result.n_iter == 2
    _, result = run(synthetic, 0.9, max_time=1e-9)
    assert (result.n_iter, result.stopped_because) == (1, "max_time was reached")
    seen = []
    _, result = run(synthetic, 0.9, callback=lambda step: seen.append(step) or len(seen) == 3)
    assert result.n_iter == 3
    assert result.stopped_because == "the callback asked to stop"
    assert seen[-1].factors.sizes == seen[-1].atoms
    assert [step.iteration for step in seen] == [0, 1, 2]


@pytest.mark.parametrize("init", ["spectral", "random"])
@pytest.mark.parametrize("n_modes", [1, 2, 3])
def test_where_zero_is_optimal_it_says_so(n_modes, init):
    X = low_rank_samples(n_modes, 5)
    problem, result = run(X, 1e3, init=init)
    assert result.factors.sizes == (1,) * n_modes
    assert result.factors.codes.nnz == 0
    for norms in atom_norms(result.factors.dictionaries):
        np.testing.assert_allclose(norms, 1.0)
    assert "zero codes are optimal" in result.stopped_because
    certificate = certify_factors(problem, result.factors)
    assert certificate.verdict == "optimal"
    assert result.history["polar"][-1] == pytest.approx(certificate.polar.upper, rel=1e-9)


def test_data_that_is_all_zero():
    problem, result = run(np.zeros((3, 2, 4)), 1.0)
    assert result.factors.codes.shape == (3, 1)
    assert certify_factors(problem, result.factors).verdict == "optimal"


# --- starts -------------------------------------------------------------------------------------


def test_random_atoms_are_no_worse_in_the_end(synthetic):
    """From one random atom a side, or from the singular vectors where that falls to zero."""
    for seed in range(3):
        _, result = run(synthetic, 0.9, init="random", rng=np.random.default_rng(seed))
        assert result.history["attainment"][-1] >= 0.975


def test_given_dictionaries_are_used():
    bunch = make_separable(150, random_state=1)
    scaled = [3.0 * A for A in bunch.dictionaries]
    kept = [A.copy() for A in scaled]
    _, result = run(bunch.X, 0.9, start=scaled, max_iter=1)
    for A, before in zip(scaled, kept, strict=True):
        np.testing.assert_array_equal(A, before)
    for A, truth in zip(result.factors.dictionaries, bunch.dictionaries, strict=True):
        assert np.abs(A.T @ truth).max(axis=1).min() > 0.95
    _, unaided = run(bunch.X, 0.9, max_iter=1)
    assert result.history["attainment"][-1] > unaided.history["attainment"][-1]


@pytest.mark.parametrize("n_modes", [1, 2, 3])
def test_codes_that_start_as_correlations_are_one_plain_gradient_step(n_modes):
    X = low_rank_samples(n_modes)
    problem = Problem.of(X, 0.5)
    rng = np.random.default_rng(1)
    atoms = [rng.standard_normal((d, 3)) for d in X.shape[1:]]
    point = correlated_point(objective_on(problem, np.arange(len(X))), atoms)
    unit = [A / np.linalg.norm(A, axis=0) for A in atoms]
    for A, expected in zip(point.dictionaries, unit, strict=True):
        np.testing.assert_allclose(A, expected)
    step = np.prod([np.linalg.norm(A, 2) ** 2 for A in unit])
    plain = correlate(X, unit) / step
    np.testing.assert_allclose(sparse_codes(point).toarray(), plain.reshape(len(X), -1), atol=1e-12)
    assert ((X - multiply(plain, unit)) ** 2).sum() < (X**2).sum()


def test_correlations_let_given_dictionaries_turn_before_codes_are_zero():
    """Two atoms far from the data: with zero codes nothing moves, with correlations the descent finds them."""
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal(5), rng.standard_normal(6)
    X = 4.0 * np.multiply.outer(a / np.linalg.norm(a), b / np.linalg.norm(b))[None].repeat(6, axis=0)
    tilt = [0.2 * v[:, None] / np.linalg.norm(v) + np.linalg.svd(v[None])[2][1][:, None] for v in (a, b)]
    results = [
        run(X, 0.5, PalmOptions(start_codes=codes), start=tilt, caps=(1, 1), max_iter=1, tol=1e-9)[1].factors.codes.nnz
        for codes in ("zero", "correlations")
    ]
    assert results == [0, 6]


def test_a_given_zero_dictionary_falls_back_on_singular_vectors(synthetic):
    _, result = run(synthetic, 0.9, start=[np.zeros((10, 2)), np.zeros((100, 3))])
    assert result.history["attainment"][-1] >= 0.975


def test_useless_given_atoms_do_not_hold_the_places_that_the_caps_leave(synthetic):
    useless = [np.eye(10)[:, :1], np.eye(100)[:, :1]]
    _, given = run(synthetic, 0.9, start=useless, caps=(1, 1))
    _, plain = run(synthetic, 0.9, caps=(1, 1))
    assert given.history["objective"][-1] == pytest.approx(plain.history["objective"][-1], rel=1e-9)


# --- symmetries ---------------------------------------------------------------------------------


def test_it_is_deterministic(synthetic):
    for init in ("spectral", "random"):
        first, second = (
            run(synthetic, 0.9, init=init, rng=np.random.default_rng(7), max_iter=6)[1] for _ in range(2)
        )
        for A, B in zip(first.factors.dictionaries, second.factors.dictionaries, strict=True):
            np.testing.assert_array_equal(A, B)
        assert (first.factors.codes != second.factors.codes).nnz == 0
        np.testing.assert_array_equal(first.history["objective"], second.history["objective"])


@pytest.mark.parametrize("scale", [2.0**-20, 8.0, 1e6])
def test_data_and_alpha_scaled_together_give_scaled_codes(synthetic, scale):
    _, plain = run(synthetic, 0.9, max_iter=6)
    _, scaled = run(scale * synthetic, scale * 0.9, max_iter=6)
    assert scaled.factors.sizes == plain.factors.sizes
    np.testing.assert_allclose(scaled.history["objective"], scale**2 * plain.history["objective"], rtol=1e-9)
    for A, B in zip(plain.factors.dictionaries, scaled.factors.dictionaries, strict=True):
        np.testing.assert_allclose(A, B, atol=1e-6)


def test_the_order_of_the_samples_does_not_matter(synthetic):
    order = np.random.default_rng(0).permutation(len(synthetic))
    _, plain = run(synthetic, 0.9, max_iter=6)
    _, moved = run(synthetic[order], 0.9, max_iter=6)
    np.testing.assert_allclose(moved.history["objective"], plain.history["objective"], rtol=1e-9)
    np.testing.assert_allclose(
        moved.factors.codes.toarray(), plain.factors.codes.toarray()[order], atol=1e-6
    )


def test_samples_that_need_no_codes_change_nothing(synthetic):
    active = np.flatnonzero(reach_at_zero(Problem.of(synthetic, 0.9)) > 1.0)
    _, whole = run(synthetic, 0.9, max_iter=6)
    _, part = run(synthetic[active], 0.9, max_iter=6)
    for A, B in zip(whole.factors.dictionaries, part.factors.dictionaries, strict=True):
        np.testing.assert_allclose(A, B, atol=1e-9)
    np.testing.assert_allclose(whole.factors.codes[active].toarray(), part.factors.codes.toarray(), atol=1e-9)


# --- experiments --------------------------------------------------------------------------------


def rises(result):
    """Growth steps after which f was higher than before."""
    history = result.history
    starts = [inner[0] for inner in history["inner_objective"][1:]]
    return int(np.sum(np.array(starts) > history["objective"][:-1] * (1 + 1e-12)))


def test_growth_as_printed_raises_f_and_the_exact_test_never_does(synthetic):
    results = {}
    for growth in ("exact", "printed_true_cost", "printed"):
        options = PalmOptions(growth=growth, patience=1000)
        results[growth] = run(synthetic[:100], 0.75, options, max_iter=15, min_gain=0.0)[1]
    assert rises(results["printed"]) > 0
    assert rises(results["printed_true_cost"]) == rises(results["exact"]) == 0
    assert results["exact"].history["attainment"][-1] > results["printed"].history["attainment"][-1]


def test_a_preference_shifts_the_sizes():
    X = low_rank_samples(2, 40, seed=2)
    ratio = {}
    for preference in ((1, 4), (4, 1)):
        _, result = run(X, 0.4, PalmOptions(preference=preference))
        ratio[preference] = result.factors.sizes[1] / result.factors.sizes[0]
    assert ratio[(1, 4)] > ratio[(4, 1)]


def test_the_factors_hold_a_row_for_every_sample(learned):
    problem, result = learned
    assert isinstance(result.factors.codes, sparse.csr_array)
    assert result.factors.codes.shape == (problem.n_samples, np.prod(result.factors.sizes))


def test_names_are_checked(synthetic):
    problem = Problem.of(synthetic[:3], 0.9)
    with pytest.raises(InvalidInputError, match="solver"):
        solve(problem, "newton", make_settings())
    with pytest.raises(InvalidInputError, match="growth"):
        PalmOptions(growth="wild")
    by_name = solve(problem, "palm", make_settings(caps=(40, 40), max_iter=3))
    direct = learn(problem, make_settings(caps=(40, 40), max_iter=3))
    np.testing.assert_array_equal(by_name.history["objective"], direct.history["objective"])
