"""Moments of magnitude noise against samples and integrals, and the inverses as identities."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, special

from septum.dmri import rician
from septum.errors import InvalidInputError

COILS = [1, 2, 4, 12]


def density(m: float, A: float, n: int) -> float:
    """p(m | A) of the non-central chi law with 2n channels, from its textbook form."""
    return m * (m / A) ** (n - 1) * np.exp(-((m - A) ** 2) / 2) * special.ive(n - 1, m * A)


@pytest.mark.parametrize("n", COILS)
@pytest.mark.parametrize("A", [0.3, 1.0, 3.0, 9.0])
def test_moments_are_those_of_the_density(n, A):
    def moment(f):
        return integrate.quad(lambda m: f(m) * density(m, A, n), 0, A + 4 * np.sqrt(n) + 12, limit=300, points=[A])[0]

    assert moment(lambda m: 1.0) == pytest.approx(1.0, abs=1e-7)
    mean = moment(lambda m: m)
    assert rician.mean(A, n) == pytest.approx(mean, rel=1e-7)
    assert rician.variance(A, n) == pytest.approx(moment(lambda m: (m - mean) ** 2), rel=1e-6)
    assert moment(lambda m: float(rician.expected(m, A, 1.0, n))) == pytest.approx(A, rel=1e-5)
    information = moment(lambda m: (float(rician.expected(m, A, 1.0, n)) - A) ** 2)
    assert rician.information(A, n)[0] == pytest.approx(information, rel=2e-3)


@pytest.mark.parametrize("n", COILS)
def test_mean_without_signal_is_that_of_the_chi_law(n):
    random = np.random.default_rng(0)
    m = np.sqrt((random.standard_normal((2 * n, 200_000)) ** 2).sum(axis=0))
    assert rician.mean(0.0, n) == pytest.approx(m.mean(), abs=5 / np.sqrt(m.size))
    assert rician.variance(0.0, n) == pytest.approx(m.var(), rel=0.02)


@given(
    A=st.floats(0, 1e4), sigma=st.floats(1e-3, 1e3), n=st.sampled_from(COILS)
)
def test_correct_inverts_the_mean(A, sigma, n):
    m = sigma * rician.mean(A / sigma, n)
    # Near zero the mean is flat: an error of 1e-15 in m is one of 1e-7 in A.
    assert abs(float(rician.correct(m, sigma, n)) - A) <= 1e-6 * sigma + 1e-12 * A


def test_correct_keeps_type_and_shape_and_leaves_its_input():
    m = np.full((3, 4), 2.0, dtype=np.float32)
    before = m.copy()
    out = rician.correct(m, np.array([[0.0], [1.0], [5.0]]))
    assert out.dtype == np.float32
    assert np.array_equal(m, before)
    assert np.array_equal(out[0], m[0])  # sigma 0: nothing to correct
    assert np.all(out[2] == 0.0)  # below the floor


@pytest.mark.parametrize("n", [0, -1, 1.5, True, "2"])
def test_bad_coils_are_refused(n):
    with pytest.raises(InvalidInputError, match="number of coils"):
        rician.correct(np.ones(3), 1.0, n)


def test_the_score_has_unit_noise_where_the_boost_is_free():
    random = np.random.default_rng(1)
    law = rician.table(1)
    for A in (1.0, 3.0, 8.0, 20.0):
        m = np.hypot(A + random.standard_normal(200_000), random.standard_normal(200_000))
        out = np.empty_like(m)
        rician.level_score(m, np.full_like(m, A), law, out)
        assert out.mean() == pytest.approx(A, abs=0.01)
        assert out.std() == pytest.approx(1.0, abs=0.01)
