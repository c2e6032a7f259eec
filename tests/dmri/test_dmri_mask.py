"""The mask made from the data."""

import numpy as np
import pytest

from septum.dmri import load, phantom, sample
from septum.dmri.image import DwiImage
from septum.dmri.mask import foreground, otsu


@pytest.mark.parametrize("snr", [5.0, 30.0])
def test_the_phantom_is_found_in_its_noise(snr):
    found = phantom.simulate(size=25, snr=snr)
    inside = foreground(DwiImage.from_arrays(found.data, found.gradients, found.affine))
    assert (inside & found.mask).sum() > 0.93 * found.mask.sum()
    assert (inside & ~found.mask).sum() < 0.03 * found.mask.sum()
    assert inside[found.fractions["csf"] > 0.99].mean() > 0.6  # fluid is as dark as the outside


def test_a_crop_from_inside_a_head_is_all_inside():
    assert foreground(load(sample().dwi)).all()


def test_otsu_parts_two_classes():
    random = np.random.default_rng(0)
    values = np.r_[random.normal(1, 0.2, 3000), random.normal(5, 0.5, 800)]
    assert 1.6 < otsu(values) < 3.8


def test_otsu_has_the_largest_variance_between_classes():
    values = np.random.default_rng(1).gamma(2.0, 1.0, 5000)
    edges = np.histogram(values, bins=256)[1][1:-1]

    def between(cut):
        low, high = values[values <= cut], values[values > cut]
        return len(low) * len(high) * (low.mean() - high.mean()) ** 2 if len(low) and len(high) else 0.0

    best = max(between(cut) for cut in edges)
    assert between(otsu(values)) > 0.995 * best
