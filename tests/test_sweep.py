"""Paths over alpha and fronts over sizes, against fits done by hand."""

import json

import numpy as np
import pytest

import septum
from septum import InvalidInputError, SeparableDictionaryLearning, front, path
from septum.datasets import make_separable
from septum.sweep import FrontPoint, _pareto, _sizes_up_to, _thinned


@pytest.fixture(scope="module")
def X():
    return make_separable(80, random_state=0).X


@pytest.fixture(scope="module")
def found(X):
    return front(X, 0.9, random_state=0)


# --- path -------------------------------------------------------------------------------------------


def test_path_keeps_the_order_given(X):
    got = path(X, [0.9, 0.97, 0.93], random_state=0)
    np.testing.assert_array_equal(got.alphas, [0.9, 0.97, 0.93])
    assert [est.alpha for est in got] == [0.9, 0.97, 0.93]
    assert len(got) == 3
    for i, alpha in enumerate(got.alphas):
        certificate = septum.certify(X, got[i].dictionaries_, got[i].codes_, alpha)
        assert got.attainment[i] == certificate.attainment >= 0.98 - 1e-6
        assert got.objective[i] == certificate.objective
        assert got.lower_bound[i] == pytest.approx(septum.global_optimum(X, alpha).value, rel=1e-9)
        assert got.nonzeros[i] == got[i].codes_.nnz
    assert got.atoms.shape == (3, 2)
    assert (got.seconds > 0).all()
    assert json.loads(json.dumps(got.to_dict()))["alphas"] == [0.9, 0.97, 0.93]


def test_each_fit_starts_from_the_last_dictionaries(X):
    got = path(X, [0.97, 0.9], n_atoms=4, random_state=0)
    assert got[0].init == "spectral"
    for A, B in zip(got[1].init, got[0].dictionaries_, strict=True):
        np.testing.assert_array_equal(A, B)
    by_hand = SeparableDictionaryLearning(0.9, n_atoms=4, random_state=0, init=got[0].dictionaries_).fit(X)
    np.testing.assert_array_equal(by_hand.codes_.toarray(), got[1].codes_.toarray())


def test_path_from_an_alpha_where_nothing_is_learnt(X):
    got = path(X, [0.95, 5.0], random_state=0)
    assert got.nonzeros[1] == 0
    assert got.attainment[1] == 1.0
    assert got[0].init == "spectral"
    assert got.nonzeros[0] > 0


def test_path_with_a_mask(X):
    mask = np.random.default_rng(0).uniform(size=X.shape) < 0.9
    got = path(np.where(mask, X, np.nan), 0.95, mask=mask, n_atoms=2, max_iter=3)
    certificate = septum.certify(X, got[0].dictionaries_, got[0].codes_, 0.95, mask=mask)
    assert certificate.to_dict() == got[0].certificate_.to_dict()


@pytest.mark.parametrize("alphas", [[], [0.5, 0.0], [np.nan], [-1.0]])
def test_path_refuses_alphas(X, alphas):
    with pytest.raises(InvalidInputError, match="alpha"):
        path(X, alphas)


# --- front ------------------------------------------------------------------------------------------


def test_front_rises(found):
    assert len(found) >= 4
    assert (np.diff(found.total) > 0).all()
    assert (np.diff(found.attainment) > 0).all()
    assert (np.diff(found.objective) < 0).all()
    np.testing.assert_array_equal(found.atoms.sum(axis=1), found.total)
    assert found.attainment[-1] >= 0.98 - 1e-6
    assert found.atoms[0].tolist() == [1, 1]


def test_points_are_certified(X, found):
    for point in found:
        assert tuple(A.shape[1] for A in point.dictionaries) == point.atoms
        codes = septum.sparse_code(X, point.dictionaries, 0.9, tol=1e-8).codes
        certificate = septum.certify(X, point.dictionaries, codes, 0.9)
        assert point.attainment == pytest.approx(certificate.attainment, abs=2e-3)


def test_front_as_data(found):
    record = json.loads(json.dumps(found.to_dict()))
    assert record["alpha"] == 0.9
    assert [point["total"] for point in record["points"]] == found.total.tolist()
    assert {point["source"] for point in record["points"]} <= {"growth", "fit"}
    assert found[0] is next(iter(found))


def test_reaching(found):
    point = found.reaching(0.5)
    assert point.attainment >= 0.5
    assert all(other.attainment < 0.5 for other in found if other.total < point.total)
    with pytest.raises(InvalidInputError, match="no point of the front reaches"):
        found.reaching(1.5)


def test_front_at_given_sizes_and_up_to_given_caps(X):
    got = front(X, 0.9, caps=[1, (2, 3)], n_atoms=(3, 4), random_state=0)
    assert {(1, 1), (2, 3)} <= {point.atoms for point in got if point.source == "fit"}
    assert (got.atoms <= [3, 4]).all()


def test_front_passes_on_the_callback(X):
    seen = []
    got = front(X, 0.9, caps=[], n_atoms=2, random_state=0, callback=lambda state: seen.append(state.atoms))
    assert seen
    assert len(got) >= 1


def test_front_of_nothing(X):
    got = front(X, 5.0)
    assert len(got) == 0
    with pytest.raises(InvalidInputError, match="no points"):
        got.plot()


def test_pareto_drops_what_is_beaten():
    def point(total, attainment, seconds=0.0):
        return FrontPoint((total,), attainment, -attainment, seconds, "fit", [])

    points = [point(3, 0.5), point(2, 0.6), point(2, 0.4), point(5, 0.9), point(6, 0.9), point(1, 0.1), point(2, 0.6, 9.0)]
    assert [(p.total, p.attainment, p.seconds) for p in _pareto(points)] == [(1, 0.1, 0), (2, 0.6, 0), (5, 0.9, 0)]
    many = [point(n, n / 100) for n in range(1, 41)]
    assert [p.total for p in _thinned(many, 3)] == [1, 6, 40]
    assert _thinned(many[:3], 3) == many[:3]


def test_sizes_between_one_and_the_largest():
    got = _sizes_up_to((16, 256))
    assert got == [(1, 1), (1, 2), (2, 4), (3, 8), (4, 16), (6, 32), (8, 64), (11, 128)]
    assert _sizes_up_to((1, 1)) == []


def test_they_print_as_short_tables():
    X = make_separable(40, random_state=0).X
    path, front = septum.path(X, [0.95, 0.9]), septum.front(X, 0.9, caps=[(1, 1)])
    assert [line.split()[:2] for line in repr(path).splitlines()[1:]] == [["alpha", "0.95"], ["alpha", "0.9"]]
    assert len(repr(front).splitlines()) == 1 + len(front)
    assert all(f"{p.total} atoms" in line for p, line in zip(front, repr(front).splitlines()[1:], strict=True))
