"""Online learning: statistics add up, atom steps are exact minimisers, streams reach what a fit reaches."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import septum
from septum import InvalidInputError, SeparableDictionaryLearning
from septum.datasets import make_separable
from septum.kronecker import explicit
from septum.learning.atom import update_atoms
from septum.learning.online import Online, Statistic, statistic
from septum.learning.slab import Statistics
from septum.loss import Huber
from septum.problem import Problem


def drawn(shape, r, seed, density=0.5):
    """Samples, unit dictionaries and CSR codes."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal(shape)
    dictionaries = [rng.standard_normal((d, size)) for d, size in zip(shape[1:], r, strict=True)]
    dictionaries = [A / np.linalg.norm(A, axis=0) for A in dictionaries]
    dense = rng.standard_normal((shape[0], int(np.prod(r)))) * (rng.uniform(size=(shape[0], int(np.prod(r)))) < density)
    return X, dictionaries, sparse.csr_array(dense)


CASES = [((7, 5), (3,)), ((6, 4, 5), (3, 2)), ((6, 1, 5), (2, 4)), ((5, 3, 2, 4), (2, 3, 2)), ((1, 4, 1), (2, 1))]


# --- statistics -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shape", "r"), CASES)
def test_statistics_are_their_definition(shape, r):
    X, dictionaries, codes = drawn(shape, r, 0)
    problem = Problem.of(X, 1.0)
    dense = codes.toarray().reshape(-1, *r)
    for k in range(len(r)):
        gram, cross = 0.0, 0.0
        for x, c in zip(X, dense, strict=True):
            others = [A if j != k else np.eye(r[k]) for j, A in enumerate(dictionaries)]
            full = (explicit(others) @ c.ravel()).reshape([r[k] if j == k else d for j, d in enumerate(shape[1:])])
            P = np.moveaxis(full, k, 0).reshape(r[k], -1)
            gram = gram + P @ P.T
            cross = cross + np.moveaxis(x, k, 0).reshape(shape[k + 1], -1) @ P.T
        known = statistic(problem, dictionaries, codes, k)
        np.testing.assert_allclose(known.gram, gram, atol=1e-12)
        np.testing.assert_allclose(known.cross, cross, atol=1e-12)
        other_axes = tuple(j for j in range(len(r) + 1) if j != k + 1)
        np.testing.assert_allclose(known.mass, np.abs(dense).sum(axis=other_axes), atol=1e-12)


@given(st.sampled_from(CASES), st.integers(0, 1000), st.integers(1, 6), st.booleans(), st.sampled_from(["squared", "huber"]))
def test_statistics_of_batches_add_up(case, seed, size, has_mask, loss):
    """With dictionaries and codes fixed, the statistics of k batches are those of one, to rounding."""
    (shape, r) = case
    X, dictionaries, codes = drawn(shape, r, seed)
    mask = None
    if has_mask:
        mask = np.random.default_rng(seed).uniform(size=shape) < 0.7
        mask.reshape(len(mask), -1)[:, 0] = True
    for k in range(len(r)):
        whole = statistic(Problem.of(X, 1.0, loss=loss, mask=mask), dictionaries, codes, k)
        total = Statistic.empty(*dictionaries[k].shape)
        for start in range(0, len(X), size):
            part = slice(start, start + size)
            problem = Problem.of(X[part], 1.0, loss=loss, mask=None if mask is None else mask[part])
            total = total + statistic(problem, dictionaries, codes[part], k)
        for name in ("gram", "cross", "mass"):
            np.testing.assert_allclose(getattr(total, name), getattr(whole, name), rtol=1e-12, atol=1e-12)


def test_chunks_do_not_change_statistics(monkeypatch):
    X, dictionaries, codes = drawn((20, 4, 5), (3, 2), 1)
    problem = Problem.of(X, 1.0)
    whole = statistic(problem, dictionaries, codes, 1)
    monkeypatch.setattr(
        "septum.learning.online.chunks", lambda count, size: [slice(i, i + 3) for i in range(0, count, 3)]
    )
    split = statistic(problem, dictionaries, codes, 1)
    np.testing.assert_allclose(split.gram, whole.gram, rtol=1e-13)
    np.testing.assert_allclose(split.cross, whole.cross, rtol=1e-13)


@pytest.mark.parametrize("loss", ["squared", Huber(0.3)])
def test_filled_in_data_majorise(loss):
    """The quadratic built from the statistics touches f at the current atoms and is nowhere below it."""
    rng = np.random.default_rng(0)
    X, dictionaries, codes = drawn((6, 4, 5), (3, 2), 2)
    mask = rng.uniform(size=X.shape) < 0.7
    problem = Problem.of(X, 1.0, loss=loss, mask=mask)
    known = statistic(problem, dictionaries, codes, 0)

    def true(A):
        Z = np.einsum("dr,trs,es->tde", A, codes.toarray().reshape(6, 3, 2), dictionaries[1])
        return problem.loss.value(np.where(mask, X - Z, 0)).sum()

    def model(A):
        return 0.5 * np.sum((A.T @ A) * known.gram) - np.sum(A * known.cross)

    offset = true(dictionaries[0]) - model(dictionaries[0])
    for _ in range(20):
        A = dictionaries[0] + rng.standard_normal((4, 3)) * rng.choice([1e-3, 0.1, 1.0])
        assert model(A) + offset >= true(A) - 1e-10


# --- atom steps -------------------------------------------------------------------------------------


def value(atoms, norm, known, alpha):
    """The objective of one mode in unnormalised atoms: unit atoms times the norms their codes took over."""
    A = atoms * norm
    return 0.5 * np.sum((A.T @ A) * known.gram) - np.sum(A * known.cross) + alpha * known.mass @ norm


def stepped(atoms, known, alpha):
    return update_atoms(atoms, Statistics(known.cross, known.gram, known.mass), alpha)


@given(st.sampled_from(CASES), st.integers(0, 1000), st.sampled_from([0.01, 0.3, 3.0]))
def test_atom_steps_descend(case, seed, alpha):
    shape, r = case
    X, dictionaries, codes = drawn(shape, r, seed)
    problem = Problem.of(X, alpha)
    for k in range(len(r)):
        known = statistic(problem, dictionaries, codes, k)
        before = value(dictionaries[k], np.ones(r[k]), known, alpha)
        arrays = [dictionaries[k], known.gram, known.cross, known.mass]
        untouched = [array.copy() for array in arrays]
        atoms, norm = stepped(dictionaries[k], known, alpha)
        for array, copy in zip(arrays, untouched, strict=True):
            np.testing.assert_array_equal(array, copy)
        assert value(atoms, norm, known, alpha) <= before + 1e-10 * (1 + abs(before))
        np.testing.assert_allclose(np.linalg.norm(atoms, axis=0), 1.0)


def test_codes_and_past_take_over_the_norms():
    """f of the unit atoms with rescaled codes is the model's value: nothing is lost in the rescaling."""
    X, dictionaries, codes = drawn((8, 4, 3), (3, 2), 4)
    alpha = 0.2
    problem = Problem.of(X, alpha)
    known = statistic(problem, dictionaries, codes, 0)
    atoms, norm = stepped(dictionaries[0], known, alpha)
    scaled = codes.toarray().reshape(8, 3, 2) * norm[:, None]
    certificate = septum.certify(X, [atoms, dictionaries[1]], scaled, alpha)
    assert certificate.objective == pytest.approx(0.5 * np.sum(X**2) + value(atoms, norm, known, alpha))
    after = statistic(problem, [atoms, dictionaries[1]], sparse.csr_array(scaled.reshape(8, -1)), 0)
    moved = known.rescaled(norm)
    np.testing.assert_allclose(after.gram, moved.gram, atol=1e-12)
    np.testing.assert_allclose(after.cross, moved.cross, atol=1e-12)
    np.testing.assert_allclose(after.mass, moved.mass, atol=1e-12)


# --- streams ----------------------------------------------------------------------------------------


def stream(est, X, size, passes):
    for _ in range(passes):
        for start in range(0, len(X), size):
            est.partial_fit(X[start : start + size])
    return est


@pytest.mark.parametrize(("alpha", "n_atoms"), [(0.9, (4, 8)), (0.85, (6, 14))])
def test_five_passes_reach_what_fit_reaches(alpha, n_atoms):
    X = make_separable(400, random_state=1).X
    whole = SeparableDictionaryLearning(alpha, n_atoms=n_atoms, random_state=0, tol=0.0).fit(X)
    online = stream(SeparableDictionaryLearning(alpha, n_atoms=n_atoms, random_state=0), X, 100, 5)
    assert all(A.shape[1] <= cap for A, cap in zip(online.dictionaries_, n_atoms, strict=True))
    assert online.score(X) >= whole.certificate_.attainment - 0.01
    assert online.n_samples_seen_ == 2000
    assert online.n_steps_ == 20


def test_poor_starts_are_left_behind():
    """From given random atoms, many idle: a stream improves pass by pass."""
    X = make_separable(200, random_state=0).X
    rng = np.random.default_rng(0)
    start = [rng.standard_normal((10, 4)), rng.standard_normal((100, 8))]
    est = SeparableDictionaryLearning(0.9, init=start)
    scores = [stream(est, X, 50, 1).score(X) for _ in range(4)]
    assert scores[0] > 0.5
    assert scores[-1] > 0.9
    assert [A.shape[1] for A in est.dictionaries_] == [4, 8]


def test_after_fit_the_stream_goes_on():
    X = make_separable(200, random_state=0).X
    est = SeparableDictionaryLearning(0.9, random_state=0).fit(X)
    shapes = [A.shape for A in est.dictionaries_]
    before = est.score(X)
    est.partial_fit(X)
    assert [A.shape for A in est.dictionaries_] == shapes
    assert est.score(X) >= before - 1e-3
    assert not hasattr(est, "codes_")
    assert not hasattr(est, "certificate_")
    assert est.n_samples_seen_ == 400
    assert est.transform(X[:3]).shape[0] == 3


def test_atoms_have_unit_norm_and_the_dtype_of_the_data():
    X = make_separable(60, random_state=0).X.astype(np.float32)
    est = stream(SeparableDictionaryLearning(0.9, n_atoms=3, random_state=0), X, 20, 1)
    for A in est.dictionaries_:
        assert A.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(A, axis=0), 1.0, atol=1e-6)


def test_batches_best_left_at_zero_wait_for_one_that_is_not():
    X = make_separable(60, random_state=0).X
    est = SeparableDictionaryLearning(0.9, random_state=0).partial_fit(np.zeros((5, 10, 100)))
    assert [A.shape for A in est.dictionaries_] == [(10, 0), (100, 0)]
    est.partial_fit(X)
    assert est.score(X) > 0.9


def test_memory_mapped_batches(tmp_path):
    X = make_separable(80, random_state=0).X.astype(np.float32)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    one = stream(SeparableDictionaryLearning(0.9, n_atoms=3, random_state=0), mapped, 40, 2)
    two = stream(SeparableDictionaryLearning(0.9, n_atoms=3, random_state=0), X, 40, 2)
    for A, B in zip(one.dictionaries_, two.dictionaries_, strict=True):
        np.testing.assert_array_equal(A, B)


@pytest.mark.parametrize("shape", [(60, 12), (40, 4, 3, 5)])
def test_any_number_of_modes(shape):
    rng = np.random.default_rng(0)
    r = (3,) * (len(shape) - 1)
    X, _, _ = drawn(shape, r, 0)
    _, dictionaries, codes = drawn(shape, r, 1, density=0.2)
    Z = codes.toarray() @ explicit(dictionaries).T
    X = 5 * Z.reshape(shape) + 0.05 * rng.standard_normal(shape)
    est = stream(SeparableDictionaryLearning(0.5, n_atoms=4, random_state=0), X, 20, 4)
    whole = SeparableDictionaryLearning(0.5, n_atoms=4, random_state=0).fit(X)
    assert est.score(X) >= whole.certificate_.attainment - 0.03


@pytest.mark.parametrize("loss", ["squared", Huber(0.5)])
def test_masked_streams(loss):
    X = make_separable(120, random_state=0).X
    mask = np.random.default_rng(0).uniform(size=X.shape) < 0.8
    holed = np.where(mask, X, np.nan)
    est = SeparableDictionaryLearning(0.7, n_atoms=(3, 6), loss=loss, random_state=0, max_iter=5)
    scores = []
    for _ in range(3):
        for start in range(0, 120, 60):
            part = slice(start, start + 60)
            est.partial_fit(holed[part], mask=mask[part])
        scores.append(est.score(holed, mask=mask))
    assert scores[-1] >= scores[0] - 1e-3
    assert scores[-1] > 0.6


def test_the_past_fades():
    """After n samples, a batch of b more leaves the past the weight (1 - b/n)^4."""
    X = make_separable(60, random_state=0).X
    start = [np.eye(10)[:, :3], np.eye(100)[:, :4]]
    state = Online.begin(Problem.of(X[:40], 0.3), start, None, lambda: None).updated(Problem.of(X[:40], 0.3))
    assert state.n_samples == 40
    empty = Problem.of(np.zeros((40, 10, 100)), 0.3)
    later = state.updated(empty)
    for old, new in zip(state.statistics, later.statistics, strict=True):
        assert np.trace(new.gram) <= np.trace(old.gram) * 0.5**4 * (1 + 1e-9)


def test_a_start_beyond_the_caps_is_refused():
    X = make_separable(10, random_state=0).X
    est = SeparableDictionaryLearning(0.9, init=[np.eye(10), np.eye(100)[:, :3]], n_atoms=4)
    with pytest.raises(InvalidInputError, match="more than"):
        est.partial_fit(X)
