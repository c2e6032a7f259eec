"""The estimator keeps the contract: what it returns, in which form, and who certifies it."""

import io
import pickle
from contextlib import redirect_stdout

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import septum
from septum import InvalidInputError, SeparableDictionaryLearning
from septum.datasets import make_separable
from septum.errors import InvalidTypeError
from septum.loss import Huber
from septum.regularizer import Separable
from strategies import samples

ALPHA = 0.9
SOLVERS = ("fast", "palm")


def data(n_samples=120, seed=0):
    return make_separable(n_samples, random_state=seed).X


@pytest.fixture(scope="module")
def X():
    return data()


@pytest.fixture(scope="module")
def fitted(X):
    return SeparableDictionaryLearning(ALPHA, random_state=0).fit(X)


# --- what fit leaves behind ------------------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS)
def test_fit_reaches_the_attainment_asked_for(X, solver):
    est = SeparableDictionaryLearning(ALPHA, solver=solver, random_state=0).fit(X)
    assert est.certificate_.attainment >= 0.98 - 1e-6
    r = [A.shape[1] for A in est.dictionaries_]
    assert [A.shape for A in est.dictionaries_] == [(10, r[0]), (100, r[1])]
    assert est.codes_.shape == (120, *r)
    assert isinstance(est.codes_, sparse.coo_array)
    for k, A in enumerate(est.dictionaries_):
        np.testing.assert_allclose(np.linalg.norm(A, axis=0), 1.0, atol=1e-12)
        use = np.bincount(est.codes_.coords[k + 1], minlength=r[k])
        assert (np.diff(use) <= 0).all(), "most used first"
        assert use.min() > 0, "no idle atoms"


def test_certificate_is_that_of_the_returned_arrays(X, fitted):
    again = septum.certify(X, fitted.dictionaries_, fitted.codes_, ALPHA)
    assert again.to_dict() == fitted.certificate_.to_dict()


def test_certificate_does_not_trust_the_solver(X, monkeypatch):
    """A solver that claims the optimum and returns half the codes is found out."""
    from septum import estimator

    honest = estimator.solve

    def boastful(problem, solver, settings):
        learned = honest(problem, solver, settings)
        learned.history["attainment"][:] = 1.0
        learned.factors.codes.data *= 0.5
        return learned

    truth = SeparableDictionaryLearning(ALPHA, random_state=0).fit(X).certificate_
    monkeypatch.setattr(estimator, "solve", boastful)
    est = SeparableDictionaryLearning(ALPHA, random_state=0).fit(X)
    assert est.history_["attainment"][-1] == 1.0
    assert est.certificate_.objective > truth.objective
    assert est.certificate_.attainment < 0.9


def test_history_holds_one_entry_a_step(fitted):
    history = fitted.history_
    names = ("objective", "lower_bound", "attainment", "polar", "seconds", "atoms", "inner_objective")
    assert {len(history[name]) for name in names} == {len(history["objective"])}
    assert history["atoms"].shape[1] == 2
    assert (np.diff(history["objective"]) <= 1e-9 * np.abs(history["objective"][0])).all()
    assert (np.diff(history["seconds"]) >= 0).all()
    assert 1 <= fitted.n_iter_ <= fitted.max_iter
    assert "attainment" in fitted.stopped_because_


def test_caps_are_kept(X):
    for n_atoms, caps in ((2, (2, 2)), ((1, 3), (1, 3)), (np.array([3, 2]), (3, 2))):
        est = SeparableDictionaryLearning(ALPHA, n_atoms=n_atoms, random_state=0).fit(X)
        assert all(A.shape[1] <= cap for A, cap in zip(est.dictionaries_, caps, strict=True))


def test_larger_caps_attain_more(X):
    got = [
        SeparableDictionaryLearning(ALPHA, n_atoms=n, random_state=0).fit(X).certificate_.attainment
        for n in (1, 2, 4)
    ]
    assert got[0] < got[1] < got[2]


def test_given_dictionaries_start_the_fit(X, fitted):
    scaled = [3.0 * A for A in fitted.dictionaries_]
    est = SeparableDictionaryLearning(ALPHA, init=scaled, max_iter=1).fit(X)
    assert est.certificate_.attainment >= 0.98 - 1e-6


@pytest.mark.parametrize("solver", SOLVERS)
def test_same_seed_same_answer_for_any_number_of_threads(X, solver):
    fits = [
        SeparableDictionaryLearning(ALPHA, solver=solver, random_state=3, n_jobs=jobs).fit(X)
        for jobs in (1, 2)
    ]
    for A, B in zip(fits[0].dictionaries_, fits[1].dictionaries_, strict=True):
        np.testing.assert_array_equal(A, B)
    np.testing.assert_array_equal(fits[0].codes_.toarray(), fits[1].codes_.toarray())


def test_generators_and_random_states_are_accepted(X):
    for random_state in (np.random.default_rng(0), np.random.RandomState(0), None, np.int64(4)):
        est = SeparableDictionaryLearning(ALPHA, init="random", solver="palm", n_atoms=3, max_iter=3)
        est.set_params(random_state=random_state).fit(X[:30])
        assert np.isfinite(est.certificate_.attainment)


def test_float32_in_float32_out(X):
    single = SeparableDictionaryLearning(ALPHA, random_state=0).fit(X.astype(np.float32))
    arrays = [*single.dictionaries_, single.codes_, single.transform(X[:3].astype(np.float32))]
    arrays.append(single.inverse_transform(single.codes_))
    assert {array.dtype for array in arrays} == {np.dtype(np.float32)}
    assert single.certificate_.attainment >= 0.98 - 1e-4


def test_callback_sees_each_step_and_may_stop(X):
    seen = []
    est = SeparableDictionaryLearning(
        0.75, random_state=0, solver="palm", callback=lambda state: seen.append(state)
    )
    est.set_params(max_iter=4).fit(X)
    assert len(seen) == est.n_iter_ == 4
    assert [state.objective for state in seen] == est.history_["objective"].tolist()
    est.set_params(callback=lambda state: True).fit(X)
    assert est.n_iter_ == 1
    assert "callback" in est.stopped_because_


def test_max_time_stops(X):
    est = SeparableDictionaryLearning(0.6, random_state=0, solver="palm", max_time=0.0).fit(X)
    assert "max_time" in est.stopped_because_
    assert np.isfinite(est.certificate_.gap)


def test_verbose_prints(X):
    with redirect_stdout(io.StringIO()) as out:
        SeparableDictionaryLearning(ALPHA, random_state=0, verbose=1, n_atoms=2).fit(X[:40])
    assert "[septum] step 0" in out.getvalue()
    assert "stopped" in out.getvalue()


# --- nothing to learn ------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", SOLVERS)
def test_alpha_too_large_is_a_certified_answer_that_says_so(X, solver):
    largest = np.linalg.svd(X, compute_uv=False).max()
    est = SeparableDictionaryLearning(1.01 * largest, solver=solver).fit(X)
    assert est.codes_.nnz == 0
    assert est.certificate_.verdict == "optimal"
    assert est.certificate_.attainment == 1.0
    assert "zero codes are optimal" in est.stopped_because_
    assert f"{largest:.6g}" in est.stopped_because_
    assert est.transform(X[:2]).shape == (2, *[A.shape[1] for A in est.dictionaries_])
    assert not est.inverse_transform(est.codes_).any()
    assert est.score(X) == 1.0
    below = SeparableDictionaryLearning(0.99 * largest, solver=solver).fit(X)
    assert below.codes_.nnz > 0


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("shape", [(4, 3), (4, 3, 5), (4, 2, 3, 2)])
def test_zero_data(shape, solver):
    est = SeparableDictionaryLearning(0.1, solver=solver).fit(np.zeros(shape))
    assert est.certificate_.verdict == "optimal"
    assert est.certificate_.objective == 0.0
    assert "X is zero" in est.stopped_because_


@pytest.mark.parametrize("solver", SOLVERS)
def test_constant_data_are_one_atom_a_mode(solver):
    est = SeparableDictionaryLearning(0.1, tol=1e-8, solver=solver, random_state=0).fit(
        np.full((5, 3, 4), 2.0)
    )
    assert [A.shape[1] for A in est.dictionaries_] == [1, 1]
    assert est.certificate_.verdict == "optimal"
    expected = 2.0 * (1 - 0.1 / (2.0 * np.sqrt(12)))
    np.testing.assert_allclose(est.inverse_transform(est.codes_), expected, rtol=1e-6)


# --- transform and back ----------------------------------------------------------------------------


def test_transform_is_the_convex_optimum_in_the_codes(X, fitted):
    codes = fitted.transform(X)
    assert codes.shape == fitted.codes_.shape
    certificate = septum.certify(X, fitted.dictionaries_, codes, ALPHA)
    assert certificate.objective <= fitted.certificate_.objective * (1 + 1e-9)
    assert fitted.score(X) == pytest.approx(certificate.attainment, abs=1e-12)


def test_sparse_output_holds_the_same_codes(X, fitted):
    codes = fitted.transform(X, sparse_output=True)
    assert isinstance(codes, sparse.coo_array)
    np.testing.assert_array_equal(codes.toarray(), fitted.transform(X))


def test_a_sample_knows_nothing_of_its_neighbours(X, fitted):
    codes = fitted.transform(X)
    np.testing.assert_array_equal(fitted.transform(X[7:8])[0], codes[7])
    np.testing.assert_array_equal(fitted.transform(X[::-1])[::-1], codes)
    np.testing.assert_array_equal(clone(fitted).set_params(n_jobs=2).fit(X).transform(X), codes)


def test_inverse_transform_of_every_form_of_codes(X, fitted):
    codes = fitted.transform(X)
    first, second = fitted.dictionaries_
    expected = first @ codes @ second.T
    flat = codes.reshape(len(codes), -1)
    for form in (
        codes,
        sparse.coo_array(codes),
        flat,
        sparse.csr_array(flat),
        sparse.csr_matrix(flat),
        codes.tolist(),
    ):
        np.testing.assert_allclose(fitted.inverse_transform(form), expected, atol=1e-12)


@pytest.mark.parametrize("C", [np.zeros((3, 2)), np.zeros(4), sparse.coo_array((3, 2))])
def test_codes_of_a_wrong_shape_are_refused(fitted, C):
    with pytest.raises(InvalidInputError, match="the dictionaries ask for"):
        fitted.inverse_transform(C)


def test_codes_that_are_not_finite_are_refused(fitted):
    codes = fitted.codes_.copy()
    codes.data[0] = np.nan
    with pytest.raises(InvalidInputError, match="NaN"):
        fitted.inverse_transform(codes)


@pytest.mark.parametrize("method", ["transform", "inverse_transform", "score", "get_feature_names_out"])
def test_before_fit(method, X):
    with pytest.raises(NotFittedError):
        getattr(SeparableDictionaryLearning(1.0), method)(X)


@pytest.mark.parametrize("method", ["transform", "score", "partial_fit"])
def test_samples_of_another_shape_are_refused(fitted, X, method):
    with pytest.raises(InvalidInputError, match=r"\(10, 99\).* was fitted to \(10, 100\)"):
        getattr(clone(fitted).fit(X[:20]), method)(X[:, :, :-1])


# --- names, containers, cloning ---------------------------------------------------------------------


def test_feature_names_are_row_major(fitted):
    names = fitted.get_feature_names_out()
    r = [A.shape[1] for A in fitted.dictionaries_]
    assert names.reshape(r)[1, 2] == "separabledictionarylearning1_2"
    assert len(set(names)) == len(names) == np.prod(r)


def test_feature_names_of_plain_dictionary_learning():
    est = SeparableDictionaryLearning(0.5).fit(np.eye(4)[:, :3] * 3)
    assert est.get_feature_names_out().tolist() == [
        f"separabledictionarylearning{i}" for i in range(est.dictionaries_[0].shape[1])
    ]
    assert est.n_features_in_ == 3


def test_set_output_is_refused_for_matrices(X, fitted):
    with pytest.raises(InvalidInputError, match="no table"):
        fitted.set_output(transform="pandas")
    early = SeparableDictionaryLearning(ALPHA, n_atoms=2).set_output(transform="pandas").fit(X)
    with pytest.raises(InvalidInputError, match="no table"):
        early.transform(X)
    with config_context(transform_output="pandas"), pytest.raises(InvalidInputError, match="no table"):
        fitted.transform(X)
    assert fitted.set_output(transform="default").transform(X[:1]).shape[0] == 1


def test_shapes_in(fitted):
    assert fitted.shape_in_ == (10, 100)
    assert fitted.n_features_in_ == 1000


@pytest.mark.parametrize(
    "params",
    [
        {"loss": Huber(2.0), "regularizer": Separable()},
        {"init": [np.eye(10)[:, :2], np.eye(100)[:, :3]], "n_atoms": (4, 5)},
        {"callback": print, "random_state": 3, "max_time": 2.5},
    ],
)
def test_clone_keeps_parameters(params):
    est = SeparableDictionaryLearning(1.0, **params)
    copy = clone(est).get_params()
    for name, value in est.get_params().items():
        np.testing.assert_equal(copy[name], value)


def test_no_work_at_construction():
    est = SeparableDictionaryLearning("nonsense", n_atoms=-3, loss=7)
    assert vars(est) == est.get_params()


def test_pickle(X, fitted):
    copy = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copy.transform(X), fitted.transform(X))
    assert copy.certificate_.to_dict() == fitted.certificate_.to_dict()
    copy.partial_fit(X)


def test_pipeline_and_grid_search(X):
    search = GridSearchCV(SeparableDictionaryLearning(ALPHA, random_state=0), {"n_atoms": [1, 4]}, cv=2).fit(
        X
    )
    assert search.best_params_ == {"n_atoms": 4}
    assert search.best_score_ == search.cv_results_["mean_test_score"].max() <= 1.0
    flat = FunctionTransformer(lambda C: C.reshape(len(C), -1))
    model = make_pipeline(
        SeparableDictionaryLearning(0.3, n_atoms=4, random_state=0), flat, LinearRegression()
    )
    target = X.sum(axis=(1, 2))
    assert model.fit(X, target).score(X, target) > 0.5


def test_metadata_routing_of_the_mask(X):
    mask = np.random.default_rng(0).uniform(size=X.shape) < 0.9
    holed = np.where(mask, X, np.nan)
    with config_context(enable_metadata_routing=True):
        est = SeparableDictionaryLearning(ALPHA, n_atoms=2, max_iter=5, random_state=0)
        est.set_fit_request(mask=True).set_score_request(mask=True).set_transform_request(mask=True)
        scores = cross_val_score(est, holed, cv=2, params={"mask": mask})
        assert np.isfinite(scores).all()
        codes = make_pipeline(est).fit_transform(holed, mask=mask)
        assert codes.shape[0] == len(X)
        consumed = est.get_metadata_routing().consumes("transform", ["mask", "sparse_output"])
        assert consumed == {"mask"}
    direct = clone(est).fit(holed, mask=mask)
    np.testing.assert_array_equal(direct.transform(holed, mask=mask), codes)


def test_a_mask_in_the_place_of_y_is_noticed(X):
    with pytest.raises(InvalidInputError, match="mask=mask"):
        SeparableDictionaryLearning(ALPHA).fit(X, np.ones(X.shape, dtype=bool))


# --- masks, losses, modes ---------------------------------------------------------------------------


def test_masked_entries_do_not_matter(X):
    mask = np.random.default_rng(1).uniform(size=X.shape) < 0.8
    params = {"n_atoms": 3, "max_iter": 5, "random_state": 0}
    one = SeparableDictionaryLearning(ALPHA, **params).fit(np.where(mask, X, np.nan), mask=mask)
    two = SeparableDictionaryLearning(ALPHA, **params).fit(np.where(mask, X, 1e9), mask=mask.astype(int))
    np.testing.assert_array_equal(one.codes_.toarray(), two.codes_.toarray())
    assert one.certificate_.objective == two.certificate_.objective
    again = septum.certify(X, one.dictionaries_, one.codes_, ALPHA, mask=mask)
    assert again.to_dict() == one.certificate_.to_dict()


def test_a_full_mask_is_no_mask(X, fitted):
    est = clone(fitted).fit(X, mask=np.ones_like(X, dtype=bool))
    np.testing.assert_array_equal(est.codes_.toarray(), fitted.codes_.toarray())


def test_wide_huber_is_squared(X, fitted):
    est = SeparableDictionaryLearning(
        ALPHA, loss=Huber(1e6), init=fitted.dictionaries_, max_iter=2, random_state=0
    )
    est.fit(X[:40])
    squared = septum.certify(X[:40], est.dictionaries_, est.codes_, ALPHA)
    assert est.certificate_.objective == pytest.approx(squared.objective, rel=1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("shape", [(30, 6), (20, 1, 7), (20, 7, 1), (12, 4, 3, 5), (1, 5, 4), (3, 1, 1)])
def test_any_number_of_modes(shape, solver):
    X = np.random.default_rng(0).standard_normal(shape)
    est = SeparableDictionaryLearning(1.0, solver=solver, n_atoms=3, max_iter=10, random_state=0).fit(X)
    assert len(est.dictionaries_) == len(shape) - 1
    assert est.certificate_.attainment > 0 or est.codes_.nnz == 0
    assert est.inverse_transform(est.transform(X)).shape == shape


@settings(max_examples=15)
@given(samples(max_side=4), st.sampled_from([0.3, 1.0, 3.0]), st.sampled_from(SOLVERS))
def test_fit_is_never_worse_than_zero_codes(X, alpha, solver):
    est = SeparableDictionaryLearning(alpha, n_atoms=2, max_iter=5, solver=solver, random_state=0).fit(X)
    assert est.certificate_.objective <= 0.5 * np.sum(X**2) * (1 + 1e-12)
    assert est.certificate_.gap >= 0
    assert -1e-9 <= est.certificate_.attainment <= 1
    for A in est.dictionaries_:
        np.testing.assert_allclose(np.linalg.norm(A, axis=0), 1, atol=1e-12)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("scale", [1e-6, 2.0**10, 1e6])
def test_scaling_data_and_alpha_scales_codes(X, solver, scale):
    """f(sX, sC; s alpha) = s^2 f(X, C; alpha): units do not matter."""
    params = {"n_atoms": 3, "solver": solver, "random_state": 0}
    one = SeparableDictionaryLearning(ALPHA, **params).fit(X[:60])
    two = SeparableDictionaryLearning(scale * ALPHA, **params).fit(scale * X[:60])
    assert two.certificate_.attainment == pytest.approx(one.certificate_.attainment, abs=2e-3)
    carried = septum.certify(scale * X[:60], one.dictionaries_, scale * one.codes_, scale * ALPHA)
    assert carried.attainment == pytest.approx(one.certificate_.attainment, abs=1e-9)


def test_refitting_forgets(X):
    est = SeparableDictionaryLearning(ALPHA, n_atoms=2, random_state=0).fit(X)
    est.fit(X[:, :, :50])
    assert est.shape_in_ == (10, 50)
    assert est.n_samples_seen_ == len(X)
    assert est.transform(X[:, :, :50]).shape[0] == len(X)


# --- parameters -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"alpha": 0}, "alpha must be positive"),
        ({"alpha": -1.0}, "alpha must be positive"),
        ({"alpha": np.nan}, "alpha must be positive"),
        ({"alpha": "large"}, "alpha must be one positive number"),
        ({"alpha": [1.0]}, "alpha must be one positive number"),
        ({"n_atoms": 0}, "n_atoms must be a positive whole number"),
        ({"n_atoms": (3, 0)}, "n_atoms must be a positive whole number"),
        ({"n_atoms": 2.5}, "n_atoms must be"),
        ({"n_atoms": "many"}, "n_atoms must be"),
        ({"n_atoms": True}, "n_atoms must be"),
        ({"n_atoms": (3, 3, 3)}, "names 3 caps, but each sample has 2 mode"),
        ({"tol": -0.1}, "tol must be a number of at least 0"),
        ({"tol": np.nan}, "tol must be"),
        ({"tol": "0.1"}, "tol must be"),
        ({"min_gain": -1}, "min_gain must be"),
        ({"solver": "magic"}, "solver must be one of"),
        ({"init": "warm"}, "init must be one of"),
        ({"init": 5}, "init must be one of"),
        ({"init": [np.eye(10)]}, "1 dictionaries were given"),
        ({"init": [np.eye(10), np.zeros((100, 2))]}, "without a nonzero atom"),
        ({"init": [np.eye(10), np.eye(99)]}, "atoms of length 99"),
        ({"init": [np.eye(10), np.eye(100)], "n_atoms": 3}, "more than n_atoms=3 allows"),
        ({"loss": "absolute"}, "loss must be one of"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"max_time": -1}, "max_time must be"),
        ({"n_jobs": 0}, "n_jobs=0"),
    ],
)
def test_a_wrong_parameter_is_named(X, params, message):
    est = SeparableDictionaryLearning(**{"alpha": ALPHA, **params})
    with pytest.raises(InvalidInputError, match=message):
        est.fit(X[:5])
    assert not hasattr(est, "dictionaries_")


@pytest.mark.parametrize("params", [{"loss": 3}, {"regularizer": "l2"}, {"callback": 3}])
def test_an_object_of_a_wrong_kind_is_named(X, params):
    with pytest.raises(InvalidTypeError, match=next(iter(params))):
        SeparableDictionaryLearning(ALPHA, **params).fit(X[:5])
