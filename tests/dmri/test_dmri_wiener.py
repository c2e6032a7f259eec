"""Both estimates of a patch against the plain formulas, one patch at a time."""

import numpy as np
import pytest

from septum.dmri.noise import edge
from septum.dmri.patch import joint_cosines
from septum.dmri.shrinkage import leading, shrink_layer
from septum.dmri.wiener import CAUTION, FAINT, GROWTH, STRICTNESS, cosine_layer, strictness, wiener_layer

SHAPE = (4, 4, 4)
ONE = np.array([0])


def low_rank(rng, n=12, rank=3, size=6.0):
    """Smooth maps of a few directions: (4, 4, 4, n) in units of the noise."""
    ramps = np.stack(np.meshgrid(*[np.linspace(-1, 1, 4)] * 3, indexing="ij"), axis=-1).reshape(64, 3)
    return (size * ramps[:, :rank] @ rng.standard_normal((rank, n))).reshape(*SHAPE, n).astype(np.float32)


def sums(n):
    return np.zeros((*SHAPE, n), np.float32), np.zeros(SHAPE, np.float32), np.zeros(SHAPE, np.float32)


def filtered(data, pilot, inside=None):
    total, weight, extra = sums(data.shape[3])
    inside = np.ones(SHAPE, bool) if inside is None else inside
    wiener_layer(data, pilot, inside, ONE, ONE, ONE, SHAPE, 1, joint_cosines(SHAPE), total, weight, extra)
    return total / weight[..., None], extra / weight


def plain(data, pilot):
    """The same with a full cosine matrix; the axes, nearly free among those of equal power, are the kernel's."""
    noisy, known = data.reshape(64, -1).astype(np.float64), pilot.reshape(64, -1).astype(np.float64)
    axes = leading(pilot.reshape(64, -1), FAINT * 64, data.shape[3]).astype(np.float64)
    level = STRICTNESS * np.maximum(((known @ axes) ** 2).mean(axis=0), FAINT) ** GROWTH
    turn = joint_cosines(SHAPE).astype(np.float64)
    fourth = (turn @ known @ axes) ** 4
    gain = fourth / (fourth + level)
    return (turn.T @ (gain * (turn @ noisy @ axes)) @ axes.T).reshape(data.shape)


@pytest.mark.parametrize("n", [5, 12, 80])
def test_second_estimate_is_the_plain_formula(n):
    rng = np.random.default_rng(n)
    pilot = low_rank(rng, n) + 0.3 * rng.standard_normal((*SHAPE, n)).astype(np.float32)
    data = pilot + rng.standard_normal(pilot.shape).astype(np.float32)
    found, _ = filtered(data, pilot)
    np.testing.assert_allclose(found, plain(data, pilot), atol=2e-4)


def test_strong_signal_keeps_its_contrast_and_noise_goes():
    rng = np.random.default_rng(0)
    truth = low_rank(rng, size=30.0)
    data = truth + rng.standard_normal(truth.shape).astype(np.float32)
    found, components = filtered(data, truth)
    slope = (found * truth).sum() / (truth**2).sum()
    assert abs(slope - 1) < 0.005
    assert ((found - truth) ** 2).mean() < 0.1 * ((data - truth) ** 2).mean()
    assert (components > 0).all()


def test_nothing_in_the_estimate_gives_nothing():
    data = np.random.default_rng(0).standard_normal((*SHAPE, 12)).astype(np.float32)
    found, components = filtered(data, np.zeros_like(data))
    assert not found.any()
    assert not components.any()


def test_levels_grow_with_the_power_along_an_axis():
    estimate = np.random.default_rng(0).standard_normal((64, 3)).astype(np.float32) * np.float32([0.0, 1.0, 10.0])
    power = np.maximum((estimate**2).mean(axis=0), FAINT)
    np.testing.assert_allclose(strictness(estimate, 64), STRICTNESS * power**GROWTH, rtol=1e-5)


def test_means_are_filtered_by_wieners_gain():
    rng = np.random.default_rng(0)
    pilot = 5 * rng.standard_normal((*SHAPE, 2)).astype(np.float32)
    data = pilot + rng.standard_normal(pilot.shape).astype(np.float32)
    total, weight = sums(2)[:2]
    cosines = joint_cosines(SHAPE)
    cosine_layer(data, pilot, np.ones(SHAPE, bool), ONE, ONE, 0, SHAPE, cosines, np.float32(0.0), total, weight)
    square = (cosines @ pilot.reshape(64, 2)) ** 2
    expected = cosines.T @ (square / (square + CAUTION) * (cosines @ data.reshape(64, 2)))
    np.testing.assert_allclose(total / weight[..., None], expected.reshape(data.shape), atol=1e-4)


@pytest.mark.parametrize("n", [12, 80])
def test_first_estimate_keeps_the_components_above_the_edge(n):
    rng = np.random.default_rng(n)
    contrast = low_rank(rng, n) + rng.standard_normal((*SHAPE, n)).astype(np.float32)
    total, weight, extra = sums(n)
    rank = np.empty((1, 1), np.int64)
    shrink_layer(
        contrast, np.ones(SHAPE, bool), ONE, ONE, 0, SHAPE, n - 1, np.float32(1.0), total, weight, extra, rank
    )
    u, s, v = np.linalg.svd(contrast.reshape(64, n).astype(np.float64), full_matrices=False)
    kept = s > edge(64, n - 1)
    assert rank[0, 0] == kept.sum() > 0
    expected = ((u * np.where(kept, s, 0)) @ v).reshape(contrast.shape)
    np.testing.assert_allclose(total / weight[..., None], expected, atol=1e-3)
    np.testing.assert_allclose(weight, 1 / (1 + kept.sum()), rtol=1e-5)


@pytest.mark.parametrize("n", [12, 80])
def test_leading_axes_are_those_of_the_large_singular_values(n):
    patch = low_rank(np.random.default_rng(n), n).reshape(64, n)
    patch += 0.1 * np.random.default_rng(0).standard_normal((64, n)).astype(np.float32)
    basis = leading(patch, 40.0, n)
    s, v = np.linalg.svd(patch.astype(np.float64), full_matrices=False)[1:]
    assert basis.shape[1] == (s**2 > 40.0).sum() > 0
    np.testing.assert_allclose(basis @ basis.T, v[s**2 > 40.0].T @ v[s**2 > 40.0], atol=1e-4)
    np.testing.assert_allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-4)
