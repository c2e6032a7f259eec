"""The default solver: what it promises, recomputed from what it returns."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from septum.bound import lower_bound
from septum.certificate import certify_factors
from septum.datasets import make_separable
from septum.factors import Factors
from septum.kronecker import atom_norms, multiply
from septum.learning import fast, solve
from septum.learning.descent import descend, step_mode
from septum.learning.growth import propose, rows_of_mode
from septum.learning.history import Settings
from septum.learning.pruning import cheapest_removals, drop_unused, price
from septum.learning.seeding import rank_one_terms
from septum.learning.working import Working, active_samples
from septum.loss import Huber, Squared
from septum.problem import Problem
from septum.spectral import largest_singular_values


def settings(**changed):
    plain = Settings(
        caps=(40, 400), is_capped=False, tol=0.02, min_gain=1e-4, max_iter=200, max_time=None, init="spectral",
        start=None, rng=np.random.default_rng(0), n_jobs=1, verbose=0, callback=None,
    )  # fmt: skip
    return replace(plain, **changed)


@pytest.fixture(scope="module")
def synthetic():
    return make_separable(250, random_state=0).X


def tensor_samples(dims=(4, 5, 6), ranks=(2, 3, 3), n_samples=40, seed=0):
    rng = np.random.default_rng(seed)
    atoms = [rng.standard_normal((d, r)) for d, r in zip(dims, ranks, strict=True)]
    atoms = [A / np.linalg.norm(A, axis=0) for A in atoms]
    codes = 3.0 * rng.standard_normal((n_samples, *ranks)) * (rng.random((n_samples, *ranks)) < 0.15)
    return multiply(codes, atoms) + 0.05 * rng.standard_normal((n_samples, *dims))


def vector_samples():
    return tensor_samples((8,), (5,), 60)


def working_of(problem, dictionaries):
    active = active_samples(problem)
    _, decrease, _ = lower_bound(problem)
    samples = problem.samples
    working = Working(
        X=samples.data[active].astype(float),
        mask=None if samples.mask is None else samples.mask[active],
        loss=problem.loss,
        alpha=problem.alpha,
        decrease=decrease[active],
        code_tol=1e-8,
        n_jobs=1,
        dictionaries=[],
        codes=sparse.csr_array((active.size, 0)),
        value=np.zeros(active.size),
    )
    width = int(np.prod([A.shape[1] for A in dictionaries]))
    working.set_factors(dictionaries, sparse.csr_array((active.size, width)))
    working.solve_codes()
    return working


def unit(rng, d, r):
    A = rng.standard_normal((d, r))
    return A / np.linalg.norm(A, axis=0)


# --- the whole ----------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.75, 0.9])
def test_reaches_its_goal_with_far_fewer_atoms_than_the_explicit_optimum(synthetic, alpha):
    problem = Problem.of(synthetic, alpha)
    learned = fast.learn(problem, settings())
    certificate = certify_factors(problem, learned.factors)
    assert certificate.attainment >= 0.98
    assert sum(learned.factors.sizes) < 0.25 * np.count_nonzero(np.linalg.svd(synthetic, compute_uv=False) > alpha)
    assert certificate.stationarity < 1e-3
    for norms in atom_norms(learned.factors.dictionaries):
        np.testing.assert_allclose(norms, 1.0, atol=1e-12)


CASES = {
    "matrices": (lambda: make_separable(80, random_state=1).X, 0.8, {}),
    "vectors": (vector_samples, 0.3, {}),
    "tensors": (tensor_samples, 0.5, {}),
    "masked": (lambda: make_separable(30, random_state=2).X, 0.7, {"mask": 0.2}),
    "huber": (lambda: make_separable(30, random_state=3).X, 0.5, {"loss": Huber(0.05)}),
    "huber masked tensors": (lambda: tensor_samples(n_samples=15), 0.5, {"loss": Huber(0.5), "mask": 0.2}),
}


@pytest.mark.parametrize("name", list(CASES))
def test_history_falls_and_ends_at_what_is_returned(name):
    make, alpha, options = CASES[name]
    X = make()
    options = dict(options)
    if "mask" in options:
        options["mask"] = np.random.default_rng(0).random(X.shape) >= options["mask"]
    problem = Problem.of(X, alpha, **options)
    caps = tuple(min(4 * d, 12) for d in X.shape[1:])
    learned = fast.learn(problem, settings(caps=caps, tol=0.1))
    objective = learned.history["objective"]
    scale = problem.zero_objective().sum()
    assert (np.diff(objective) <= 1e-12 * scale).all()
    for inner in learned.history["inner_objective"]:
        assert (np.diff(inner) <= 1e-12 * scale).all()
    assert problem.objective(learned.factors).sum() == pytest.approx(objective[-1], rel=1e-10)
    assert certify_factors(problem, learned.factors).attainment > 0.5
    lengths = {len(learned.history[key]) for key in learned.history}
    assert lengths == {learned.n_iter}


def test_screened_samples_have_no_codes_and_need_none(synthetic):
    problem = Problem.of(synthetic, 0.9)
    active = active_samples(problem)
    np.testing.assert_array_equal(active, np.flatnonzero(largest_singular_values(synthetic) > 0.9))
    codes = fast.learn(problem, settings()).factors.codes
    screened = np.setdiff1d(np.arange(len(synthetic)), active)
    assert codes[screened].nnz == 0
    assert screened.size > 0


def test_same_answer_every_time_and_for_any_number_of_threads(synthetic):
    problem = Problem.of(synthetic, 0.85)
    first = fast.learn(problem, settings())
    for other in (settings(), settings(n_jobs=2)):
        again = fast.learn(problem, other)
        for A, B in zip(first.factors.dictionaries, again.factors.dictionaries, strict=True):
            np.testing.assert_array_equal(A, B)
        np.testing.assert_array_equal(first.factors.codes.toarray(), again.factors.codes.toarray())


def test_scaling_data_and_alpha_scales_the_codes_only(synthetic):
    plain = fast.learn(Problem.of(synthetic, 0.9), settings()).factors
    scaled = fast.learn(Problem.of(4.0 * synthetic, 3.6), settings()).factors
    assert plain.sizes == scaled.sizes
    for A, B in zip(plain.dictionaries, scaled.dictionaries, strict=True):
        np.testing.assert_allclose(A, B, atol=1e-8)
    np.testing.assert_allclose(4.0 * plain.codes.toarray(), scaled.codes.toarray(), atol=1e-7)


def test_signs_and_order_of_samples_do_not_matter(synthetic):
    rng = np.random.default_rng(0)
    order, sign = rng.permutation(len(synthetic)), rng.choice([-1.0, 1.0], len(synthetic))
    shuffled = synthetic[order] * sign[:, None, None]
    first = fast.learn(Problem.of(synthetic, 0.9), settings())
    second = fast.learn(Problem.of(shuffled, 0.9), settings())
    assert second.history["attainment"][-1] == pytest.approx(first.history["attainment"][-1], abs=0.01)
    assert abs(sum(first.factors.sizes) - sum(second.factors.sizes)) <= 2


@pytest.mark.parametrize("caps", [(1, 1), (2, 5), (3, 4)])
def test_caps_are_honoured(synthetic, caps):
    learned = fast.learn(Problem.of(synthetic, 0.8), settings(caps=caps, is_capped=True))
    assert all(r <= cap for r, cap in zip(learned.factors.sizes, caps, strict=True))
    assert "cap" in learned.stopped_because


def test_larger_caps_do_no_worse(synthetic):
    problem = Problem.of(synthetic, 0.75)
    reached = [
        fast.learn(problem, settings(caps=caps, is_capped=True)).history["attainment"][-1]
        for caps in [(1, 2), (3, 6), (8, 20)]
    ]
    assert reached[0] < reached[1] < reached[2]


def test_alpha_above_every_singular_value_gives_the_zero_answer(synthetic):
    problem = Problem.of(synthetic, 1.001 * largest_singular_values(synthetic).max())
    learned = fast.learn(problem, settings())
    assert learned.factors.codes.nnz == 0
    assert "zero codes are optimal" in learned.stopped_because
    certificate = certify_factors(problem, learned.factors)
    assert certificate.verdict == "optimal"
    assert certificate.attainment == 1.0


def test_callback_time_and_iterations_stop_the_fit(synthetic):
    problem = Problem.of(synthetic, 0.75)
    seen = []
    stopped = fast.learn(problem, settings(callback=lambda step: seen.append(step.atoms) or len(seen) == 2))
    assert "callback" in stopped.stopped_because
    assert len(seen) <= 3
    assert "max_iter" in fast.learn(problem, settings(max_iter=1)).stopped_because
    assert "max_time" in fast.learn(problem, settings(max_time=0.0)).stopped_because
    assert "added less" in fast.learn(problem, settings(min_gain=0.5)).stopped_because


@pytest.mark.parametrize("init", ["random", "given"])
def test_other_starts_reach_the_goal_too(synthetic, init):
    rng = np.random.default_rng(1)
    start = [unit(rng, 10, 2), unit(rng, 100, 3)] if init == "given" else None
    problem = Problem.of(synthetic, 0.9)
    learned = fast.learn(problem, settings(init="random", start=start))
    assert certify_factors(problem, learned.factors).attainment >= 0.98


def test_noise_free_product_is_recovered():
    rng = np.random.default_rng(0)
    A, B = unit(rng, 6, 2), unit(rng, 7, 2)
    codes = np.zeros((20, 2, 2))
    codes[np.arange(20), rng.integers(0, 2, 20), rng.integers(0, 2, 20)] = rng.uniform(2.0, 3.0, 20)
    learned = fast.learn(Problem.of(multiply(codes, [A, B]), 0.5), settings(tol=1e-6))
    assert learned.factors.sizes == (2, 2)
    for true, found in zip((A, B), learned.factors.dictionaries, strict=True):
        np.testing.assert_allclose(np.abs(true.T @ found).max(axis=1), 1.0, atol=1e-6)


def test_other_regularisers_are_handed_to_palm(synthetic):
    from septum.regularizer import SparseAtoms

    problem = Problem.of(synthetic[:10], 0.8, regularizer=SparseAtoms(mode=0, beta=0.1))
    learned = solve(problem, "fast", settings(max_iter=2))
    assert problem.objective(learned.factors).sum() <= problem.zero_objective().sum()


# --- its parts ----------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [Squared(), Huber(0.05)])
@pytest.mark.parametrize("hidden", [0.0, 0.3])
def test_every_mode_step_and_every_round_lower_the_objective(loss, hidden):
    X = make_separable(40, random_state=5).X
    mask = np.random.default_rng(0).random(X.shape) >= hidden
    problem = Problem.of(X, 0.3, loss=loss, mask=mask)
    rng = np.random.default_rng(1)
    working = working_of(problem, [np.abs(unit(rng, 10, 3)), np.abs(unit(rng, 100, 4))])
    assert working.codes.nnz > 0
    for mode in (0, 1, 0, 1):
        before = working.gain
        step_mode(working, mode)
        working.set_factors(working.dictionaries, working.codes)
        assert working.gain >= before - 1e-10
    trace = descend(working, tol=0.0, max_rounds=4)
    assert (np.diff(trace) >= -1e-10).all()


def test_gain_is_kept_in_step_with_the_factors(synthetic):
    problem = Problem.of(synthetic, 0.8)
    working = working_of(problem, [unit(np.random.default_rng(0), 10, 3), np.abs(unit(np.random.default_rng(0), 100, 4))])
    active = Problem.of(working.X, 0.8)
    f = active.objective(Factors(working.dictionaries, working.codes))
    np.testing.assert_allclose(active.zero_objective() - f, working.value, atol=1e-10)


def test_rows_without_codes_are_the_exact_one_sided_test():
    """Before any code is set, a row (t, i) exists exactly where ||a_i^T R_t|| > alpha."""
    X = make_separable(30, random_state=0).X
    problem = Problem.of(X, 0.7)
    rng = np.random.default_rng(0)
    working = working_of(problem, [np.abs(unit(rng, 10, 3)), unit(rng, 100, 2)])
    working.set_factors(working.dictionaries, sparse.csr_array(working.codes.shape))
    cover = rows_of_mode(working, working.X, 1)
    rows = np.einsum("gi,tgv->tiv", working.dictionaries[0], working.X).reshape(-1, 100)
    strong = rows[np.linalg.norm(rows, axis=1) > 0.7]
    assert len(cover) == len(strong) > 0
    np.testing.assert_allclose(cover.rows, strong, atol=1e-12)


def test_growth_descends_and_honours_its_room(synthetic):
    problem = Problem.of(synthetic, 0.75)
    rng = np.random.default_rng(0)
    working = working_of(problem, [np.abs(unit(rng, 10, 1)), np.abs(unit(rng, 100, 1))])
    for _ in range(3):
        proposal = propose(working, count=3, needed=np.inf, room=[1, 2])
        assert [A.shape[1] for A in proposal.atoms] <= [1, 2]
        assert 0 < proposal.count <= 3
        before = working.gain
        working = working.extended(proposal.atoms)
        working.solve_codes()
        assert working.gain > before
    assert propose(working, count=3, needed=np.inf, room=[0, 0]).count == 0


def test_price_of_an_atom_is_what_coding_without_it_loses(synthetic):
    problem = Problem.of(synthetic, 0.75)
    factors = fast.learn(problem, settings(tol=0.1)).factors
    working = working_of(problem, list(factors.dictionaries))
    for mode in range(2):
        without = [np.delete(A, 0, axis=1) if k == mode else A for k, A in enumerate(working.dictionaries)]
        expected = working.gain - working_of(problem, without).gain
        assert price(working, mode, 0) == pytest.approx(expected, abs=1e-6)
    cheapest = cheapest_removals(working, candidates=100)
    assert cheapest[0].loss == min(removal.loss for removal in cheapest)


def test_a_duplicate_costs_nothing_to_remove_and_unused_atoms_go(synthetic):
    problem = Problem.of(synthetic, 0.8)
    factors = fast.learn(problem, settings(tol=0.1)).factors
    doubled = [np.concatenate([A, A[:, :1]], axis=1) for A in factors.dictionaries]
    working = working_of(problem, doubled)
    assert price(working, 0, doubled[0].shape[1] - 1) == pytest.approx(0.0, abs=1e-6)
    smaller = drop_unused(working)
    assert smaller.gain == pytest.approx(working.gain, abs=1e-12)
    assert all((Factors(smaller.dictionaries, smaller.codes).usage()[k] > 0).all() for k in range(2))


def test_deflated_terms_of_a_rank_one_tensor_are_its_factors():
    rng = np.random.default_rng(0)
    a, b, c = (unit(rng, d, 1)[:, 0] for d in (3, 4, 5))
    terms = rank_one_terms(2.0 * np.einsum("i,j,k->ijk", a, b, c)[None], 0.5)
    assert terms.value == pytest.approx([2.0])
    for vector, found in zip((a, b, c), terms.vectors, strict=True):
        assert abs(vector @ found[:, 0]) == pytest.approx(1.0)
