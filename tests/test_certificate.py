"""The certificate: every number against its plain formula, an independent solver, and its symmetries."""

import json
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from convex import best_objective
from septum import Certificate, certify, global_optimum
from septum.datasets import make_separable
from septum.errors import InvalidInputError, SeptumError
from septum.loss import Huber, Squared
from septum.regularizer import L1Atoms, Separable, SparseAtoms, SparseCodes
from septum.spectral import bipartitions, unfold
from strategies import cases, make_case, make_mask, make_samples

losses = st.sampled_from([Squared(), Huber(0.5), Huber(2.0)])
scales = (1.0, 1e-6, 1e6)


def norms_of(dictionaries):
    norms = np.ones(())
    for A in dictionaries:
        norms = np.multiply.outer(norms, np.linalg.norm(A, axis=0))
    return norms


def by_sample(array):
    return array.reshape(len(array), -1).sum(axis=1)


# --- identities ---------------------------------------------------------------------------------------


@given(cases(1, 2, scales=scales))
def test_gap_and_attainment_without_cancellation_are_the_plain_ones(case):
    """f - f*, (f(0) - f) / (f(0) - f*), in total and by sample, in the complete squared case."""
    found = certify(case.X, case.dictionaries, case.codes, case.alpha)
    Z = case.reconstruction
    cost = case.alpha * by_sample(np.abs(case.codes) * norms_of(case.dictionaries))
    f = 0.5 * by_sample((case.X - Z) ** 2) + cost
    zero = 0.5 * by_sample(case.X**2)
    X = case.X if case.X.ndim == 3 else case.X[..., None]
    sigma = np.linalg.svd(X, compute_uv=False)
    decrease = 0.5 * by_sample(np.maximum(sigma - case.alpha, 0) ** 2)
    tiny = 1e-12 * (zero.sum() + f.sum())
    np.testing.assert_allclose(found.objective, f.sum(), rtol=1e-12)
    np.testing.assert_allclose(found.gap, (f - zero + decrease).sum(), rtol=1e-9, atol=tiny)
    np.testing.assert_allclose(found.lower_bound, (zero - decrease).sum(), rtol=1e-9, atol=tiny)
    clear = decrease > 1e-6 * zero
    expected = np.minimum((zero - f)[clear] / decrease[clear], 1.0)
    np.testing.assert_allclose(found.attainment_by_sample[clear], expected, rtol=1e-6, atol=1e-6)
    if decrease.sum() > 1e-6 * zero.sum():
        total = min(1.0, (zero - f).sum() / decrease.sum())
        np.testing.assert_allclose(found.attainment, total, rtol=1e-6, atol=1e-6)


@given(cases(1, 3, scales=scales), losses, st.booleans())
def test_the_gap_is_never_negative_nor_attainment_above_one(case, loss, masked):
    mask = make_mask(case.X.shape, case.seed) if masked else None
    for codes in (case.codes, 0.05 * case.codes, 0 * case.codes):
        found = certify(case.X, case.dictionaries, codes, case.alpha, loss=loss, mask=mask)
        assert found.gap >= 0
        assert found.attainment <= 1
        assert (found.attainment_by_sample <= 1).all()
        assert found.lower_bound <= found.objective
        assert found.polar.lower <= found.polar.upper
        assert found.stationarity >= 0
        np.testing.assert_allclose(found.objective - found.gap, found.lower_bound, rtol=1e-12)


@given(cases(1, 3), losses)
def test_polar_and_stationarity_are_the_plain_ones(case, loss):
    found = certify(case.X, case.dictionaries, case.codes, case.alpha, loss=loss)
    R = loss.influence(case.X - case.reconstruction)
    if case.X.ndim <= 3:
        matrices = R if R.ndim == 3 else R[..., None]
        sigma = np.linalg.svd(matrices, compute_uv=False).max() / case.alpha
        np.testing.assert_allclose([found.polar.lower, found.polar.upper], sigma, rtol=1e-9)
    else:
        each = [np.linalg.svd(unfold(R, rows), compute_uv=False)[:, 0] for rows in bipartitions(3)]
        np.testing.assert_allclose(found.polar.upper, np.min(each, axis=0).max() / case.alpha, rtol=1e-9)
    worst = 0.0
    for index in np.ndindex(*case.codes.shape[1:]):
        atom = np.ones(())
        for A, i in zip(case.dictionaries, index, strict=True):
            atom = np.multiply.outer(atom, A[:, i])
        weight = norms_of(case.dictionaries)[index]
        if weight == 0:
            continue
        g = np.tensordot(R, atom, axes=atom.ndim) / (case.alpha * weight)
        c = case.codes[(slice(None), *index)]
        worst = max(worst, np.where(c != 0, np.abs(g - np.sign(c)), np.abs(g) - 1).max())
    np.testing.assert_allclose(found.stationarity, worst, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("delta", [None, 0.4])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("shape", [(3, 3, 4), (3, 5)])
def test_against_an_independent_convex_solver(shape, masked, delta):
    """The lower bound is the convex optimum for n <= 2, whatever dictionaries are certified."""
    case = make_case(shape, "gaussian", 5, alpha=0.6)
    mask = make_mask(shape, 5) if masked else None
    expected = sum(
        best_objective(x, 0.6, mask=None if mask is None else mask[t], delta=delta)
        for t, x in enumerate(case.X)
    )
    loss = Squared() if delta is None else Huber(delta)
    for codes in (case.codes, 0.1 * case.codes):
        found = certify(case.X, case.dictionaries, codes, 0.6, loss=loss, mask=mask)
        np.testing.assert_allclose(found.lower_bound, expected, rtol=3e-6)


def test_worst_sample():
    case = make_case((6, 4, 5), "gaussian", 2, alpha=0.5)
    codes = 0 * case.codes
    X = case.X.copy()
    X[4] *= 10
    assert certify(X, case.dictionaries, codes, 0.5).worst_sample == 4


def test_zero_over_zero_is_one_and_worse_than_zero_is_negative():
    X = np.stack([np.zeros((3, 4)), 5 * np.ones((3, 4))])
    A, B = np.ones((3, 1)) / np.sqrt(3), np.ones((4, 1)) / 2
    found = certify(X, [A, B], np.zeros((2, 1, 1)), 1.0)
    assert found.attainment_by_sample[0] == 1.0
    assert found.attainment_by_sample[1] == 0.0
    worse = certify(X, [A, B], np.array([0.0, -3.0]).reshape(2, 1, 1), 1.0)
    assert worse.attainment < 0
    hopeless = certify(X, [A, B], np.array([2.0, 0.0]).reshape(2, 1, 1), 1.0)
    assert hopeless.attainment_by_sample[0] == -np.inf


# --- symmetries -----------------------------------------------------------------------------------------


def numbers(found):
    return np.array(
        [
            found.objective,
            found.lower_bound,
            found.gap,
            found.polar.lower,
            found.polar.upper,
            found.stationarity,
        ]
    )


@given(cases(1, 3), losses, st.sampled_from((1e-6, 1e6)))
def test_scale_equivariance(case, loss, scale):
    """X, codes, alpha and delta times s: values times s^2, ratios and verdict unchanged."""
    scaled = Huber(scale * loss.delta) if isinstance(loss, Huber) else loss
    one = certify(case.X, case.dictionaries, case.codes, case.alpha, loss=loss)
    two = certify(scale * case.X, case.dictionaries, scale * case.codes, scale * case.alpha, loss=scaled)
    factor = np.array([scale**2] * 3 + [1.0] * 3)
    np.testing.assert_allclose(
        numbers(two), factor * numbers(one), rtol=1e-5, atol=1e-9 * factor[0] * one.objective
    )
    np.testing.assert_allclose(two.attainment, one.attainment, rtol=1e-5, atol=1e-7)


@given(cases(1, 3))
def test_atoms_may_be_scaled_flipped_and_permuted(case):
    """Norms are part of the objective: s a with c / s, and -a with -c, are the same point."""
    rng = np.random.default_rng(case.seed)
    dictionaries, codes = [], case.codes
    for mode, A in enumerate(case.dictionaries):
        factor = rng.uniform(0.2, 5, size=A.shape[1]) * rng.choice([-1, 1], size=A.shape[1])
        order = rng.permutation(A.shape[1])
        shape = [1] * codes.ndim
        shape[mode + 1] = -1
        codes = (codes / factor.reshape(shape)).take(order, axis=mode + 1)
        dictionaries.append((A * factor)[:, order])
    one = certify(case.X, case.dictionaries, case.codes, case.alpha)
    two = certify(case.X, dictionaries, codes, case.alpha)
    np.testing.assert_allclose(numbers(two), numbers(one), rtol=1e-7, atol=1e-9)


@given(cases(1, 3), st.booleans())
def test_samples_may_be_permuted_and_negated(case, masked):
    mask = make_mask(case.X.shape, case.seed) if masked else np.ones(case.X.shape, bool)
    order = np.random.default_rng(case.seed).permutation(len(case.X))
    one = certify(case.X, case.dictionaries, case.codes, case.alpha, mask=mask)
    two = certify(-case.X[order], case.dictionaries, -case.codes[order], case.alpha, mask=mask[order])
    np.testing.assert_allclose(numbers(two), numbers(one), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(
        two.attainment_by_sample, one.attainment_by_sample[order], rtol=1e-6, atol=1e-8
    )


@given(cases(2, 3))
def test_modes_may_be_permuted(case):
    n = case.X.ndim - 1
    back = [0, *range(n, 0, -1)]
    one = certify(case.X, case.dictionaries, case.codes, case.alpha)
    two = certify(case.X.transpose(back), case.dictionaries[::-1], case.codes.transpose(back), case.alpha)
    same = [0, 1, 2, 4, 5]  # the tensor polar's lower bound is a local maximum that may depend on the order
    np.testing.assert_allclose(numbers(two)[same], numbers(one)[same], rtol=1e-7, atol=1e-9)


@given(cases(1, 2))
def test_ranges_of_samples_change_nothing(case):
    whole = certify(case.X, case.dictionaries, case.codes, case.alpha)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("septum.problem.chunks", lambda n, size: (slice(t, t + 1) for t in range(n)))
        parts = certify(case.X, case.dictionaries, case.codes, case.alpha)
    np.testing.assert_allclose(numbers(parts), numbers(whole), rtol=1e-12)
    np.testing.assert_array_equal(parts.attainment_by_sample, whole.attainment_by_sample)


# --- accuracy -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.75, 0.85, 0.9, 0.95])
def test_the_closed_form_of_the_synthetic_set(alpha):
    X = make_separable(400, random_state=0).X
    scale = 0.5 * (X**2).sum()
    for dtype, allowed in ((np.float64, 1e-10), (np.float32, 1e-5)):
        data = X.astype(dtype)
        optimum = global_optimum(data, alpha)
        found = certify(data, optimum.dictionaries, optimum.codes, alpha)
        assert found.gap <= allowed * scale
        assert found.verdict == "optimal"
        assert found.attainment > 1 - 1e-5


def test_single_and_double_precision_agree():
    case = make_case((8, 5, 6), "gaussian", 3, alpha=0.4)
    single = [
        case.X.astype(np.float32),
        [A.astype(np.float32) for A in case.dictionaries],
        case.codes.astype(np.float32),
    ]
    double = [single[0].astype(float), [A.astype(float) for A in single[1]], single[2].astype(float)]
    one, two = certify(*single, 0.4), certify(*double, 0.4)
    np.testing.assert_array_equal(numbers(one), numbers(two))


def test_sparse_and_dense_codes_agree():
    case = make_case((4, 3, 5), "gaussian", 4)
    one = certify(case.X, case.dictionaries, case.codes, 0.5)
    two = certify(case.X, case.dictionaries, case.sparse_codes, 0.5)
    np.testing.assert_array_equal(numbers(one), numbers(two))


def test_a_dense_block_of_codes_is_never_formed():
    """r~-sized dictionaries: 300 x 2000 x 2000 codes would be 9.6 GB, the data are 2.4 MB."""
    rng = np.random.default_rng(0)
    X, r, n = rng.standard_normal((300, 20, 50)), 2000, 300
    dictionaries = [rng.standard_normal((d, r)) for d in (20, 50)]
    dictionaries = [A / np.linalg.norm(A, axis=0) for A in dictionaries]
    p = np.arange(r)
    codes = sparse.coo_array((0.1 * rng.standard_normal(r), (rng.integers(n, size=r), p, p)), shape=(n, r, r))
    tracemalloc.start()
    found = certify(X, dictionaries, codes, 5.0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200e6
    assert found.stationarity > 0
    assert found.polar.lower > 1


# --- verdicts -------------------------------------------------------------------------------------------


class TestVerdict:
    X = make_samples((4, 3, 5), "gaussian", 8)

    def test_optimal_by_the_gap(self):
        optimum = global_optimum(self.X, 1.0)
        found = certify(self.X, optimum.dictionaries, optimum.codes, 1.0)
        assert (found.verdict, found.tolerance) == ("optimal", 1e-6)

    def test_optimal_by_the_two_conditions(self):
        """Corollary 2: at tolerance 1e-3 a slightly scaled optimum passes both, though its gap is larger."""
        optimum = global_optimum(self.X, 1.0)
        tolerance = 1e-3
        codes = optimum.codes.toarray()
        codes[codes > 0] -= 0.9 * tolerance
        found = certify(self.X, optimum.dictionaries, codes, 1.0, tolerance=tolerance)
        assert found.stationarity <= tolerance
        assert found.polar.upper <= 1 + tolerance
        assert found.verdict == "optimal"

    def test_improvable_by_the_polar(self):
        found = certify(self.X, [np.ones((3, 1)), np.ones((5, 1))], np.zeros((4, 1, 1)), 0.1)
        assert found.polar.lower > 1
        assert found.verdict == "improvable"

    def test_improvable_by_the_known_optimum(self):
        """Codes that are too small but leave the polar in doubt cannot hide behind it."""
        X = 2.0 * np.eye(3)[None] / np.sqrt(3)
        found = certify(X, [np.eye(3), np.eye(3)], 1e-2 * np.ones((1, 3, 3)), 2.0)
        assert found.polar.upper <= 1
        assert found.verdict == "improvable"

    def test_undecided_between_the_bounds_of_a_tensor(self):
        """Zero codes at an alpha between the polar's two bounds: neither side can tell."""
        X = make_samples((1, 4, 4, 4), "gaussian", 9)
        bounds = Separable().polar(X)
        assert bounds.lower[0] < 0.99 * bounds.upper[0]
        alpha = 0.5 * float(bounds.lower[0] + bounds.upper[0])
        empty = certify(X, [np.eye(4)] * 3, np.zeros((1, 4, 4, 4)), alpha)
        assert empty.polar.lower < 1 < empty.polar.upper
        assert empty.verdict == "undecided"

    def test_a_tensor_screened_by_the_upper_bound_is_optimal_at_zero(self):
        X = make_samples((2, 3, 4, 3), "gaussian", 10)
        alpha = 1.01 * float(Separable().polar_upper(X).max())
        found = certify(X, [np.eye(3), np.eye(4), np.eye(3)], np.zeros((2, 3, 4, 3)), alpha)
        assert found.verdict == "optimal"
        assert found.attainment == 1

    def test_masked_optimum_reached_by_its_own_singular_vectors(self):
        """The minimiser of the convex problem, factored, is certified although no closed form exists."""
        mask = make_mask(self.X.shape, 8)
        Z = completed(self.X, mask, 0.7)
        left, sigma, right = np.linalg.svd(Z, full_matrices=False)
        A, B = np.hstack(list(left)), np.hstack([v.T for v in right])
        codes = np.zeros((4, A.shape[1], B.shape[1]))
        for t in range(4):
            i = np.arange(3) + 3 * t
            codes[t, i, i] = sigma[t]
        found = certify(self.X, [A, B], codes, 0.7, mask=mask)
        assert found.verdict == "optimal"
        assert certify(self.X, [A, B], 0.9 * codes, 0.7, mask=mask).verdict == "improvable"

    def test_a_loose_lower_bound_never_says_improvable(self):
        """Huber at a tolerance below the bound's own accuracy: the slack is counted."""
        X = make_samples((2, 3, 4), "gaussian", 12)
        found = certify(
            X, [np.ones((3, 1)), np.ones((4, 1))], np.zeros((2, 1, 1)), 50.0, loss=Huber(1.0), tolerance=0
        )
        assert found.verdict == "optimal"


def completed(X, mask, alpha, n_iter=4000):
    """Soft-impute, plainly: the proximal gradient iteration run for long."""
    Z = np.zeros_like(X)
    for _ in range(n_iter):
        left, sigma, right = np.linalg.svd(np.where(mask, X, Z), full_matrices=False)
        Z = (left * np.maximum(sigma - alpha, 0)[:, None, :]) @ right
    return Z


@given(cases(3, 3))
def test_the_tensor_bounds_hold_for_every_factorisation(case):
    """f of any factors is at least the lower bound certified for any other."""
    bound = certify(case.X, case.dictionaries, case.codes, case.alpha).lower_bound
    other = make_case(case.X.shape, "gaussian", case.seed + 1)
    for scale in (0.01, 0.1, 1.0):
        f = certify(case.X, other.dictionaries, scale * other.codes, case.alpha).objective
        assert f >= bound - 1e-9 * (1 + f)


def test_an_orthogonal_tensor_is_certified():
    """Where the unfoldings agree, the bounds meet and n = 3 has a verdict of optimal."""
    rng = np.random.default_rng(0)
    bases = [np.linalg.qr(rng.standard_normal((d, d)))[0][:, :3] for d in (3, 4, 5)]
    weights = np.array([[3.0, 2.0, 0.5]])
    X = np.einsum("ti,ai,bi,ci->tabc", weights, *bases)
    codes = np.zeros((1, 3, 3, 3))
    codes[0, range(3), range(3), range(3)] = np.maximum(weights - 1, 0)[0]
    found = certify(X, bases, codes, 1.0)
    assert found.verdict == "optimal"
    np.testing.assert_allclose([found.polar.lower, found.polar.upper], 1.0, rtol=1e-9)


@pytest.mark.parametrize(
    "regularizer", [L1Atoms(0), L1Atoms(1), SparseAtoms(0.4), SparseAtoms(0.4, 1)], ids=str
)
@given(case=cases(2, 2), loss=losses)
def test_other_regularisers_are_certified_too(regularizer, case, loss):
    for scale in (0.0, 0.1, 1.0):
        found = certify(
            case.X, case.dictionaries, scale * case.codes, case.alpha, regularizer=regularizer, loss=loss
        )
        assert found.gap >= 0
        assert found.attainment <= 1
        if found.verdict == "optimal" and found.attainment > 0:
            assert found.gap <= 1e-5 * (found.objective + found.gap) or found.polar.upper <= 1 + 1e-6


def test_row_shrinkage_is_certified_for_l1_atoms():
    """l1 on the first mode: coordinate vectors and shrunk rows are optimal."""
    X = make_samples((3, 4, 5), "gaussian", 1)
    rows = np.linalg.norm(X, axis=2)
    B = (X / rows[..., None]).reshape(-1, 5).T
    codes = np.zeros((3, 4, 12))
    for t in range(3):
        codes[t, range(4), 4 * t + np.arange(4)] = np.maximum(rows[t] - 1.0, 0)
    found = certify(X, [np.eye(4), B], codes, 1.0, regularizer=L1Atoms(0))
    assert found.verdict == "optimal"
    assert found.gap <= 1e-12 * found.objective


def test_coupled_samples_have_one_attainment():
    case = make_case((5, 4), "gaussian", 1, alpha=0.2)
    found = certify(case.X, case.dictionaries, 0.3 * case.codes, 0.2, regularizer=SparseCodes(0.5))
    assert (found.attainment_by_sample == found.attainment).all()
    assert found.gap >= 0


def test_one_column_is_optimal_for_coupled_codes():
    """Rank-one data along an atom: the codes are the prox of the data's own code vector."""
    rng = np.random.default_rng(2)
    u, v = rng.standard_normal(4), 3 * rng.standard_normal(6)
    u /= np.linalg.norm(u)
    regularizer = SparseCodes(0.5)
    codes = regularizer.prox_codes(v[:, None], 0.8, [np.ones(1)])
    found = certify(np.outer(v, u), [u[:, None]], codes, 0.8, regularizer=regularizer)
    assert found.stationarity < 1e-9
    assert found.polar.lower <= 1 + 1e-9
    assert found.verdict in ("optimal", "undecided")


# --- the record and the checks ----------------------------------------------------------------------------


def test_text_and_record():
    case = make_case((4, 3, 5), "gaussian", 4, alpha=0.5)
    found = certify(case.X, case.dictionaries, case.codes, 0.5)
    assert found.verdict in str(found)
    assert "attainment" in str(found)
    record = json.loads(json.dumps(found.to_dict()))
    again = Certificate.from_dict(record)
    np.testing.assert_array_equal(numbers(again), numbers(found))
    np.testing.assert_array_equal(again.attainment_by_sample, found.attainment_by_sample)
    assert again.verdict == found.verdict


def test_an_infinite_attainment_survives_the_record():
    found = certify(np.zeros((1, 2, 2)), [np.eye(2)] * 2, np.ones((1, 2, 2)), 1.0)
    assert found.attainment == -np.inf
    assert "-inf" in str(found)
    assert Certificate.from_dict(json.loads(json.dumps(found.to_dict()))).attainment == -np.inf


def test_inputs_are_left_alone():
    case = make_case((4, 3, 5), "gaussian", 4)
    arrays = [case.X, *case.dictionaries, case.codes]
    before = [a.copy() for a in arrays]
    for a in arrays:
        a.setflags(write=False)
    certify(case.X, case.dictionaries, case.codes, 0.5, loss="huber", mask=make_mask(case.X.shape, 0))
    for a, b in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(a, b)


def test_bad_input():
    case = make_case((4, 3, 5), "gaussian", 4)
    for codes in (case.codes[:3], np.full(case.codes.shape, np.nan), 1j * case.codes, [[["a"]]]):
        with pytest.raises(SeptumError):
            certify(case.X, case.dictionaries, codes, 0.5)
    for tolerance in (-1, np.nan, np.inf):
        with pytest.raises(InvalidInputError, match="tolerance"):
            certify(case.X, case.dictionaries, case.codes, 0.5, tolerance=tolerance)
    with pytest.raises(InvalidInputError, match="loss"):
        certify(case.X, case.dictionaries, case.codes, 0.5, loss="l1")


def test_no_atoms_at_all():
    X = make_samples((3, 2, 4), "gaussian", 0)
    found = certify(X, [np.zeros((2, 0)), np.zeros((4, 3))], np.zeros((3, 0, 3)), 0.5)
    assert found.attainment == 0
    np.testing.assert_allclose(found.objective, 0.5 * (X**2).sum())
