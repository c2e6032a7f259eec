"""Every loss against its definition: derivative, conjugate, Fenchel-Young gap, Lipschitz constant."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from septum.errors import InvalidInputError, InvalidTypeError
from septum.loss import Huber, Loss, Squared, as_loss

LOSSES = [Squared(), Huber(0.3), Huber(1.345), Huber(50.0)]
errors = st.lists(st.floats(-20, 20), min_size=1, max_size=20).map(np.array)
each_loss = pytest.mark.parametrize("loss", LOSSES, ids=str)


def feasible(loss, q):
    limit = min(loss.dual_limit, 30.0)
    return np.clip(q, -limit, limit)


@each_loss
@given(e=errors)
def test_zero_error_costs_nothing_and_signs_do_not_matter(loss, e):
    assert loss.value(np.zeros(3)).tolist() == [0, 0, 0]
    assert loss.influence(np.zeros(3)).tolist() == [0, 0, 0]
    np.testing.assert_array_equal(loss.value(e), loss.value(-e))
    np.testing.assert_array_equal(loss.influence(e), -loss.influence(-e))


@each_loss
@given(e=errors)
def test_influence_is_the_derivative(loss, e):
    h = 1e-6
    slope = (loss.value(e + h) - loss.value(e - h)) / (2 * h)
    np.testing.assert_allclose(loss.influence(e), slope, atol=2e-6)


@each_loss
@given(e=errors, f=errors)
def test_influence_is_lipschitz(loss, e, f):
    n = min(len(e), len(f))
    e, f = e[:n], f[:n]
    distance = np.abs(loss.influence(e) - loss.influence(f))
    assert (distance <= loss.lipschitz * np.abs(e - f) + 1e-12).all()


@each_loss
@given(q=errors)
def test_conjugate_is_the_supremum(loss, q):
    q = feasible(loss, q)
    grid = np.linspace(-60, 60, 4801)
    supremum = (q[:, None] * grid - loss.value(grid)).max(axis=1)
    np.testing.assert_allclose(loss.conjugate(q), supremum, atol=1e-3)


@each_loss
@given(e=errors, q=errors)
def test_fenchel_young_is_the_plain_sum_and_never_negative(loss, e, q):
    n = min(len(e), len(q))
    e, q = e[:n], feasible(loss, q[:n])
    gap = loss.fenchel_young(e, q)
    plain = loss.value(e) + loss.conjugate(q) - q * e
    assert (gap >= 0).all()
    np.testing.assert_allclose(gap, plain, atol=1e-10)


@each_loss
@given(e=errors)
def test_fenchel_young_vanishes_at_the_influence(loss, e):
    np.testing.assert_allclose(loss.fenchel_young(e, loss.influence(e)), 0.0, atol=1e-15)


def test_fenchel_young_keeps_digits_that_the_plain_sum_loses():
    e = np.array([1e4])
    q = e + 1e-5
    np.testing.assert_allclose(Squared().fenchel_young(e, q), 0.5e-10, rtol=1e-6)


@each_loss
def test_single_precision_stays_single(loss):
    e = np.linspace(-3, 3, 7, dtype=np.float32)
    assert loss.value(e).dtype == loss.influence(e).dtype == np.float32


def test_losses_by_name():
    assert as_loss("squared") == Squared()
    assert as_loss("huber") == Huber()
    own = Huber(2.0)
    assert as_loss(own) is own
    assert all(isinstance(loss, Loss) for loss in LOSSES)


def test_bad_losses():
    with pytest.raises(InvalidInputError, match="huber"):
        as_loss("absolute")
    for bad in (3, None, Huber):
        with pytest.raises(InvalidTypeError):
            as_loss(bad)
    for delta in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(InvalidInputError, match="delta"):
            Huber(delta)
