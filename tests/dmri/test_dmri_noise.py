"""The noise level against noise that is known, and the edges against pure noise."""

import numpy as np
import pytest

from septum.dmri import DwiImage, noise
from septum.dmri.contrast import group
from septum.dmri.phantom import default_scheme, simulate
from septum.errors import InvalidInputError


def image_of(data):
    return DwiImage.from_arrays(data, default_scheme())


def found(data, **options):
    image = image_of(data)
    return noise.estimate(image, (image.data != 0).any(axis=-1), group(image.gradients), **options)


def rice(signal, sigma, seed=0):
    random = np.random.default_rng(seed)
    real, imaginary = random.standard_normal((2, *signal.shape))
    return np.hypot(signal + sigma * real, sigma * imaginary).astype(np.float32)


@pytest.mark.parametrize("sigma", [0.2, 3.0])
def test_flat_signal_high_above_the_noise(sigma):
    assert found(rice(np.full((20, 20, 10, 65), 100.0), sigma)).sigma == pytest.approx(sigma, rel=0.02)


@pytest.mark.parametrize("snr", [10, 30])
def test_phantom_with_background(snr):
    phantom = simulate(snr=snr, seed=5, slices=(20, 30))
    estimate = found(phantom.data)
    assert estimate.sigma == pytest.approx(1 / snr, rel=0.02)
    assert estimate.field is None


def test_low_rank_signal_does_not_raise_it():
    random = np.random.default_rng(0)
    signal = 50 + random.random((20, 20, 10, 4)) @ (10 * random.random((4, 65)))
    assert found(rice(signal, 1.0)).sigma == pytest.approx(1.0, rel=0.02)


def test_zeros_of_the_scanner_are_left_out():
    data = rice(np.full((30, 30, 10, 65), 60.0), 2.0)
    data[:17] = 0
    assert found(data).sigma == pytest.approx(2.0, rel=0.03)


def test_uneven_noise_gives_a_map():
    sigma = np.linspace(1, 3, 60)[:, None, None, None]
    estimate = found(rice(np.full((60, 20, 10, 65), 200.0), sigma))
    assert estimate.field is not None
    middle = estimate.field[5:55].mean(axis=(1, 2))
    assert np.allclose(middle, sigma[5:55, 0, 0, 0], rtol=0.12)


def test_coils():
    random = np.random.default_rng(0)
    channels = 2.0 * random.standard_normal((8, 20, 20, 10, 65))
    channels[0] += 30.0
    assert found(np.sqrt((channels**2).sum(axis=0)), n_coils=4).sigma == pytest.approx(2.0, rel=0.03)


def test_the_number_of_threads_changes_nothing():
    data = rice(np.full((16, 16, 10, 65), 20.0), 1.0)
    assert found(data, n_jobs=1).sigma == found(data, n_jobs=2).sigma


@pytest.mark.parametrize("share", [0.05, 0.01])
def test_edge_lets_its_share_of_noise_through(share):
    random = np.random.default_rng(0)
    top = np.linalg.norm(random.standard_normal((4000, 24, 40)), ord=2, axis=(1, 2))
    assert (top > noise.edge(24, 40, share=share)).mean() == pytest.approx(share, abs=4 * np.sqrt(share / 4000))
    assert top.max() < noise.rigorous_edge(24, 40, 4000)


def test_median_of_the_law_against_noise():
    random = np.random.default_rng(0)
    squares = np.linalg.eigvalsh(np.cov(random.standard_normal((300, 1200)), bias=True))
    table = noise.median_table()
    assert np.interp(0.25, np.linspace(0, 1, len(table)), table) == pytest.approx(np.median(squares), rel=0.01)


@pytest.mark.parametrize("sigma", [0, -1, np.nan, np.inf, np.ones((2, 2, 2)), np.zeros((4, 4, 4)), "x"])
def test_bad_sigma(sigma):
    with pytest.raises(InvalidInputError, match="sigma"):
        noise.given(sigma, (4, 4, 4, 7))


def test_a_map_keeps_its_values():
    sigma = np.full((4, 4, 4), 2.0)
    sigma[0] = 0
    known = noise.given(sigma, (4, 4, 4, 7))
    assert np.all(known.map((4, 4, 4)) == 2.0)
