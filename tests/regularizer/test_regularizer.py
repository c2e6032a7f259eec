"""The contract of a rank-1 regulariser, checked for every one of them."""

from functools import partial

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import sparse

from septum.errors import InvalidInputError, InvalidTypeError
from septum.kronecker import flatten_codes
from septum.regularizer import (
    L1Atoms,
    Regularizer,
    Separable,
    SparseAtoms,
    SparseCodes,
    as_regularizer,
    l1_code,
    omega,
)
from strategies import make_case, make_samples, plain_reconstruction, seeds

# Each with the numbers of modes it is checked on.
REGULARIZERS = [
    (Separable(), (1, 2, 3)),
    (L1Atoms(0), (1, 2, 3)),
    (L1Atoms(1), (2, 3, 4)),
    (SparseAtoms(0.0, 1), (2,)),
    (SparseAtoms(0.4), (1, 2, 3)),
    (SparseAtoms(2.0, 1), (2,)),
    (SparseCodes(0.3), (1,)),
    (SparseCodes(0.0), (1,)),
]
each = pytest.mark.parametrize(
    ("regularizer", "modes"), REGULARIZERS, ids=[str(regularizer) for regularizer, _ in REGULARIZERS]
)


def draw_case(data, modes, max_side=4):
    n = data.draw(st.sampled_from(modes))
    shape = data.draw(st.tuples(st.integers(1, 3), *[st.integers(1, max_side)] * n))
    kind = data.draw(st.sampled_from(("gaussian", "ties", "rank one", "one sample zero")))
    return make_case(shape, kind, data.draw(seeds))


def csr(codes):
    return flatten_codes(codes, codes.shape, np.dtype(float))


def theta(regularizer, vectors, c):
    """theta(a_1, ..., a_n, c) of one joint atom."""
    codes = c.reshape(-1, *[1] * len(vectors))
    return float(regularizer.value([a[:, None] for a in vectors], csr(codes)).sum())


def draw_vectors(data, modes):
    n = data.draw(st.sampled_from(modes))
    rng = np.random.default_rng(data.draw(seeds))
    lengths = data.draw(st.tuples(*[st.integers(1, 4)] * (n + 1)))
    vectors = [rng.standard_normal(d) * (rng.uniform(size=d) < 0.8) for d in lengths]
    return vectors[:-1], vectors[-1]


# --- definition 3 ---------------------------------------------------------------------------------


@each
@given(data=st.data(), factor=st.floats(0, 5))
def test_homogeneous_of_degree_one_more_than_the_modes(regularizer, modes, data, factor):
    vectors, c = draw_vectors(data, modes)
    scaled = theta(regularizer, [factor * a for a in vectors], factor * c)
    np.testing.assert_allclose(
        scaled, factor ** (len(vectors) + 1) * theta(regularizer, vectors, c), rtol=1e-9, atol=1e-12
    )


@each
@given(data=st.data())
def test_definite_and_coercive(regularizer, modes, data):
    """theta is at least the norm of the outer product, hence positive unless it vanishes, and coercive."""
    vectors, c = draw_vectors(data, modes)
    outer = np.prod([np.linalg.norm(a) for a in [*vectors, c]])
    value = theta(regularizer, vectors, c)
    assert value >= outer * (1 - 1e-12)
    assert (value > 0) == (outer > 0)


@each
@given(data=st.data())
def test_signs_do_not_matter(regularizer, modes, data):
    vectors, c = draw_vectors(data, modes)
    np.testing.assert_allclose(theta(regularizer, vectors, -c), theta(regularizer, vectors, c))
    np.testing.assert_allclose(
        theta(regularizer, [-vectors[0], *vectors[1:]], c), theta(regularizer, vectors, c)
    )


# --- Theta and Omega --------------------------------------------------------------------------------


@each
@given(data=st.data())
def test_theta_sums_over_joint_atoms(regularizer, modes, data):
    case = draw_case(data, modes)
    total = 0.0
    for index in np.ndindex(*case.codes.shape[1:]):
        vectors = [A[:, i] for A, i in zip(case.dictionaries, index, strict=True)]
        total += theta(regularizer, vectors, case.codes[(slice(None), *index)])
    value = regularizer.value(case.dictionaries, csr(case.codes))
    assert value.shape == (len(case.X),)
    np.testing.assert_allclose(value.sum(), total, rtol=1e-10, atol=1e-12)


@each
@given(data=st.data())
def test_omega_is_below_every_factorisation(regularizer, modes, data):
    case = draw_case(data, modes)
    cost = regularizer.value(case.dictionaries, csr(case.codes)).sum()
    lower, upper = omega(case.reconstruction, regularizer)
    assert lower <= upper * (1 + 1e-12)
    assert lower <= cost * (1 + 1e-9) + 1e-9


@each
@given(data=st.data(), factor=st.floats(0, 5))
def test_omega_bounds_are_absolutely_homogeneous(regularizer, modes, data, factor):
    case = draw_case(data, modes, max_side=3)
    np.testing.assert_allclose(
        omega(-factor * case.X, regularizer),
        factor * np.array(omega(case.X, regularizer)),
        rtol=1e-6,
        atol=1e-9,
    )


@each
@given(data=st.data())
def test_omega_is_positive_and_obeys_the_triangle(regularizer, modes, data):
    case = draw_case(data, modes, max_side=3)
    lower, _ = omega(case.X, regularizer)
    assert (lower > 0) == bool(case.X.any())
    other = make_samples(case.X.shape, "gaussian", 99)
    assert omega(case.X + other, regularizer)[0] <= (
        omega(case.X, regularizer)[1] + omega(other, regularizer)[1]
    ) * (1 + 1e-9)


# --- polar --------------------------------------------------------------------------------------------


@each
@given(data=st.data())
def test_polar_bounds_are_ordered_and_attained(regularizer, modes, data):
    case = draw_case(data, modes)
    bounds = regularizer.polar(case.X)
    assert (bounds.lower <= bounds.upper).all()
    np.testing.assert_allclose(regularizer.polar_upper(case.X), bounds.upper, rtol=1e-9)
    sample = int(np.argmax(bounds.lower))
    atoms = regularizer.worst_atom(case.X, sample)
    for weight in regularizer.atom_weights([a[:, None] for a in atoms]):
        np.testing.assert_allclose(weight, 1.0, rtol=1e-9)
    if regularizer.couples_samples:
        v = case.X @ atoms[0]
        reached = SparseAtoms(regularizer.beta).polar(v[None]).lower[0]
    else:
        reached = partial(np.einsum, *_contraction(case.X.ndim - 1))(case.X[sample], *atoms)
    np.testing.assert_allclose(reached, bounds.lower[sample], rtol=1e-7, atol=1e-12)


def _contraction(n):
    letters = "abcdef"[:n]
    return (f"{letters},{','.join(letters)}->",)


@each
@given(data=st.data())
def test_no_factorisation_correlates_more_than_the_polar_allows(regularizer, modes, data):
    """<R, Z> <= sum_t polar(R_t) Theta_t(Z): the upper bound at random factors."""
    case = draw_case(data, modes)
    upper = regularizer.polar(case.X).upper
    correlation = (case.X * case.reconstruction).sum()
    allowed = (upper * regularizer.value(case.dictionaries, csr(case.codes))).sum()
    assert correlation <= allowed * (1 + 1e-9) + 1e-12


# --- proximal maps ----------------------------------------------------------------------------------


@each
@given(data=st.data())
def test_codes_prox_is_a_minimum(regularizer, modes, data):
    case = draw_case(data, modes)
    weights = regularizer.atom_weights(case.dictionaries)
    before = case.codes.copy()
    found = regularizer.prox_codes(case.codes, 0.3, weights)
    np.testing.assert_array_equal(case.codes, before)

    def cost(codes):
        theta_of = regularizer.value(case.dictionaries, csr(codes)).sum()
        return 0.5 * ((codes - case.codes) ** 2).sum() + 0.3 * theta_of

    rng = np.random.default_rng(case.seed)
    for step in (1e-1, 1e-3):
        for move in (rng.standard_normal(found.shape), case.codes - found, -found):
            assert cost(found) <= cost(found + step * move) + 1e-12


@each
@given(data=st.data())
def test_atoms_are_projected_on_the_unit_ball(regularizer, modes, data):
    case = draw_case(data, modes)
    for mode, A in enumerate(case.dictionaries):
        projected = regularizer.project_atoms(A, mode)
        all_but = [np.ones((1, 1))] * mode + [projected] + [np.ones((1, 1))] * (len(modes) + 3)
        n = len(case.dictionaries)
        assert (regularizer.atom_weights(all_but[:n])[mode] <= 1 + 1e-9).all()


# --- relaxations --------------------------------------------------------------------------------------


@each
@given(data=st.data(), threshold=st.sampled_from((0.2, 1.0, 3.0)))
def test_relaxations_leave_feasible_points_behind(regularizer, modes, data, threshold):
    case = draw_case(data, modes)
    for relaxation in regularizer.relaxations(case.X.shape[1:]):
        kept = relaxation.shrink(case.X, threshold)
        rest = case.X - kept
        assert regularizer.polar(rest).lower.max() <= threshold * (1 + 1e-9)
        inner = (rest * kept).sum()
        value = relaxation.value(kept).sum()
        if relaxation.is_exact:
            np.testing.assert_allclose(inner, threshold * value, rtol=1e-8, atol=1e-9)
            assert (relaxation.dual_norm(rest) <= threshold * (1 + 1e-9)).all()
        else:
            # inner / threshold is a lower bound of the value by feasibility, near it at the prox
            assert inner <= threshold * value + 1e-9
            assert inner >= threshold * value - 1e-3 * (case.X**2).sum() - 1e-9


@each
@given(data=st.data())
def test_dual_norms_bound_the_polar(regularizer, modes, data):
    case = draw_case(data, modes)
    lower = regularizer.polar(case.X).lower
    for relaxation in regularizer.relaxations(case.X.shape[1:]):
        assert (relaxation.dual_norm(case.X) >= lower * (1 - 1e-9)).all()


# --- stationarity -------------------------------------------------------------------------------------


@each
@pytest.mark.parametrize("small_joint", [0, 10**6])
@given(data=st.data(), alpha=st.sampled_from((0.3, 1.0, 5.0)))
def test_stationarity_is_the_plain_subgradient_distance(regularizer, modes, small_joint, data, alpha):
    case = draw_case(data, modes)
    upper = regularizer.polar_upper(case.X)
    kept, l1_code.SMALL_JOINT = l1_code.SMALL_JOINT, small_joint
    try:
        got = regularizer.stationarity(
            case.X, case.dictionaries, csr(case.codes), alpha, may_exceed=lambda level: upper > level * alpha
        )
    finally:
        l1_code.SMALL_JOINT = kept
    plain = plain_stationarity(regularizer, case, alpha)
    np.testing.assert_allclose(got, plain, rtol=1e-9, atol=1e-11)


def plain_stationarity(regularizer, case, alpha):
    """Condition 1 code by code, over all samples and joint atoms."""
    worst = 0.0
    weights = regularizer.atom_weights(case.dictionaries)
    for index in np.ndindex(*case.codes.shape[1:]):
        atom = np.ones(())
        weight = 1.0
        for A, w, i in zip(case.dictionaries, weights, index, strict=True):
            atom, weight = np.multiply.outer(atom, A[:, i]), weight * w[i]
        if weight == 0:
            continue
        g = np.tensordot(case.X, atom, axes=atom.ndim) / (alpha * weight)
        c = case.codes[(slice(None), *index)]
        beta = regularizer.beta if regularizer.couples_samples else 1.0
        group = c / np.linalg.norm(c) if regularizer.couples_samples and c.any() else 0 * c
        if regularizer.couples_samples and not c.any():
            worst = max(worst, np.linalg.norm(np.maximum(np.abs(g) - beta, 0)) - 1)
            continue
        on = np.abs(g - group - beta * np.sign(c))[c != 0]
        off = np.abs(g)[c == 0] - beta
        worst = max(worst, on.max(initial=0), off.max(initial=0))
    return worst


# --- checks ---------------------------------------------------------------------------------------------


@each
def test_they_are_regularisers(regularizer, modes):
    assert isinstance(regularizer, Regularizer)
    assert as_regularizer(regularizer) is regularizer
    for n in modes:
        regularizer.check(n)


def test_the_default_is_the_papers():
    assert as_regularizer(None) == Separable()


@pytest.mark.parametrize("bad", ["separable", 3, Separable])
def test_other_objects_are_refused(bad):
    with pytest.raises(InvalidTypeError, match="regularizer"):
        as_regularizer(bad)


def test_impossible_modes_and_weights_are_refused():
    for make in (lambda: SparseAtoms(-1.0), lambda: SparseAtoms(np.nan), lambda: SparseCodes("a")):
        with pytest.raises(InvalidInputError, match="beta"):
            make()
    for make in (lambda: L1Atoms(-1), lambda: L1Atoms(0.5), lambda: L1Atoms(True)):
        with pytest.raises(InvalidInputError, match="mode"):
            make()
    with pytest.raises(InvalidInputError, match="mode 2"):
        L1Atoms(2).check(2)
    with pytest.raises(InvalidInputError, match="one mode"):
        SparseCodes(0.1).check(2)


@given(data=st.data())
def test_sparse_atoms_without_beta_are_the_papers(data):
    case = draw_case(data, (2,))
    paper, same = Separable(), SparseAtoms(0.0)
    codes = csr(case.codes)
    np.testing.assert_allclose(same.value(case.dictionaries, codes), paper.value(case.dictionaries, codes))
    np.testing.assert_allclose(same.polar(case.X).upper, paper.polar(case.X).upper)
    np.testing.assert_allclose(same.polar(case.X).lower, paper.polar(case.X).lower, rtol=1e-7)


@given(data=st.data())
def test_plain_dictionary_learning_is_exact(data):
    """Section 2, u l2 and v l1: with samples as columns, Omega sums column norms, the polar is their maximum."""
    case = draw_case(data, (1,))
    norms = np.linalg.norm(case.X, axis=1)
    np.testing.assert_allclose(omega(case.X), norms.sum())
    np.testing.assert_allclose(Separable().polar(case.X).lower, norms)
    np.testing.assert_allclose(Separable().polar(case.X).upper, norms)


@given(data=st.data())
def test_polar_of_l1_atoms_is_the_largest_row_norm(data):
    case = draw_case(data, (2,))
    rows = np.linalg.norm(case.X, axis=2)
    np.testing.assert_allclose(L1Atoms(0).polar(case.X).lower, rows.max(axis=1))
    np.testing.assert_allclose(omega(case.X, L1Atoms(0)), rows.sum())
    columns = np.linalg.norm(case.X, axis=1)
    np.testing.assert_allclose(L1Atoms(1).polar(case.X).upper, columns.max(axis=1))


@given(data=st.data(), beta=st.floats(0.01, 5))
def test_polar_of_sparse_atoms_is_below_the_printed_bound(data, beta):
    """1 / (1 / sigma_max + beta / max row norm)."""
    case = draw_case(data, (2,))
    assume(case.X.any(axis=(1, 2)).all())
    sigma = np.linalg.svd(case.X, compute_uv=False)[:, 0]
    row = np.linalg.norm(case.X, axis=2).max(axis=1)
    np.testing.assert_allclose(SparseAtoms(beta).polar(case.X).upper, 1 / (1 / sigma + beta / row))


@given(seed=seeds)
def test_omega_of_an_orthogonal_tensor_is_exact(seed):
    """Where the rank-one terms are orthogonal in every mode both bounds are the sum of their weights."""
    rng = np.random.default_rng(seed)
    bases = [np.linalg.qr(rng.standard_normal((d, d)))[0][:, :3] for d in (3, 4, 5)]
    weights = rng.uniform(0.5, 2.0, size=(2, 3))
    Z = np.einsum("ti,ai,bi,ci->tabc", weights, *bases)
    np.testing.assert_allclose(omega(Z), weights.sum(), rtol=1e-9)


@given(seed=seeds)
def test_omega_of_one_rank_one_tensor_is_the_product_of_norms(seed):
    X = make_samples((2, 3, 4, 2), "rank one", seed)
    np.testing.assert_allclose(omega(X), np.sqrt((X**2).sum(axis=(1, 2, 3))).sum(), rtol=1e-9)


def test_a_tensor_with_a_mode_of_one_is_a_matrix():
    X = make_samples((3, 4, 1, 5), "gaussian", 0)
    np.testing.assert_allclose(omega(X), omega(X[:, :, 0]))
    bounds = Separable().polar(X)
    np.testing.assert_array_equal(bounds.lower, bounds.upper)


@pytest.mark.parametrize("shape", [(4, 3), (3, 3, 5), (2, 3, 4, 2)])
def test_explicit_factorisations_rebuild_the_array(shape):
    from septum.regularizer.gauge import factorizations, joint_factorizations

    X = make_samples(shape, "ties", 3)
    for one in X:
        for dictionaries, codes in factorizations(one) if one.ndim > 1 else ():
            r = [A.shape[1] for A in dictionaries]
            dense = codes.toarray().reshape(1, *r)
            np.testing.assert_allclose(plain_reconstruction(dictionaries, dense)[0], one, atol=1e-12)
    if X.ndim == 2:
        for dictionaries, codes in joint_factorizations(X):
            np.testing.assert_allclose(codes.toarray() @ dictionaries[0].T, X, atol=1e-12)


def test_omega_of_many_samples_goes_by_chunks(monkeypatch):
    X = make_samples((7, 3, 4, 2), "gaussian", 5)
    whole = omega(X)
    monkeypatch.setattr(
        "septum.regularizer.gauge.chunks", lambda n, size: (slice(t, t + 2) for t in range(0, n, 2))
    )
    np.testing.assert_allclose(omega(X), whole)


def test_codes_that_must_be_non_negative_change_nothing():
    """A sign moves into an atom at no cost, so Omega is reached with non-negative codes."""
    case = make_case((3, 4, 5), "gaussian", 11)
    A, B = case.dictionaries
    signed = csr(case.codes)
    doubled = [np.hstack([A, -A]), B]
    positive = np.concatenate([np.maximum(case.codes, 0), np.maximum(-case.codes, 0)], axis=1)
    assert (positive >= 0).all()
    np.testing.assert_allclose(plain_reconstruction(doubled, positive), case.reconstruction)
    for regularizer in (Separable(), L1Atoms(0), SparseAtoms(0.5)):
        np.testing.assert_allclose(
            regularizer.value(doubled, csr(positive)), regularizer.value(case.dictionaries, signed)
        )


def test_zero_atoms_cost_nothing_and_violate_nothing():
    dictionaries = [np.zeros((3, 2)), np.eye(4)]
    codes = sparse.csr_array(np.ones((2, 8)))
    regularizer = Separable()
    assert regularizer.value(dictionaries, codes).tolist() == [0, 0]
    X = make_samples((2, 3, 4), "gaussian", 0)
    assert (
        regularizer.stationarity(X, dictionaries, codes, 0.1, may_exceed=lambda level: np.ones(2, bool)) == 0
    )
