"""Every row of the comparison through the one interface."""

import json

import numpy as np
import pytest

from septum import sparse_code
from septum.baselines import KSVD, Method, catalogue, paper_methods
from septum.baselines.catalogue import angular_signals, spatial_signals
from septum.dictionaries import curvelet, dct, spherical_ridgelets
from septum.errors import InvalidInputError, SeptumError

G, P = 8, 4
ALPHA = 0.3
SMALL = {"n_nonzero": 2, "max_iter": 6}


def directions():
    u = np.random.default_rng(0).standard_normal((G, 3))
    return u / np.linalg.norm(u, axis=1, keepdims=True)


def patches(n=12, seed=0):
    rng = np.random.default_rng(seed)
    A, B = rng.standard_normal((G, 4)), rng.standard_normal((P * P, 5))
    A, B = A / np.linalg.norm(A, axis=0), B / np.linalg.norm(B, axis=0)
    C = 3 * rng.standard_normal((n, 4, 5)) * (rng.random((n, 4, 5)) < 0.2)
    return A @ C @ B.T + 0.05 * rng.standard_normal((n, G, P * P))


def rows():
    u = directions()
    few = spherical_ridgelets(u, levels=0)
    return [
        catalogue.fixed("I-SR", few, None),
        catalogue.fixed("DCT-SR", few, dct((P, P))),
        catalogue.i_ksvd(**SMALL),
        catalogue.ksvd_ksvd(angular=SMALL, spatial=SMALL),
        catalogue.kdrsdl(),
        catalogue.kdrsdl_tuned(ALPHA, alphas=(1e-2,), lams=(0.1, 1.0), max_iter=50),
        catalogue.pca((3, 5)),
        catalogue.closed_form(ALPHA, 10),
        catalogue.proposed(ALPHA, n_atoms=6, tol=0.1),
    ]


def vectorised_rows():
    return [
        catalogue.mini_batch(6, ALPHA, max_iter=5),
        catalogue.kronecker_sum(catalogue.pca((3, 5)).learner, ALPHA, 2, max_iter=2),
        catalogue.non_separable(ALPHA, 6, tol=0.1),
    ]


@pytest.mark.parametrize("method", rows(), ids=lambda m: m.name)
def test_separable_rows_fit_code_reconstruct_and_describe(method):
    X = patches()
    before = X.copy()
    assert isinstance(method, Method)
    assert method.describe()["fitted"] is False
    assert method.fit(X) is method
    found = method.code(X, ALPHA)
    angular, spatial = method.dictionaries_
    spatial = np.eye(P * P) if spatial is None else spatial
    np.testing.assert_allclose(np.linalg.norm(angular, axis=0), 1, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(spatial, axis=0), 1, atol=1e-6)
    assert found.codes.shape == (12, angular.shape[1], spatial.shape[1])
    rebuilt = angular @ found.codes.toarray() @ spatial.T
    np.testing.assert_allclose(method.reconstruct(X, ALPHA), rebuilt, atol=1e-10)
    assert np.linalg.norm(X - rebuilt) < np.linalg.norm(X)
    said = json.loads(json.dumps(method.describe()))
    assert said["fitted"]
    assert said["name"] == method.name
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("method", vectorised_rows(), ids=lambda m: m.name)
def test_vectorised_rows_fit_code_reconstruct_and_describe(method):
    X = patches()
    assert isinstance(method, Method)
    method.fit(X)
    (dictionary,) = method.dictionaries_
    found = method.code(X, ALPHA)
    dense = dictionary @ np.eye(dictionary.shape[1])
    np.testing.assert_allclose(np.linalg.norm(dense, axis=0), 1, atol=1e-6)
    rebuilt = (found.codes.toarray() @ dense.T).reshape(X.shape)
    np.testing.assert_allclose(method.reconstruct(X, ALPHA), rebuilt, atol=1e-10)
    said = json.loads(json.dumps(method.describe()))
    assert said["entries"] > 0


def test_coding_each_voxel_alone_is_coding_on_the_identity():
    X = patches(4)
    angular = spherical_ridgelets(directions(), levels=0)
    alone = catalogue.fixed("I", angular, None, tol=1e-9).fit(X)
    joint = catalogue.fixed("eye", angular, np.eye(P * P), tol=1e-9).fit(X)
    np.testing.assert_allclose(alone.reconstruct(X, ALPHA), joint.reconstruct(X, ALPHA), atol=1e-4)


def test_i_sr_and_i_sr_tv_differ_by_total_variation_alone():
    X = patches(2)
    plain = catalogue.i_sr(directions()).fit(X)
    light = catalogue.i_sr_tv(directions(), (P, P), strength=1e-6, tol=1e-6, max_iter=40).fit(X)
    np.testing.assert_allclose(light.reconstruct(X, ALPHA), plain.reconstruct(X, ALPHA), atol=2e-2)
    heavy = catalogue.i_sr_tv(directions(), (P, P), strength=3.0)
    image = heavy.fit(X).reconstruct(X, ALPHA).reshape(2, G, P, P)
    rough = plain.reconstruct(X, ALPHA).reshape(2, G, P, P)
    assert np.abs(np.diff(image, axis=2)).sum() < 0.5 * np.abs(np.diff(rough, axis=2)).sum()
    assert all(result.gap <= heavy.tol for result in heavy.results_)
    assert heavy.code(X, ALPHA).codes.shape == (2, 395, P * P)


def test_a_curvelet_row_as_matrix_and_as_operator():
    X = patches(2)
    angular = np.linalg.qr(np.random.default_rng(0).standard_normal((G, G)))[0]
    matrix = catalogue.fixed("matrix", angular, curvelet((P, P), scales=2), tol=1e-8).fit(X)
    operator = catalogue.fixed("operator", angular, curvelet((P, P), scales=2, operator=True), tol=1e-8).fit(
        X
    )
    np.testing.assert_allclose(
        matrix.reconstruct(X, 2 * ALPHA), operator.reconstruct(X, 2 * ALPHA), atol=5e-3
    )


def test_signals_are_columns_and_rows():
    X = patches(3)
    np.testing.assert_array_equal(angular_signals(X)[P * P + 2], X[1, :, 2])
    np.testing.assert_array_equal(spatial_signals(X)[G + 2], X[1, 2])


def test_ksvd_ksvd_learns_each_side_alone():
    X = patches()
    both = catalogue.ksvd_ksvd(angular=SMALL, spatial=SMALL).fit(X)
    left = KSVD(random_state=0, **SMALL).fit(angular_signals(X)).dictionary_
    right = KSVD(random_state=0, **SMALL).fit(spatial_signals(X)).dictionary_
    np.testing.assert_array_equal(both.dictionaries_[0], left)
    np.testing.assert_array_equal(both.dictionaries_[1], right)
    np.testing.assert_array_equal(catalogue.i_ksvd(**SMALL).fit(X).dictionaries_[0], left)


def test_kdrsdl_keeps_its_error_term():
    X = patches()
    method = catalogue.kdrsdl(lam=0.5).fit(X)
    model = method.learned_.model
    assert model.errors_.shape == X.shape
    share = np.linalg.norm(model.errors_) / np.linalg.norm(X)
    np.testing.assert_allclose(method.describe()["error_share"], share)


def test_the_closed_forms_atoms_are_the_strongest_singular_pairs():
    X = patches(1)
    method = catalogue.closed_form(ALPHA, 1).fit(X)
    u, _, vt = np.linalg.svd(X[0])
    np.testing.assert_allclose(abs(u[:, 0] @ method.dictionaries_[0]), 1)
    np.testing.assert_allclose(abs(vt[0] @ method.dictionaries_[1]), 1)
    with pytest.raises(InvalidInputError, match="smaller"):
        catalogue.closed_form(1e4).fit(X)


def test_pca_codes_are_soft_thresholded_coefficients():
    X = patches()
    method = catalogue.pca().fit(X)
    method.tol = 1e-10
    A, B = method.dictionaries_
    plain = A.T @ X @ B
    expected = np.sign(plain) * np.maximum(np.abs(plain) - ALPHA, 0)
    np.testing.assert_allclose(method.code(X, ALPHA).codes.toarray(), expected, atol=1e-4)


def test_the_papers_nine_rows_are_named_as_in_its_tables():
    methods = paper_methods(directions(), (P, P), ALPHA)
    assert [m.name for m in methods] == [
        "I-SR", "I-SR+TV", "Curve-SR", "I-KSVD", "Curve-KSVD", "KSVD-SR", "KSVD-KSVD", "KDRSDL", "Proposed",
    ]  # fmt: skip
    assert [m.describe()["kind"] for m in methods] == ["fixed"] * 3 + ["separate"] * 4 + ["joint"] * 2


def test_learned_rows_with_a_fixed_side():
    X = patches()
    u = directions()
    curve = catalogue.curve_ksvd((P, P), **SMALL).fit(X)
    assert curve.dictionaries_[1].shape[0] == P * P
    ridge = catalogue.ksvd_sr(u, **SMALL).fit(X)
    np.testing.assert_array_equal(ridge.dictionaries_[0], spherical_ridgelets(u))


def test_single_precision_patches_give_single_precision():
    X = patches().astype(np.float32)
    for method in (
        catalogue.pca(),
        catalogue.i_ksvd(**SMALL),
        catalogue.fixed("f", np.eye(G), np.eye(P * P)),
    ):
        assert method.fit(X).reconstruct(X, ALPHA).dtype == np.float32


def test_a_methods_codes_are_those_of_sparse_code():
    X = patches()
    method = catalogue.ksvd_ksvd(angular=SMALL, spatial=SMALL).fit(X)
    plain = sparse_code(X, method.dictionaries_, ALPHA)
    np.testing.assert_array_equal(method.code(X, ALPHA).codes.toarray(), plain.codes.toarray())


def test_bad_input_is_named():
    X = patches()
    with pytest.raises(SeptumError, match="fit"):
        catalogue.pca().code(X, ALPHA)
    with pytest.raises(InvalidInputError, match="T, G, V"):
        catalogue.pca().fit(X[0])
    with pytest.raises(InvalidInputError):
        catalogue.pca((0, 3))
    with pytest.raises(InvalidInputError):
        catalogue.pca((3,))
    with pytest.raises(InvalidInputError):
        catalogue.mini_batch(0)
    with pytest.raises(InvalidInputError):
        catalogue.proposed(-1)
    with pytest.raises(InvalidInputError, match="shape"):
        catalogue.i_sr_tv(directions(), (3, 3)).fit(X)
    with pytest.raises(InvalidInputError):
        catalogue.i_sr_tv(directions(), (P, P), strength=0)
    with pytest.raises(InvalidInputError, match="matrices"):
        catalogue.kronecker_sum(catalogue.i_ksvd(**SMALL).learner, ALPHA).fit(X)
