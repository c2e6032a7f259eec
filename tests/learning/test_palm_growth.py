"""The check and growth of section 5.2: exact tests against brute force, descents, and the rule as printed."""

from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from septum.errors import InvalidInputError
from septum.factors import Factors
from septum.kronecker import correlate, multiply
from septum.learning.gradient import Point, samples_first, samples_second
from septum.learning.growth_palm import (
    Schedule,
    all_sided,
    appended,
    best_codes,
    check,
    empty_point,
    farthest,
    grow,
    matched,
    one_sided,
    pruned,
)
from septum.learning.growth_printed import grow_as_printed, grow_at_true_cost, printed_tests
from septum.learning.palm import objective_on
from septum.learning.proximal import sparse_codes
from septum.loss import Huber
from septum.problem import Problem
from septum.regularizer import L1Atoms, Separable, SparseAtoms

ALPHA = 0.7
SHAPES = [(6, 5), (6, 4, 5), (5, 3, 4, 3)]


def unit(A):
    return A / np.linalg.norm(A, axis=0)


def make(case=1, seed=0, *, sizes=2, **how):
    """A problem, its objective on all samples, and a point with unit atoms and a few codes."""
    rng = np.random.default_rng(seed)
    shape = SHAPES[case]
    problem = Problem.of(rng.standard_normal(shape), ALPHA, **how)
    dictionaries = [unit(rng.standard_normal((d, sizes))) for d in shape[1:]]
    codes = rng.standard_normal((shape[0], *[sizes] * len(shape[1:])))
    point = Point(dictionaries, samples_second(0.3 * codes * (rng.random(codes.shape) < 0.4)))
    return problem, objective_on(problem, np.arange(shape[0])), point


def true_objective(problem, point):
    return float(problem.objective(Factors(point.dictionaries, sparse_codes(point))).sum())


def no_caps(n_modes, **how):
    return Schedule((1000,) * n_modes, **how)


def hides(shape, seed=5):
    mask = np.random.default_rng(seed).random(shape) < 0.75
    mask.reshape(shape[0], -1)[:, 0] = True
    return mask


# --- the exact one-sided test -------------------------------------------------------------------


@given(seed=st.integers(0, 2**16))
def test_two_modes_have_the_row_norms_of_theory(seed):
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((4, 3, 5))
    A, B = unit(rng.standard_normal((3, 2))), unit(rng.standard_normal((5, 4)))
    right = one_sided(W, [A, B], 1, Separable())
    left = one_sided(W, [A, B], 0, Separable())
    assert right.value[0] == pytest.approx(max(np.linalg.norm(A.T @ w, axis=1).max() for w in W))
    assert left.value[0] == pytest.approx(max(np.linalg.norm(w @ B, axis=0).max() for w in W))
    for candidate in (left, right):
        reached = np.abs(matched(W, candidate.atoms)).max()
        assert reached == pytest.approx(candidate.value[0])


@pytest.mark.parametrize("regularizer", [Separable(), L1Atoms(0), SparseAtoms(0.4, mode=1)])
@given(seed=st.integers(0, 2**16))
def test_no_new_atom_beside_existing_ones_exceeds_the_test_value(regularizer, seed):
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((3, 3, 4))
    dictionaries = [rng.standard_normal((d, 2)) for d in (3, 4)]
    norms = regularizer.atom_weights(dictionaries)
    dictionaries = [A / w for A, w in zip(dictionaries, norms, strict=True)]
    for mode in (0, 1):
        found = one_sided(W, dictionaries, mode, regularizer)
        trials = regularizer.project_atoms(3.0 * rng.standard_normal((W.shape[mode + 1], 200)), mode)
        tried = [A if k != mode else trials for k, A in enumerate(dictionaries)]
        assert np.abs(correlate(W, tried)).max() <= found.value[0] * (1 + 1e-6)
        np.testing.assert_allclose(np.abs(matched(W, found.atoms)).max(), found.value[0], rtol=1e-9)


@given(seed=st.integers(0, 2**16))
def test_three_modes_by_brute_force(seed):
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((3, 3, 4, 2))
    dictionaries = [unit(rng.standard_normal((d, 2))) for d in W.shape[1:]]
    for mode in range(3):
        kept = [A if k != mode else np.eye(A.shape[0]) for k, A in enumerate(dictionaries)]
        plain = np.linalg.norm(correlate(W, kept), axis=mode + 1).max()
        assert one_sided(W, dictionaries, mode, Separable()).value[0] == pytest.approx(plain)


@pytest.mark.parametrize("regularizer", [Separable(), L1Atoms(0), SparseAtoms(0.4, mode=0)])
def test_the_farthest_atom_has_norm_one_and_attains_the_dual_norm(regularizer):
    rng = np.random.default_rng(0)
    y = rng.standard_normal((4, 50))
    atoms = farthest(y, 0, regularizer)
    if regularizer.name == "separable":
        np.testing.assert_allclose(np.sum(atoms * y, axis=0), np.linalg.norm(y, axis=0), rtol=1e-12)
    if isinstance(regularizer, L1Atoms):
        np.testing.assert_allclose(np.sum(atoms * y, axis=0), np.abs(y).max(axis=0), rtol=1e-5)
    weights = regularizer.atom_weights([atoms, np.ones((1, 1))])[0]
    np.testing.assert_allclose(weights, 1.0, rtol=1e-6)
    np.testing.assert_array_equal(farthest(np.zeros((4, 2)), 0, regularizer), 0.0)


def test_at_most_one_means_that_no_code_column_on_a_new_atom_descends():
    """The other half of exactness: with v <= 1 every new atom with every column of codes raises f."""
    problem, objective, point = make(1, 3)
    rng = np.random.default_rng(0)
    residual = check(objective, point).residual
    A = point.dictionaries[0]
    level = one_sided(residual, point.dictionaries, 1, problem.regularizer).value[0]
    for trial in range(200):
        column, psi = rng.standard_normal(A.shape[1]), unit(rng.standard_normal((residual.shape[2], 1)))[:, 0]
        if trial % 2:
            column = np.eye(A.shape[1])[trial % A.shape[1]]
        for tau in (1e-3, 0.1, 1.0):
            for R in residual:
                E = tau * np.outer(A @ column, psi)
                change = 0.5 * np.sum((R - E) ** 2) - 0.5 * np.sum(R**2) + level * tau * np.abs(column).sum()
                assert change > 0


# --- steps --------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", range(3))
@pytest.mark.parametrize("kind", ["plain", "masked", "huber", "huber masked"])
@given(seed=st.integers(0, 2**16))
def test_growth_lowers_the_true_objective_by_as_much_as_promised(case, kind, seed):
    how = {"loss": Huber(0.8)} if "huber" in kind else {}
    if "masked" in kind:
        how["mask"] = hides(SHAPES[case])
    problem, objective, point = make(case, seed, **how)
    found = check(objective, point)
    grown = grow(objective, point, found, no_caps(problem.samples.data.ndim - 1))
    if found.lower <= 1.0:
        return
    assert grown is not None
    assert sum(grown.sizes) > sum(point.sizes)
    gain = true_objective(problem, point) - true_objective(problem, grown)
    taken = [k for k in range(len(grown.sizes)) if grown.sizes[k] > point.sizes[k]]
    value = found.lower
    if len(taken) == 1 and len(grown.sizes) > 1:
        W = found.residual / ALPHA
        value = one_sided(W, point.dictionaries, taken[0], problem.regularizer).value[0]
        assert value > 1.0
    assert gain >= 0.5 * ALPHA**2 * (value - 1) ** 2 * (1 - 1e-9)


def test_the_promised_gain_is_the_true_one_for_the_square():
    """A new joint atom's best codes are a soft threshold; the bound of the gain is then the gain."""
    problem, objective, point = make(1, 0)
    found = check(objective, point)
    candidate = all_sided(found.residual / ALPHA, problem.regularizer, found.lower_by_sample)
    codes, gain = best_codes(objective, found.residual, candidate)
    u, v = (a[:, 0] for a in candidate.atoms)
    correlation = np.array([u @ R @ v for R in found.residual])
    np.testing.assert_allclose(codes[:, 0], np.sign(correlation) * np.maximum(np.abs(correlation) - ALPHA, 0))
    grown = appended(point, candidate, codes[:, 0])
    np.testing.assert_allclose(true_objective(problem, point) - true_objective(problem, grown), gain[0], rtol=1e-9)


def test_appended_atoms_change_the_reconstruction_by_their_codes_alone():
    problem, objective, point = make(2, 1)
    found = check(objective, point)
    candidate = one_sided(found.residual / ALPHA, point.dictionaries, 1, problem.regularizer)
    codes = np.arange(1.0, 1.0 + problem.n_samples)
    grown = appended(point, candidate, codes)
    joint = reduce(np.multiply.outer, [a[:, 0] for a in candidate.atoms])
    change = multiply(samples_first(grown.codes), grown.dictionaries) - multiply(
        samples_first(point.codes), point.dictionaries
    )
    np.testing.assert_allclose(change, np.multiply.outer(codes, joint), atol=1e-12)
    assert grown.sizes == (2, 3, 2)


def test_from_nothing_it_takes_the_worst_singular_pair():
    problem, objective, _ = make(1, 0)
    empty = empty_point(objective, problem.shape)
    grown = grow(objective, empty, check(objective, empty), no_caps(2, candidates=1))
    singular = [np.linalg.svd(x) for x in problem.samples.data]
    worst = int(np.argmax([s[1][0] for s in singular]))
    u, _, vt = singular[worst]
    assert grown.sizes == (1, 1)
    assert abs(grown.dictionaries[0][:, 0] @ u[:, 0]) == pytest.approx(1.0)
    assert abs(grown.dictionaries[1][:, 0] @ vt[0]) == pytest.approx(1.0)


@pytest.mark.parametrize("case", [1, 2])
def test_caps_hold_and_other_modes_go_on(case):
    problem, objective, point = make(case, 0)
    n_modes = len(problem.shape)
    for mode in range(n_modes):
        caps = tuple(2 if k == mode else 1000 for k in range(n_modes))
        grown = grow(objective, point, check(objective, point), Schedule(caps))
        assert grown is not None
        assert grown.sizes[mode] == 2
    assert grow(objective, point, check(objective, point), Schedule((2,) * n_modes)) is None


def test_the_schedule_follows_the_gain_the_preference_and_the_share():
    values, gains = {0: 1.5, 1: 1.2}, {0: 0.3, 1: 0.6}
    assert no_caps(2).order(values, gains, (3, 3), polar=2.0) == [1, 0]
    assert no_caps(2, preference=(1, 3)).order(values, gains, (1, 2), polar=2.0) == [1, 0]
    assert no_caps(2, preference=(1, 3)).order(values, gains, (1, 4), polar=2.0) == [0, 1]
    assert no_caps(2, margin=0.3).order(values, gains, (3, 3), polar=2.0) == [0]
    assert no_caps(2, share=0.16).order(values, gains, (3, 3), polar=2.0) == [0]
    assert no_caps(2).order({0: 0.9, 1: 1.0}, gains, (3, 3), polar=2.0) == []


@pytest.mark.parametrize("preference", [(1,), (1, 0), (1, np.nan), (1, -2)])
def test_a_preference_that_makes_no_sense_is_refused(preference):
    with pytest.raises(InvalidInputError, match="preference"):
        no_caps(2, preference=preference)


@given(seed=st.integers(0, 2**16))
def test_pruning_leaves_the_reconstruction(seed):
    _, _, point = make(2, seed, sizes=3)
    codes = point.codes.copy()
    codes[seed % 3] = 0.0
    codes[..., (seed + 1) % 3] = 0.0
    before = Point(point.dictionaries, codes)
    after = pruned(before)
    np.testing.assert_allclose(
        multiply(samples_first(after.codes), after.dictionaries),
        multiply(samples_first(codes), point.dictionaries),
        atol=1e-12,
    )
    for k, size in enumerate(after.sizes):
        for i in range(size):
            assert np.take(samples_first(after.codes), i, axis=k + 1).any()


# --- as printed ---------------------------------------------------------------------------------


def residual_case(W, A, B):
    """A problem whose residual at zero codes on atoms A, B is ALPHA W."""
    problem = Problem.of(ALPHA * W[None], ALPHA)
    objective = objective_on(problem, np.arange(1))
    return problem, objective, Point([A, B], np.zeros((A.shape[1], 1, B.shape[1])))


def test_the_printed_test_can_pass_where_no_step_descends_and_then_f_rises():
    """Two orthogonal atoms, W between them: g = 1.2, the exact value 0.85; the printed step raises f."""
    W = 1.2 * np.outer([1, 1, 0], [1, 0, 0, 0]) / np.sqrt(2)
    problem, objective, point = residual_case(W, np.eye(3)[:, :2], np.eye(4)[:, 3:])
    sides = printed_tests(W[None], point.dictionaries)
    exact = one_sided(W[None], point.dictionaries, 1, problem.regularizer).value[0]
    assert sides.g == pytest.approx(1.2)
    assert sides.p == pytest.approx(0.0)
    assert exact == pytest.approx(1.2 / np.sqrt(2))
    found = check(objective, point)
    before = true_objective(problem, point)
    printed = grow_as_printed(objective, point, found, no_caps(2))
    assert printed.sizes == (2, 2)
    assert true_objective(problem, printed) > before * (1 + 1e-6)
    for rule in (grow, grow_at_true_cost):
        assert true_objective(problem, rule(objective, point, found, no_caps(2))) < before


def test_the_printed_test_can_fail_where_a_one_sided_step_descends():
    """One good atom beside three equal useless ones: g = 0.69, the exact value 1.2."""
    W = 1.2 * np.outer([1, 0, 0], [1, 0, 0, 0])
    A = np.array([[1.0, 0, 0, 0], [0, 1, 1, 1], [0, 0, 0, 0]])
    _, objective, point = residual_case(W, A, np.eye(4)[:, 3:])
    sides = printed_tests(W[None], point.dictionaries)
    assert sides.g == pytest.approx(1.2 / np.sqrt(3))
    found = check(objective, point)
    assert grow(objective, point, found, no_caps(2)).sizes == (4, 2)
    assert grow_as_printed(objective, point, found, no_caps(2)).sizes == (5, 2)


@given(seed=st.integers(0, 2**16))
def test_the_printed_tests_are_the_papers_formulas(seed):
    rng = np.random.default_rng(seed)
    W, A, B = rng.standard_normal((4, 3, 5)), rng.standard_normal((3, 2)), rng.standard_normal((5, 3))
    sides = printed_tests(W, [A, B])

    def norm(M):
        return np.linalg.norm(M, 2)

    assert sides.g == pytest.approx(max(norm(A.T @ w) for w in W) / norm(A))
    assert sides.p == pytest.approx(max(norm(w @ B) for w in W) / norm(B))
    assert sides.c == pytest.approx(max(norm(w) for w in W))


@given(seed=st.integers(0, 2**16))
def test_the_true_cost_never_raises_f(seed):
    problem, objective, point = make(1, seed)
    found = check(objective, point)
    grown = grow_at_true_cost(objective, point, found, no_caps(2))
    if grown is not None:
        assert true_objective(problem, grown) < true_objective(problem, point)


def test_the_printed_rule_says_what_it_is_for():
    _, objective, point = make(2, 0)
    with pytest.raises(InvalidInputError, match="two modes"):
        grow_as_printed(objective, point, check(objective, point), no_caps(3))
