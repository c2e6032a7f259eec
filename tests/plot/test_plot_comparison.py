"""Before and after side by side: one grey scale, the right way up."""

import numpy as np
import pytest

from septum import plot
from septum.errors import InvalidInputError


def test_panels_share_the_grey_scale():
    rng = np.random.default_rng(0)
    before, after = rng.random((6, 8)), rng.random((6, 8)) / 2
    figure = plot.before_after(before, after, before - after, np.ones((6, 8)), truth=after)
    images = [axes.images[0] for axes in figure.axes if axes.images]
    assert len(images) == 5
    np.testing.assert_array_equal(images[0].get_array(), before.T)
    assert images[0].get_clim() == images[1].get_clim() == images[2].get_clim()
    low, high = images[3].get_clim()
    assert low == -high < 0
    assert len(plot.png(figure, dpi=50)) > 2000


def test_bad_input():
    with pytest.raises(InvalidInputError, match="must agree"):
        plot.before_after(np.ones((2, 3)), np.ones((3, 2)))
    with pytest.raises(InvalidInputError, match="one slice"):
        plot.before_after(np.ones((2, 3, 4)), np.ones((2, 3, 4)))
