"""The field of orientation distributions is drawn by its own room, from a real field."""

import numpy as np

from septum import plot
from septum.dmri.odf import OdfField


def test_a_field_becomes_a_figure():
    coefficients = np.zeros((3, 2, 1, 15), dtype=np.float32)
    coefficients[..., 0] = 0.28
    coefficients[..., 3] = 0.2
    field = OdfField(coefficients, 4, np.ones((3, 2, 1), dtype=bool), np.eye(4))
    figure = plot.odf_field(field, title="a field", width=3.0)
    assert len(plot.png(figure, dpi=60)) > 2000
