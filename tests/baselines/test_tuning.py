"""KDRSDL's weights chosen on held-out samples."""

import numpy as np
import pytest

from septum import sparse_code
from septum.baselines import KDRSDL, tuned_kdrsdl
from septum.errors import InvalidInputError


def samples(seed=0):
    rng = np.random.default_rng(seed)
    A, B = rng.standard_normal((6, 3)), rng.standard_normal((8, 3))
    return A @ (
        rng.standard_normal((25, 3, 3)) * (rng.random((25, 3, 3)) < 0.5)
    ) @ B.T + 0.1 * rng.standard_normal((25, 6, 8))


def test_the_best_pair_on_held_out_samples_is_fitted_to_all():
    X = samples()
    model, tried = tuned_kdrsdl(X, 0.3, alphas=(1e-2, 1e-1), lams=(0.05, 0.5), max_iter=60)
    best = min(tried, key=lambda pair: pair["objective"])
    assert len(tried) == 4
    assert (model.alpha, model.lam) == (best["alpha"], best["lam"])
    again = KDRSDL(model.alpha, model.lam, max_iter=60).fit(X)
    np.testing.assert_array_equal(model.dictionaries_[0], again.dictionaries_[0])


def test_the_score_is_the_lasso_objective_on_the_held_out_samples():
    X = samples(1)
    _, tried = tuned_kdrsdl(X, 0.3, alphas=(1e-2,), lams=(0.5,), random_state=3, max_iter=60)
    order = np.random.RandomState(3).permutation(25)
    judges, learning = X[np.sort(order[:5])], X[np.sort(order[5:])]
    A, B = KDRSDL(1e-2, 0.5, max_iter=60).fit(learning).dictionaries_
    C = sparse_code(judges, [A, B], 0.3).codes.toarray()
    expected = np.sum((judges - A @ C @ B.T) ** 2) / 2 + 0.3 * np.abs(C).sum()
    np.testing.assert_allclose(tried[0]["objective"], expected, rtol=1e-8)


def test_a_weight_that_leaves_no_atoms_scores_as_zero_codes():
    X = samples(2)
    _, tried = tuned_kdrsdl(X, 0.3, alphas=(1.0,), lams=(1e-6, 5.0), max_iter=60)
    judges = X[np.sort(np.random.RandomState(0).permutation(25)[:5])]
    np.testing.assert_allclose(tried[0]["objective"], np.sum(judges**2) / 2)
    assert tried[1]["objective"] < tried[0]["objective"]


@pytest.mark.parametrize(
    "options", [{"held_out": 0.001}, {"held_out": 2}, {"alphas": ()}, {"lams": (-1,)}, {"alphas": (0,)}]
)
def test_bad_input_is_named(options):
    with pytest.raises(InvalidInputError):
        tuned_kdrsdl(samples(), 0.3, **options)
