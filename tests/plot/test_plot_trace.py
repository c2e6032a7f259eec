"""The convergence figure: the curve is objective minus bound, the dots the ends of the outer steps."""

import numpy as np
import pytest

from septum import plot
from septum.errors import InvalidInputError
from septum.plot.trace import excess


@pytest.fixture
def history():
    return {
        "objective": np.array([9.0, 7.0, 6.5]),
        "lower_bound": np.array([5.0, 6.0, 6.0]),
        "seconds": np.array([0.1, 0.4, 1.0]),
        "inner_objective": [np.array([12.0, 10.0, 9.0]), np.array([8.0, 7.0]), np.array([])],
    }


def test_excess_is_over_the_best_bound(history):
    values, ends = excess(history)
    np.testing.assert_allclose(values, [6, 4, 3, 2, 1, 0.5])
    np.testing.assert_array_equal(ends, [2, 4, 5])
    np.testing.assert_allclose(excess(history, 1.0)[0], values + 5)


def test_the_curve_and_its_dots(history):
    curve, dots = plot.convergence(history).axes[0].lines
    np.testing.assert_allclose(curve.get_ydata(), [6, 4, 3, 2, 1, 0.5])
    np.testing.assert_allclose(dots.get_xdata(), [3, 5, 6])
    shares = plot.convergence(history, relative_to=12.0).axes[0].lines[0].get_ydata()
    np.testing.assert_allclose(shares, np.array([6, 4, 3, 2, 1, 0.5]) / 12)


def test_against_seconds(history):
    curve = plot.convergence(history, against="seconds").axes[0].lines[0]
    np.testing.assert_allclose(curve.get_xdata(), history["seconds"])
    np.testing.assert_allclose(curve.get_ydata(), [3, 1, 0.5])
    with pytest.raises(InvalidInputError, match="against"):
        plot.convergence(history, against="hours")


def test_several_fits_have_a_legend(history):
    figure = plot.convergence({"one": history, "two": history})
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == ["one", "two"]


def test_what_reaches_the_bound_is_left_out(history):
    history["inner_objective"][2] = np.array([6.0, 6.0 - 1e-12])
    values = plot.convergence(history).axes[0].lines[0].get_ydata()
    assert np.isnan(values[-2:]).all()
    assert np.isfinite(values[:-2]).all()
    assert len(plot.png(plot.convergence(history), dpi=40)) > 1000
