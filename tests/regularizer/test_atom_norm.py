"""Projections, the proximal map and the dual norm of atoms, against definitions and a convex solver."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from septum.regularizer.atom_norm import (
    project_l1,
    project_l2,
    project_sparse,
    sparse_dual_norm,
    sparse_maximizer,
    sparse_norm,
    sparse_prox,
)

BETAS = (0.0, 0.2, 1.0, 30.0)
PROJECTIONS = {
    "l2": (project_l2, lambda g: np.linalg.norm(g, axis=0)),
    "l1": (project_l1, lambda g: np.abs(g).sum(axis=0)),
    **{
        f"sparse {beta}": (lambda g, b=beta: project_sparse(g, b), lambda g, b=beta: sparse_norm(g, b))
        for beta in BETAS
    },
}
each_projection = pytest.mark.parametrize("name", PROJECTIONS)


@st.composite
def atoms(draw):
    """Columns of mixed sizes, some zero, some with ties, some inside the ball."""
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    g = rng.standard_normal((draw(st.integers(1, 6)), draw(st.integers(1, 4))))
    kind = draw(st.sampled_from(("plain", "ties", "small", "large", "zero")))
    if kind == "ties":
        g = np.round(g)
    return g * {"small": 0.05, "large": 1e4, "zero": 0.0}.get(kind, 1.0)


@each_projection
@given(g=atoms())
def test_projections_land_in_the_ball_and_stay(name, g):
    project, norm = PROJECTIONS[name]
    p = project(g)
    assert (norm(p) <= 1 + 1e-12).all()
    np.testing.assert_allclose(project(p), p, atol=1e-12)
    inside = norm(g) <= 1
    np.testing.assert_array_equal(p[:, inside], g[:, inside])


@each_projection
@given(g=atoms(), seed=st.integers(0, 1000))
def test_projections_are_nearest(name, g, seed):
    """<g - p, h - p> <= 0 for every h of the ball: random ones, and those best aligned with g - p."""
    project, norm = PROJECTIONS[name]
    p = project(g)
    rng = np.random.default_rng(seed)
    others = [rng.standard_normal(g.shape), np.sign(g - p), g - p, np.eye(len(g))[:, [0] * g.shape[1]]]
    for h in others:
        h = h / np.maximum(norm(h), 1e-300)
        inner = ((g - p) * (h - p)).sum(axis=0)
        assert (inner <= 1e-10 * (1 + np.abs(g).max() ** 2)).all()


@pytest.mark.parametrize("beta", [0.0, 0.3, 2.0])
def test_sparse_projection_and_dual_norm_against_a_convex_solver(beta):
    rng = np.random.default_rng(0)
    for _ in range(3):
        g = 2 * rng.standard_normal(5)
        h = cp.Variable(5)
        ball = [cp.norm2(h) + beta * cp.norm1(h) <= 1]
        distance = cp.Problem(cp.Minimize(cp.norm2(h - g)), ball).solve(solver="CLARABEL")
        found = project_sparse(g[:, None], beta)[:, 0]
        np.testing.assert_allclose(np.linalg.norm(found - g), distance, rtol=1e-7)
        np.testing.assert_allclose(found, h.value, atol=1e-3)
        best = cp.Problem(cp.Maximize(g @ h), ball).solve(solver="CLARABEL")
        np.testing.assert_allclose(sparse_dual_norm(g[:, None], beta)[0], best, rtol=1e-6)


@given(g=atoms(), beta=st.sampled_from(BETAS))
def test_the_dual_norm_is_attained_and_never_exceeded(g, beta):
    value, h = sparse_maximizer(g, beta)
    np.testing.assert_allclose(sparse_norm(h, beta), 1.0, rtol=1e-12)
    np.testing.assert_allclose((g * h).sum(axis=0), value, rtol=1e-9, atol=1e-300)
    np.testing.assert_allclose(value, sparse_dual_norm(g, beta))
    rng = np.random.default_rng(1)
    for _ in range(20):
        other = rng.standard_normal(g.shape)
        other[rng.uniform(size=g.shape) < 0.5] = 0.0
        assert ((g * other).sum(axis=0) <= value * sparse_norm(other, beta) * (1 + 1e-9) + 1e-12).all()


@given(g=atoms(), beta=st.sampled_from(BETAS), mu=st.sampled_from((0.1, 1.0, 3.0)))
def test_the_prox_satisfies_moreau(g, beta, mu):
    """g - prox(g) has dual norm at most mu and attains <rest, prox> = mu N(prox)."""
    p = sparse_prox(g, mu, beta)
    rest = g - p
    tolerance = 1e-11 * (1 + np.abs(g).max()) ** 2
    assert (sparse_dual_norm(rest, beta) <= mu + tolerance).all()
    np.testing.assert_allclose((rest * p).sum(axis=0), mu * sparse_norm(p, beta), atol=tolerance, rtol=1e-9)


@each_projection
def test_single_precision_stays_single(name):
    g = np.ones((4, 2), dtype=np.float32)
    assert PROJECTIONS[name][0](g).dtype == np.float32
