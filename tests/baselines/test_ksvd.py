"""K-SVD: its pursuit against least squares and scikit-learn, its update, and what it recovers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import orthogonal_mp_gram
from sklearn.utils.estimator_checks import check_estimator

from septum import omp
from septum.baselines import KSVD
from septum.baselines.ksvd import _Learner, pursue
from septum.errors import InvalidInputError, InvalidTypeError


def test_scikit_learn_manners():
    """Every check of check_estimator; the one for array-API inputs applies only where SCIPY_ARRAY_API is set."""
    results = check_estimator(KSVD(max_iter=8), on_skip=None)
    assert {r["check_name"] for r in results if r["status"] != "passed"} <= {"check_array_api_input"}
    assert len(results) > 40


def problem(seed, n_signals=1500, snr_db=20.0):
    """The published trial: a random 20 x 50 dictionary, 3 nonzeros a signal, 20 dB."""
    rng = np.random.default_rng(seed)
    D = rng.standard_normal((20, 50))
    D /= np.linalg.norm(D, axis=0)
    C = np.zeros((n_signals, 50))
    for t in range(n_signals):
        C[t, rng.choice(50, 3, replace=False)] = rng.standard_normal(3)
    clean = C @ D.T
    noise = rng.standard_normal(clean.shape)
    noise *= np.linalg.norm(clean) / np.linalg.norm(noise) * 10 ** (-snr_db / 20)
    return D, clean + noise


def test_recovers_a_known_dictionary_as_published():
    """Over 90% of the atoms within 0.01, the published figure for these sizes, on the mean of five trials."""
    shares = []
    for seed in range(5):
        D, X = problem(seed)
        model = KSVD(50, 3, max_iter=80, random_state=seed).fit(X)
        distance = 1 - np.abs(D.T @ model.dictionary_).max(axis=1)
        shares.append(np.mean(distance < 0.01))
    assert np.mean(shares) > 0.9


def plain_omp(x, D, n_nonzero, tolerance=0.0):
    """Textbook OMP with a fresh least squares at each step."""
    chosen, code, rest = [], np.zeros(0), x.copy()
    while len(chosen) < n_nonzero and rest @ rest > tolerance:
        chosen.append(int(np.argmax(np.abs(D.T @ rest))))
        code = np.linalg.lstsq(D[:, chosen], x, rcond=None)[0]
        rest = x - D[:, chosen] @ code
    out = np.zeros(D.shape[1])
    out[chosen] = code
    return out


def dense(atoms, values, n_atoms):
    out = np.zeros((len(atoms), n_atoms + 1))
    np.put_along_axis(out, atoms.astype(int) % (n_atoms + 1), values, axis=1)
    return out[:, :n_atoms]


@settings(deadline=None, max_examples=30)
@given(
    d=st.integers(2, 12),
    more=st.integers(0, 12),
    k=st.integers(1, 6),
    seed=st.integers(0, 2**32 - 1),
    stop=st.booleans(),
)
def test_batch_omp_is_omp(d, more, k, seed, stop):
    rng = np.random.default_rng(seed)
    D = rng.standard_normal((d, d + more))
    D /= np.linalg.norm(D, axis=0)
    X = rng.standard_normal((5, d))
    k = min(k, d)
    tolerance = 0.3 if stop else 0.0
    atoms, values = pursue(X, D, k, tolerance)
    expected = np.array([plain_omp(x, D, k, tolerance) for x in X])
    np.testing.assert_allclose(dense(atoms, values, D.shape[1]), expected, atol=1e-8)


def test_batch_omp_agrees_with_scikit_learn():
    rng = np.random.default_rng(1)
    D = rng.standard_normal((20, 40))
    D /= np.linalg.norm(D, axis=0)
    X = rng.standard_normal((200, 20))
    atoms, values = pursue(X, D, 4)
    expected = orthogonal_mp_gram(D.T @ D, D.T @ X.T, n_nonzero_coefs=4).T
    np.testing.assert_allclose(dense(atoms, values, 40), expected, atol=1e-10)


def test_batch_omp_agrees_with_the_separable_pursuit():
    rng = np.random.default_rng(2)
    D = rng.standard_normal((15, 30))
    D /= np.linalg.norm(D, axis=0)
    X = rng.standard_normal((50, 15))
    np.testing.assert_allclose(dense(*pursue(X, D, 4), 30), omp(X, [D], 4).codes.toarray(), atol=1e-10)
    np.testing.assert_allclose(
        dense(*pursue(X, D, 9, 2.0), 30), omp(X, [D], 9, tol=2.0).codes.toarray(), atol=1e-10
    )


def test_batch_omp_stops_on_zero_signals_duplicated_atoms_and_exact_fits():
    D = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    atoms, values = pursue(np.array([[0.0, 0.0], [2.0, 0.0], [1.0, 3.0]]), D, 2)
    np.testing.assert_array_equal(atoms, [[-1, -1], [0, -1], [2, 0]])
    np.testing.assert_allclose(values, [[0, 0], [2, 0], [3, 1]])


def test_one_pass_over_the_atoms_is_the_plain_formula():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((60, 7))
    D = rng.standard_normal((7, 10))
    D /= np.linalg.norm(D, axis=0)
    learner = _Learner(X, 3, 0.0)
    learner.dictionary = D.copy()
    atoms, values = pursue(X, D, 3)
    C = dense(atoms, values, 10)
    visits = np.random.RandomState(5).permutation(10)
    for j in visits:
        users = np.flatnonzero(C[:, j])
        if users.size == 0:
            continue
        E = X[users] - C[users] @ D.T + np.outer(C[users, j], D[:, j])
        D[:, j] = E.T @ C[users, j]
        D[:, j] /= np.linalg.norm(D[:, j])
        C[users, j] = E @ D[:, j]
    error = learner.sweep(np.random.RandomState(5), settle=True)
    np.testing.assert_allclose(learner.dictionary, D, atol=1e-12)
    np.testing.assert_allclose(dense(learner.atoms, learner.values, 10), C, atol=1e-12)
    np.testing.assert_allclose(error, np.sqrt(np.mean((X - C @ D.T) ** 2)), rtol=1e-12)


def test_unused_and_duplicated_atoms_are_replaced():
    _, X = problem(0, 600)
    start = np.random.default_rng(0).standard_normal((20, 50))
    start[:, 1] = -start[:, 0]
    start[:, 2] = start[:, 0]
    model = KSVD(50, 3, max_iter=30, init=start, random_state=0).fit(X)
    assert model.n_replaced_ >= 2
    gram = np.abs(model.dictionary_.T @ model.dictionary_) - np.eye(50)
    assert gram.max() < 0.99
    assert model.usage_.min() > 0


def test_the_attributes_agree_with_one_another():
    _, X = problem(3, 400)
    model = KSVD(30, 3, max_iter=10, random_state=0).fit(X)
    assert model.codes_.shape == (400, 30)
    np.testing.assert_allclose(np.linalg.norm(model.dictionary_, axis=0), 1, rtol=1e-12)
    np.testing.assert_array_equal(model.components_, model.dictionary_.T)
    np.testing.assert_array_equal(np.count_nonzero(model.codes_.toarray(), axis=0), model.usage_)
    assert np.all(np.diff(model.usage_) <= 0)
    rebuilt = model.inverse_transform(model.codes_)
    np.testing.assert_allclose(np.sqrt(np.mean((X - rebuilt) ** 2)), model.error_[-1], rtol=1e-10)
    np.testing.assert_allclose(model.inverse_transform(model.codes_.toarray()), rebuilt, atol=1e-12)
    assert model.error_[-1] < model.error_[0]


def test_transform_is_omp_on_the_dictionary_and_sparse_when_asked():
    _, X = problem(4, 300)
    model = KSVD(30, 3, max_iter=5, random_state=0).fit(X)
    dense_codes = model.transform(X[:20])
    expected = np.array([plain_omp(x, model.dictionary_, 3) for x in X[:20]])
    np.testing.assert_allclose(dense_codes, expected, atol=1e-10)
    np.testing.assert_array_equal(model.transform(X[:20], sparse_output=True).toarray(), dense_codes)


def test_tol_stops_each_code_at_the_noise():
    _, X = problem(5, 300)
    model = KSVD(40, 10, tol=1.0, max_iter=5, random_state=0).fit(X)
    codes = model.transform(X)
    rest = np.linalg.norm(X - model.inverse_transform(codes), axis=1)
    count = np.count_nonzero(codes, axis=1)
    assert np.all((rest <= 1.0 + 1e-9) | (count == 10))
    assert count.min() < 10


def test_zero_signals_have_zero_codes_and_change_nothing():
    _, X = problem(6, 200)
    padded = np.concatenate([np.zeros((5, 20)), X])
    with_zeros = KSVD(30, 3, max_iter=5, random_state=0).fit(padded)
    without = KSVD(30, 3, max_iter=5, random_state=0).fit(X)
    np.testing.assert_array_equal(with_zeros.dictionary_, without.dictionary_)
    assert not with_zeros.codes_.toarray()[:5].any()


def test_single_precision_stays_single_and_agrees():
    _, X = problem(7, 300)
    single = KSVD(30, 3, max_iter=3, random_state=0).fit(X.astype(np.float32))
    double = KSVD(30, 3, max_iter=3, random_state=0).fit(X)
    assert single.dictionary_.dtype == single.codes_.dtype == single.transform(X.astype(np.float32)).dtype
    assert single.dictionary_.dtype == np.float32
    np.testing.assert_allclose(single.error_, double.error_, rtol=1e-3)


def test_the_same_seed_gives_the_same_bits_and_the_data_are_not_changed():
    _, X = problem(8, 300)
    before = X.copy()
    first = KSVD(30, 3, max_iter=5, random_state=1).fit(X)
    second = clone(first).fit(X)
    np.testing.assert_array_equal(first.dictionary_, second.dictionary_)
    np.testing.assert_array_equal(X, before)


def test_fewer_signals_than_atoms_still_learn():
    X = np.random.default_rng(0).standard_normal((4, 6))
    model = KSVD(10, 2, max_iter=8, random_state=0).fit(X)
    assert model.dictionary_.shape == (6, 10)
    np.testing.assert_allclose(np.linalg.norm(model.dictionary_, axis=0), 1)


@pytest.mark.parametrize(
    "options",
    [
        {"n_atoms": 0},
        {"n_nonzero": -1},
        {"n_nonzero": 2.5},
        {"max_iter": 0},
        {"tol": -1.0},
        {"tol": np.nan},
        {"init": np.ones((3, 3))},
        {"init": np.zeros((5, 10))},
    ],
)
def test_bad_parameters_are_named(options):
    with pytest.raises(InvalidInputError):
        KSVD(**options).fit(np.random.default_rng(0).standard_normal((20, 5)))


def test_bad_data_are_named():
    with pytest.raises(InvalidInputError, match="zero"):
        KSVD().fit(np.zeros((5, 4)))
    with pytest.raises(InvalidInputError, match="NaN"):
        KSVD().fit(np.full((5, 4), np.nan))
    with pytest.raises(InvalidInputError, match="dim 3"):
        KSVD().fit(np.zeros((5, 4, 2)))
    with pytest.raises(InvalidTypeError):
        KSVD().fit(sparse.eye_array(5, format="csr"))
    model = KSVD(max_iter=1).fit(np.eye(4))
    with pytest.raises(InvalidInputError, match="one column for each atom"):
        model.inverse_transform(np.ones((2, 3)))
