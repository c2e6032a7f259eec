"""Statistics, exact atom steps, gains: each compiled path against the plain formula."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import minimize

from septum.kronecker import flatten_codes, multiply, multiply_sparse
from septum.learning.atom import update_atoms, weighted_atom
from septum.learning.slab import slabs, statistics
from septum.learning.value import plain_gain, reconstruct

DIMENSIONS = [((4,), (6,)), ((1, 5), (2, 3)), ((3, 4), (5, 1)), ((3, 4, 2), (2, 3, 4))]


def make_case(dims, ranks, seed=0, n_samples=5, density=0.3):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, *dims))
    dictionaries = [rng.standard_normal((d, r)) for d, r in zip(dims, ranks, strict=True)]
    dictionaries = [A / np.linalg.norm(A, axis=0) for A in dictionaries]
    dense = rng.standard_normal((n_samples, *ranks)) * (rng.random((n_samples, *ranks)) < density)
    return X, dictionaries, dense, flatten_codes(dense, dense.shape, np.dtype(float))


def dense_partials(dictionaries, dense, mode):
    """P_t = unfold_k(C_t x_{j != k} A_j) by dense products."""
    others = [A if j != mode else np.eye(A.shape[1]) for j, A in enumerate(dictionaries)]
    partial = np.moveaxis(multiply(dense, others), mode + 1, 1)
    return partial.reshape(len(dense), partial.shape[1], -1)


@pytest.mark.parametrize(("dims", "ranks"), DIMENSIONS)
@given(seed=st.integers(0, 1000), density=st.sampled_from([0.0, 0.2, 1.0]))
def test_statistics_equal_their_dense_sums(dims, ranks, seed, density):
    X, dictionaries, dense, codes = make_case(dims, ranks, seed, density=density)
    for mode in range(len(dims)):
        P = dense_partials(dictionaries, dense, mode)
        unfolded = np.moveaxis(X, mode + 1, 1).reshape(len(X), dims[mode], -1)
        stats = statistics(X, codes, dictionaries, mode)
        np.testing.assert_allclose(stats.H, np.einsum("tip,tjp->ij", P, P), atol=1e-12)
        np.testing.assert_allclose(stats.G, np.einsum("tdp,tip->di", unfolded, P), atol=1e-12)
        axes = tuple(k for k in range(dense.ndim) if k != mode + 1)
        np.testing.assert_allclose(stats.weight, np.abs(dense).sum(axis=axes), atol=1e-12)


def test_statistics_of_batches_add_up():
    X, dictionaries, _, codes = make_case((3, 4), (5, 6), n_samples=9)
    whole = statistics(X, codes, dictionaries, 0)
    parts = statistics(X[:4], codes[:4], dictionaries, 0) + statistics(X[4:], codes[4:], dictionaries, 0)
    np.testing.assert_allclose(parts.G, whole.G, atol=1e-13)
    np.testing.assert_allclose(parts.H, whole.H, atol=1e-13)
    np.testing.assert_allclose((2.0 * 0.5 * parts.weight), whole.weight, atol=1e-13)


def test_slabs_are_the_nonzero_rows():
    _, dictionaries, dense, codes = make_case((3, 4), (5, 6))
    part = slabs(codes, dictionaries, 0)
    P = dense_partials(dictionaries, dense, 0)
    np.testing.assert_allclose(part.rows, P[part.sample, part.atom], atol=1e-13)
    assert len(part.sample) == np.count_nonzero(np.abs(dense).sum(axis=2))


@pytest.mark.parametrize(("dims", "ranks"), DIMENSIONS)
def test_compiled_reconstruction_and_gain(dims, ranks):
    X, dictionaries, dense, codes = make_case(dims, ranks)
    Z = multiply(dense, dictionaries)
    np.testing.assert_allclose(reconstruct(codes, dictionaries), multiply_sparse(codes, dictionaries), atol=1e-13)
    f_zero = 0.5 * (X**2).reshape(len(X), -1).sum(axis=1)
    f = 0.5 * ((X - Z) ** 2).reshape(len(X), -1).sum(axis=1)
    f += 0.7 * np.abs(dense).reshape(len(X), -1).sum(axis=1)
    np.testing.assert_allclose(plain_gain(X, codes, dictionaries, 0.7), f_zero - f, atol=1e-11)


def objective(X, dictionaries, dense, alpha):
    Z = multiply(dense, dictionaries)
    return 0.5 * ((X - Z) ** 2).sum() + alpha * np.abs(dense).sum()


@pytest.mark.parametrize(("dims", "ranks"), DIMENSIONS)
def test_atom_steps_lower_the_objective_and_beat_the_normalised_column(dims, ranks):
    X, dictionaries, dense, codes = make_case(dims, ranks, seed=3)
    alpha = 0.05
    for mode in range(len(dims)):
        stats = statistics(X, codes, dictionaries, mode)
        atoms, factor = update_atoms(dictionaries[mode], stats, alpha, sweeps=2)
        np.testing.assert_allclose(np.linalg.norm(atoms, axis=0), 1.0, atol=1e-12)
        shape = [1] * dense.ndim
        shape[mode + 1] = -1
        stepped = [atoms if k == mode else A for k, A in enumerate(dictionaries)]
        after = objective(X, stepped, dense * factor.reshape(shape), alpha)
        assert after <= objective(X, dictionaries, dense, alpha) + 1e-12
        assert after <= objective(X, stepped, dense, alpha) + 1e-12


def test_one_atom_step_is_exact():
    """A single atom: the step reaches what a general minimiser finds over direction and scale."""
    X, dictionaries, dense, codes = make_case((4, 3), (1, 4), seed=1)
    alpha = 0.2
    atoms, factor = update_atoms(dictionaries[0], statistics(X, codes, dictionaries, 0), alpha, sweeps=1)
    reached = objective(X, [atoms, dictionaries[1]], dense * factor[0], alpha)

    def cost(a):
        Z = multiply(dense, [a[:, None], dictionaries[1]])
        return 0.5 * ((X - Z) ** 2).sum() + alpha * np.abs(dense).sum() * np.linalg.norm(a)

    starts = np.random.default_rng(0).standard_normal((5, 4))
    best = min(minimize(cost, start, method="BFGS", options={"gtol": 1e-9}).fun for start in starts)
    assert reached == pytest.approx(best, rel=1e-9)


def test_unused_atoms_stay():
    X, dictionaries, dense, _ = make_case((4, 3), (3, 2))
    dense[:, 1] = 0.0
    codes = flatten_codes(dense, dense.shape, np.dtype(float))
    atoms, factor = update_atoms(dictionaries[0], statistics(X, codes, dictionaries, 0), 0.1)
    np.testing.assert_array_equal(atoms[:, 1], dictionaries[0][:, 1])
    assert factor[1] == 1.0


@given(seed=st.integers(0, 1000), penalty=st.sampled_from([0.0, 0.1, 1.0, 100.0]), blind=st.booleans())
def test_weighted_atom_is_stationary(seed, penalty, blind):
    rng = np.random.default_rng(seed)
    h, z = rng.random(6) + 0.05, rng.standard_normal(6)
    if blind:
        h[2] = z[2] = 0.0
    a = weighted_atom(z, h, penalty)
    if np.linalg.norm(z) <= penalty:
        assert not a.any()
        return
    assert a[2] == 0.0 or not blind
    np.testing.assert_allclose(h * a - z + penalty * a / np.linalg.norm(a), 0.0, atol=1e-9)


def test_weighted_atom_with_equal_weights_is_the_closed_form():
    z = np.array([3.0, -4.0])
    np.testing.assert_allclose(weighted_atom(z, np.full(2, 2.0), 1.0), (1 - 1.0 / 5.0) * z / 2.0)


def test_codes_without_sorted_indices_are_understood():
    X, dictionaries, dense, codes = make_case((3, 4), (5, 6))
    reversed_rows = codes.copy()
    for t in range(codes.shape[0]):
        row = slice(codes.indptr[t], codes.indptr[t + 1])
        reversed_rows.indices[row] = codes.indices[row][::-1]
        reversed_rows.data[row] = codes.data[row][::-1]
    reversed_rows = sparse.csr_array((reversed_rows.data, reversed_rows.indices, codes.indptr), shape=codes.shape)
    np.testing.assert_allclose(reconstruct(reversed_rows, dictionaries), multiply(dense, dictionaries), atol=1e-13)
    assert plain_gain(X, reversed_rows, dictionaries, 0.1) == pytest.approx(plain_gain(X, codes, dictionaries, 0.1))
