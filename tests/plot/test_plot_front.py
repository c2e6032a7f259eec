"""The Pareto front as a picture."""

import numpy as np
import pytest

import septum
from septum import InvalidInputError
from septum.sweep import Front, FrontPoint


def made(attainments, alpha=0.9, source="fit"):
    points = [
        FrontPoint((n, 2 * n), value, 1.0 - value, 0.1, source, []) for n, value in enumerate(attainments, start=1)
    ]
    return Front(alpha, points)


def test_each_point_is_drawn_at_its_atoms_and_attainment():
    axes = made([0.2, 0.7, 0.95]).plot(title="front").axes[0]
    x, y = axes.lines[0].get_data()
    np.testing.assert_allclose(x, [3, 6, 9])
    np.testing.assert_allclose(1 - y, [0.2, 0.7, 0.95])
    assert axes.get_title(loc="left") == "front"
    assert axes.yaxis.get_inverted()
    labels = [axes.yaxis.get_major_formatter()(value) for value in (0.5, 0.02)]
    assert labels == ["50%", "98%"]


def test_several_fronts_have_names_and_sources_have_marks():
    figure = septum.plot.front({"fast": made([0.5, 1.0]), "palm": made([0.4], source="growth")})
    axes = figure.axes[0]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["fast", "palm"]
    assert np.isfinite(np.concatenate([line.get_ydata() for line in axes.lines])).all()
    full, empty = axes.lines[1], axes.lines[5]
    assert full.get_markerfacecolor() != "white"
    assert empty.get_markerfacecolor() == "white"


def test_nothing_to_draw():
    with pytest.raises(InvalidInputError, match="no points"):
        septum.plot.front(made([]))
