"""`sparse_code` against scikit-learn, against the plain FISTA of the reference, and against its own promises."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import Lasso

from septum import kronecker, sparse_code
from septum.coding import reference
from septum.errors import InvalidInputError

SHAPES = [((9,), (14,)), ((6, 7), (8, 9)), ((4, 5, 3), (5, 4, 4)), ((1, 8), (1, 12)), ((5, 4), (1, 3))]


def make(d, r, n_samples=6, seed=0, norm=True):
    rng = np.random.default_rng(seed)
    dictionaries = [rng.standard_normal((a, b)) for a, b in zip(d, r, strict=True)]
    if norm:
        dictionaries = [A / np.linalg.norm(A, axis=0) for A in dictionaries]
    return rng.standard_normal((n_samples, *d)), dictionaries


def alpha_at(X, dictionaries, share):
    return share * np.abs(kronecker.correlate(X, dictionaries)).max()


def half_energy(X):
    return 0.5 * (X.reshape(len(X), -1) ** 2).sum(axis=1)


@pytest.mark.parametrize(("d", "r"), SHAPES)
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("unit", [True, False])
def test_agrees_with_scikit_learn_on_the_explicit_kronecker_dictionary(d, r, positive, unit):
    X, dictionaries = make(d, r, norm=unit)
    alpha = alpha_at(X, dictionaries, 0.2)
    result = sparse_code(X, dictionaries, alpha, tol=1e-12, positive=positive)
    joint = kronecker.explicit(dictionaries)
    for t in range(len(X)):
        # scikit-learn divides the squared error by the number of entries.
        referee = Lasso(alpha / X[t].size, fit_intercept=False, positive=positive, tol=1e-13, max_iter=10**6)
        referee.fit(joint, X[t].ravel())
        ours = reference.objective(X[[t]], dictionaries, result.codes.toarray()[[t]], alpha)[0]
        theirs = reference.objective(X[[t]], dictionaries, referee.coef_.reshape(1, *r), alpha)[0]
        assert ours <= theirs + 1e-9 * half_energy(X[[t]])[0]
        fitted = kronecker.multiply(result.codes.toarray()[[t]], dictionaries)[0].ravel()
        np.testing.assert_allclose(fitted, joint @ referee.coef_, atol=1e-5)


@pytest.mark.parametrize(("d", "r"), SHAPES)
@pytest.mark.parametrize("share", [0.02, 0.3, 0.9])
@pytest.mark.parametrize("tol", [1e-3, 1e-8])
def test_the_gap_is_true_and_small_enough(d, r, share, tol):
    X, dictionaries = make(d, r)
    alpha = alpha_at(X, dictionaries, share)
    result = sparse_code(X, dictionaries, alpha, tol=tol)
    true = reference.gap(X, dictionaries, result.codes.toarray(), alpha)
    assert result.gap.dtype == np.float64
    assert (result.gap >= 0).all()
    assert (result.gap <= tol * half_energy(X)).all()
    assert result.converged.all()
    np.testing.assert_allclose(result.gap, true, rtol=1e-6, atol=1e-12)


def test_codes_satisfy_the_optimality_conditions():
    X, dictionaries = make((8, 10), (12, 15))
    alpha = alpha_at(X, dictionaries, 0.15)
    codes = sparse_code(X, dictionaries, alpha, tol=1e-14).codes.toarray()
    correlation = kronecker.correlate(X - kronecker.multiply(codes, dictionaries), dictionaries)
    assert np.abs(correlation).max() <= alpha * (1 + 1e-6)
    active = codes != 0
    assert 0 < active.mean() < 0.5
    np.testing.assert_allclose(correlation[active], alpha * np.sign(codes[active]), rtol=1e-5)


@pytest.mark.parametrize(("d", "r"), SHAPES[:3])
@pytest.mark.parametrize("positive", [False, True])
def test_missing_entries_count_for_nothing(d, r, positive):
    X, dictionaries = make(d, r)
    mask = np.random.default_rng(1).random(X.shape) < 0.7
    mask[0] = True
    alpha = alpha_at(X, dictionaries, 0.2)
    broken = np.where(mask, X, np.nan)
    result = sparse_code(broken, dictionaries, alpha, tol=1e-8, mask=mask, positive=positive)
    assert result.converged.all()
    seen = np.where(mask, X, 0.0)
    true = reference.gap(seen, dictionaries, result.codes.toarray(), alpha, mask, positive)
    # The reference may scale the residual up, which makes the bound a little tighter.
    assert (result.gap >= true - 1e-12).all()
    assert (result.gap <= 1e-8 * half_energy(seen)).all()
    joint = kronecker.explicit(dictionaries)
    for t in range(len(X)):
        rows = mask[t].ravel()
        referee = Lasso(alpha / rows.sum(), fit_intercept=False, positive=positive, tol=1e-13, max_iter=10**6)
        referee.fit(joint[rows], X[t].ravel()[rows])
        theirs = reference.objective(seen[[t]], dictionaries, referee.coef_.reshape(1, *r), alpha, mask[[t]])
        ours = reference.objective(seen[[t]], dictionaries, result.codes.toarray()[[t]], alpha, mask[[t]])
        assert abs(ours - theirs)[0] <= 1e-7 * half_energy(seen[[t]])[0]


def test_positive_codes_are_not_negative():
    X, dictionaries = make((6, 7), (8, 9))
    codes = sparse_code(X, dictionaries, alpha_at(X, dictionaries, 0.1), positive=True).codes
    assert codes.nnz > 0
    assert (codes.data > 0).all()


@pytest.mark.parametrize("form", ["dense", "coo", "flat"])
@pytest.mark.parametrize("masked", [False, True])
def test_a_warm_start_reaches_the_same_answer_in_fewer_steps(form, masked):
    X, dictionaries = make((8, 10), (12, 15))
    mask = np.random.default_rng(1).random(X.shape) < 0.8 if masked else None
    alpha = alpha_at(X, dictionaries, 0.15)
    cold = sparse_code(X, dictionaries, alpha, tol=1e-11, mask=mask)
    near = sparse_code(X, dictionaries, 1.01 * alpha, tol=1e-11, mask=mask).codes
    init = {"dense": near.toarray(), "coo": near, "flat": near.reshape((len(X), -1)).tocsr()}[form]
    warm = sparse_code(X, dictionaries, alpha, tol=1e-11, mask=mask, codes_init=init)
    np.testing.assert_allclose(warm.codes.toarray(), cold.codes.toarray(), atol=1e-4)
    assert warm.n_iter.sum() < cold.n_iter.sum()


def test_a_useless_warm_start_does_no_harm():
    X, dictionaries = make((6, 7), (8, 9))
    alpha = alpha_at(X, dictionaries, 0.2)
    cold = sparse_code(X, dictionaries, alpha, tol=1e-11)
    wild = np.random.default_rng(3).standard_normal((len(X), 8, 9)) * 100
    for positive in (False, True):
        warm = sparse_code(X, dictionaries, alpha, tol=1e-11, codes_init=wild, positive=positive)
        assert warm.converged.all()
        if not positive:
            np.testing.assert_allclose(warm.codes.toarray(), cold.codes.toarray(), atol=1e-4)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("positive", [False, True])
def test_refit_is_least_squares_on_the_support(masked, positive):
    X, dictionaries = make((6, 7), (8, 9))
    mask = np.random.default_rng(1).random(X.shape) < 0.8 if masked else None
    alpha = alpha_at(X, dictionaries, 0.3)
    plain = sparse_code(X, dictionaries, alpha, mask=mask, positive=positive)
    refitted = sparse_code(X, dictionaries, alpha, mask=mask, positive=positive, refit=True)
    np.testing.assert_array_equal(plain.gap, refitted.gap)
    joint = kronecker.explicit(dictionaries)
    for t in range(len(X)):
        before, after = plain.codes.toarray()[t].ravel(), refitted.codes.toarray()[t].ravel()
        seen = slice(None) if mask is None else mask[t].ravel()
        support = np.flatnonzero(before)
        assert not after[before == 0].any()
        residual = X[t].ravel()[seen] - joint[seen] @ after
        slope = joint[seen][:, support].T @ residual
        if positive:
            assert (after >= 0).all()
            np.testing.assert_allclose(slope[after[support] > 0], 0, atol=1e-9)
            assert (slope <= 1e-9).all()
        else:
            np.testing.assert_allclose(slope, 0, atol=1e-9)


def test_refit_with_dependent_atoms_is_the_solution_of_least_norm():
    X, dictionaries = make((6, 7), (8, 9))
    doubled = [np.repeat(dictionaries[0], 2, axis=1), dictionaries[1]]
    alpha = alpha_at(X, doubled, 0.3)
    both = np.repeat(sparse_code(X, dictionaries, alpha).codes.toarray() / 2, 2, axis=1)
    result = sparse_code(X, doubled, alpha, codes_init=both, refit=True)
    single = sparse_code(X, dictionaries, alpha, refit=True)
    np.testing.assert_allclose(
        kronecker.multiply(result.codes.toarray(), doubled),
        kronecker.multiply(single.codes.toarray(), dictionaries),
        atol=1e-6,
    )
    assert np.isfinite(result.codes.data).all()


@pytest.mark.parametrize("options", [{}, {"positive": True}, {"masked": True}, {"refit": True}])
def test_a_sample_is_coded_alone_whatever_its_neighbours_order_and_threads(options):
    options = dict(options)
    X, dictionaries = make((16, 20), (18, 24), n_samples=60)
    mask = np.random.default_rng(1).random(X.shape) < 0.8 if options.pop("masked", False) else None
    alpha = alpha_at(X, dictionaries, 0.25)
    whole = sparse_code(X, dictionaries, alpha, mask=mask, **options)
    threaded = sparse_code(X, dictionaries, alpha, mask=mask, n_jobs=2, **options)
    np.testing.assert_array_equal(whole.codes.toarray(), threaded.codes.toarray())
    np.testing.assert_array_equal(whole.gap, threaded.gap)
    order = np.random.default_rng(2).permutation(len(X))[:7]
    some = sparse_code(X[order], dictionaries, alpha, mask=None if mask is None else mask[order], **options)
    np.testing.assert_array_equal(some.codes.toarray(), whole.codes.toarray()[order])
    np.testing.assert_array_equal(some.gap, whole.gap[order])
    one = sparse_code(X[[3]], dictionaries, alpha, mask=None if mask is None else mask[[3]], **options)
    np.testing.assert_array_equal(one.codes.toarray()[0], whole.codes.toarray()[3])


def test_float32_in_float32_out_with_a_float64_gap_of_the_rounded_codes():
    X, dictionaries = make((8, 10), (12, 15))
    alpha = alpha_at(X, dictionaries, 0.1)
    X32 = X.astype(np.float32)
    result = sparse_code(X32, dictionaries, alpha, tol=1e-5)
    assert result.codes.dtype == np.float32
    assert result.gap.dtype == np.float64
    assert result.converged.all()
    true = reference.gap(X32.astype(float), dictionaries, result.codes.toarray().astype(float), alpha)
    np.testing.assert_allclose(result.gap, true, rtol=1e-6, atol=1e-12)


def test_an_unreachable_tolerance_is_admitted():
    X, dictionaries = make((8, 10), (12, 15))
    alpha = alpha_at(X, dictionaries, 0.1)
    result = sparse_code(X.astype(np.float32), dictionaries, alpha, tol=1e-13)
    assert not result.converged.all()
    assert (result.gap <= 1e-5 * half_energy(X)).all()


@pytest.mark.parametrize("share", [0.001, 0.01])
def test_dense_codes_reach_the_gap_too(share):
    X, dictionaries = make((24, 26), (30, 40), n_samples=2)
    alpha = alpha_at(X, dictionaries, share)
    result = sparse_code(X, dictionaries, alpha, tol=1e-6)
    assert result.converged.all()
    assert result.codes.nnz / np.prod(result.codes.shape) > 0.2
    true = reference.gap(X, dictionaries, result.codes.toarray(), alpha)
    np.testing.assert_allclose(result.gap, true, rtol=1e-4, atol=1e-10)


def test_duplicated_and_zero_atoms_and_zero_samples():
    X, (A, B) = make((6, 7), (8, 9))
    A = np.hstack([A, A, np.zeros((6, 1))])
    B = np.hstack([B, -B])
    X[2] = 0
    alpha = alpha_at(X, [A, B], 0.05)
    for positive in (False, True):
        result = sparse_code(X, [A, B], alpha, tol=1e-9, positive=positive)
        assert result.converged.all()
        codes = result.codes.toarray()
        assert not codes[2].any()
        assert not codes[:, -1].any()
    nothing = sparse_code(X, [np.zeros((6, 3)), B], alpha)
    assert nothing.codes.nnz == 0
    assert nothing.converged.all()


def test_zero_codes_above_the_largest_correlation_cost_nothing():
    X, dictionaries = make((6, 7), (8, 9))
    result = sparse_code(X, dictionaries, alpha_at(X, dictionaries, 1.0))
    assert result.codes.nnz == 0
    assert result.codes.shape == (len(X), 8, 9)
    assert not result.gap.any()
    assert not result.n_iter.any()


def test_the_caller_keeps_its_arrays():
    X, dictionaries = make((6, 7), (8, 9))
    for array in (X, *dictionaries):
        array.flags.writeable = False
    init = sparse.coo_array(np.ones((len(X), 72)))
    sparse_code(X, dictionaries, 0.5, codes_init=init, refit=True)
    assert (init.data == 1).all()
    X.flags.writeable = True
    with_gaps = X.copy()
    with_gaps[0, 0, 0] = np.nan
    sparse_code(with_gaps, dictionaries, 0.5, mask=np.isfinite(with_gaps))
    assert np.isnan(with_gaps[0, 0, 0])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"alpha": 0}, "alpha must be positive"),
        ({"tol": -1}, "tol must be"),
        ({"tol": "small"}, "tol must be"),
        ({"dictionaries": [np.ones((6, 2))]}, "1 dictionaries were given"),
        ({"dictionaries": [np.ones((6, 2)), np.ones((6, 2))]}, "atoms of length 6"),
        ({"dictionaries": [np.ones((6, 2)), np.ones((7, 0))]}, "no atoms"),
        ({"dictionaries": np.ones((6, 2))}, "list"),
        ({"mask": np.zeros((6, 7), bool)}, "mask has shape"),
        ({"codes_init": np.ones((2, 3))}, "codes_init has shape"),
        ({"codes_init": np.full((6, 8, 9), np.nan)}, "codes_init contains NaN"),
        ({"X": np.full((6, 6, 7), np.nan)}, "NaN"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"n_jobs": 1.5}, "n_jobs"),
    ],
)
def test_bad_input_is_named(changes, words):
    X, dictionaries = make((6, 7), (8, 9))
    arguments = {"X": X, "dictionaries": dictionaries, "alpha": 0.5, **changes}
    with pytest.raises(InvalidInputError, match=words):
        sparse_code(**arguments)


def test_the_result_says_what_it_holds():
    X, dictionaries = make((6, 7), (8, 9))
    text = repr(sparse_code(X, dictionaries, 0.5))
    assert "converged=6 of 6" in text
    assert "(6, 8, 9)" in text
