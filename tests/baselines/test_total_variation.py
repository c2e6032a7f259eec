"""Angular coding with total variation: the gap against CVXPY, its bound at any residual, the library's prox."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from skimage.restoration import denoise_tv_chambolle

from septum.baselines import total_variation_code
from septum.baselines.total_variation import _Problem, adjoint_gradient, gradient, variation
from septum.errors import InvalidInputError


def problem(seed=0, G=5, shape=(4, 3), r=8, dtype=np.float64):
    rng = np.random.default_rng(seed)
    atoms = rng.standard_normal((G, r))
    atoms /= np.linalg.norm(atoms, axis=0)
    codes = np.zeros((r, *shape))
    codes[1, : shape[0] // 2] = 2
    codes[3, shape[0] // 2 :] = -1.5
    S = atoms @ codes.reshape(r, -1) + 0.3 * rng.standard_normal((G, int(np.prod(shape))))
    return S.astype(dtype), atoms.astype(dtype)


def optimum(S, atoms, shape, alpha, beta):
    """The least objective by CVXPY, which shares nothing with the splitting."""
    H, W = shape
    C = cp.Variable((atoms.shape[1], S.shape[1]))
    Z = atoms @ C
    tv = 0
    for g in range(len(S)):
        for i in range(H):
            for j in range(W):
                here = Z[g, i * W + j]
                down = Z[g, (i + 1) * W + j] - here if i + 1 < H else 0
                right = Z[g, i * W + j + 1] - here if j + 1 < W else 0
                tv += cp.norm(cp.hstack([down, right]))
    objective = cp.sum_squares(Z - S) / 2 + alpha * cp.sum(cp.abs(C)) + beta * tv
    return cp.Problem(cp.Minimize(objective)).solve(solver=cp.CLARABEL)


@pytest.mark.parametrize(("alpha", "beta"), [(0.3, 0.1), (0.1, 0.5), (1.0, 0.02)])
def test_the_gap_encloses_the_optimum_and_closes(alpha, beta):
    S, atoms = problem()
    best = optimum(S, atoms, (4, 3), alpha, beta)
    found = total_variation_code(S, atoms, (4, 3), alpha, beta, tol=1e-4, max_iter=300)
    assert found.converged
    assert found.gap <= 1e-4
    assert found.lower_bound <= best * (1 + 1e-7) + 1e-7
    assert found.objective >= best * (1 - 1e-7)
    assert found.objective - best <= 1e-4 * np.sum(S**2) / 2
    np.testing.assert_allclose(found.gap, (found.objective - found.lower_bound) / (np.sum(S**2) / 2))


def test_the_objective_and_image_are_those_of_the_codes():
    S, atoms = problem(1)
    found = total_variation_code(S, atoms, (4, 3), 0.2, 0.2)
    C = found.codes.toarray().T
    np.testing.assert_allclose(found.image, atoms @ C, atol=1e-10)
    plain = np.sum((atoms @ C - S) ** 2) / 2 + 0.2 * np.abs(C).sum()
    Z = (atoms @ C).reshape(5, 4, 3)
    down, right = np.zeros_like(Z), np.zeros_like(Z)
    down[:, :-1] = Z[:, 1:] - Z[:, :-1]
    right[:, :, :-1] = Z[:, :, 1:] - Z[:, :, :-1]
    np.testing.assert_allclose(found.objective, plain + 0.2 * np.sqrt(down**2 + right**2).sum(), rtol=1e-10)


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), size=st.floats(0, 10), beta=st.floats(0.01, 2))
def test_the_lower_bound_holds_at_any_residual_and_field(seed, size, beta):
    """No solver is needed for it to be valid: it stays below the objective of any codes."""
    S, atoms = problem(2)
    made = _Problem(S, atoms, (4, 3), 0.3, beta)
    rng = np.random.default_rng(seed)
    residual = size * rng.standard_normal(S.shape)
    bound, field = made.lower_bound(residual, np.zeros((2, 5, 4, 3)))
    assert np.sqrt((field**2).sum(axis=0)).max() <= beta * (1 + 1e-12)
    for scale in (0, 0.1, 1):
        C = scale * rng.standard_normal((12, 8))
        assert bound <= made.objective(sparse.csr_array(C), atoms @ C.T) + 1e-9


@settings(deadline=None, max_examples=20)
@given(shape=st.lists(st.integers(1, 5), min_size=1, max_size=3), seed=st.integers(0, 2**32 - 1))
def test_adjoint_gradient_is_the_adjoint(shape, seed):
    rng = np.random.default_rng(seed)
    images = rng.standard_normal((2, *shape))
    field = rng.standard_normal((len(shape), 2, *shape))
    np.testing.assert_allclose(
        np.vdot(gradient(images), field), np.vdot(images, adjoint_gradient(field)), atol=1e-10
    )


def test_the_librarys_prox_is_that_of_our_total_variation():
    """Any other weight, boundary or discretisation would make this point better elsewhere."""
    rng = np.random.default_rng(3)
    images = rng.standard_normal((1, 6, 5))
    found = denoise_tv_chambolle(images, weight=0.4, eps=1e-14, max_num_iter=20000, channel_axis=0)

    def value(z):
        return np.sum((z - images) ** 2) / 2 + 0.4 * variation(z)

    best = cp.Variable((6, 5))
    down = cp.vstack([best[1:] - best[:-1], np.zeros((1, 5))])
    right = cp.hstack([best[:, 1:] - best[:, :-1], np.zeros((6, 1))])
    tv = cp.sum(cp.norm(cp.vstack([cp.vec(down, order="C"), cp.vec(right, order="C")]), axis=0))
    least = cp.Problem(cp.Minimize(cp.sum_squares(best - images[0]) / 2 + 0.4 * tv)).solve(solver=cp.CLARABEL)
    np.testing.assert_allclose(value(found), least, rtol=1e-5)
    np.testing.assert_allclose(found[0], best.value, atol=1e-2)


def test_zero_data_and_large_weights_give_zero_codes():
    _, atoms = problem()
    nothing = total_variation_code(np.zeros((5, 12)), atoms, (4, 3), 0.1, 0.1)
    assert nothing.converged
    assert nothing.codes.nnz == 0
    S, _ = problem()
    heavy = total_variation_code(S, atoms, (4, 3), 1e3, 0.1)
    assert heavy.codes.nnz == 0
    assert heavy.converged


def test_single_precision_is_kept_and_the_data_are_not_changed():
    S, atoms = problem(dtype=np.float32)
    before = S.copy()
    found = total_variation_code(S, atoms, (4, 3), 0.3, 0.1)
    assert found.image.dtype == np.float32
    np.testing.assert_array_equal(S, before)


@pytest.mark.parametrize(
    ("change", "value"),
    [
        ("S", np.ones((5, 11))),
        ("S", np.ones(5)),
        ("angular", np.ones((4, 8))),
        ("image_shape", (12, 2)),
        ("image_shape", "4x3"),
        ("alpha", 0),
        ("beta", -1),
        ("tol", -1),
        ("max_iter", 0),
    ],
)
def test_bad_input_is_named(change, value):
    S, atoms = problem()
    given_ = {"S": S, "angular": atoms, "image_shape": (4, 3), "alpha": 0.3, "beta": 0.1, change: value}
    with pytest.raises(InvalidInputError):
        total_variation_code(**given_)
