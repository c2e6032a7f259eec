"""The table of shells against the formulas, written out."""

import numpy as np
import pytest

from septum.errors import InvalidInputError
from septum.report import shell_table
from septum.report.shell import shells


def test_volumes_of_nearly_equal_b_values_are_one_shell():
    b = np.array([0.0, 995, 3005, 5, 1005, 2995, 1000])
    assert shells(b) == [("b = 0", [0, 3]), ("b = 1000", [1, 6, 4]), ("b = 3000", [5, 2])]
    assert shells(np.array([700.0, 2000])) == [("b = 700", [0]), ("b = 2000", [1])]


def test_numbers_are_the_formulas():
    rng = np.random.default_rng(0)
    truth = rng.random((3, 4, 2, 5)) * 100
    before = truth + rng.normal(size=truth.shape)
    after = truth + 0.1 * rng.normal(size=truth.shape)
    mask = rng.random((3, 4, 2)) < 0.6
    noise = rng.random((3, 4, 2))
    b = np.array([0, 1000, 1000, 0, 1000.0])
    table = shell_table(before, after, b, mask=mask, noise=noise, truth=truth)
    for row, members in zip(table.rows, ([0, 3], [1, 2, 4]), strict=True):
        x, y, z = (a[mask][:, members] for a in (before, after, truth))
        spread, level = np.sqrt(np.mean((x - y) ** 2)), np.sqrt(np.mean(noise[mask] ** 2))
        expected = [len(members), x.mean(), spread, level, spread / level]
        expected += [20 * np.log10(z.max() / np.sqrt(np.mean((a - z) ** 2))) for a in (x, y)]
        np.testing.assert_allclose(row[1:], expected)
    assert [column.label for column in table.columns][-2:] == ["PSNR before", "PSNR after"]


def test_a_number_for_the_noise_perfect_and_empty():
    image = np.ones((2, 2, 1, 2))
    (row,) = shell_table(image, image, [1000, 1000], noise=2.0, truth=image).rows
    assert row == ("b = 1000", 2, 1.0, 0.0, 2.0, 0.0, "∞", "∞")
    (row,) = shell_table(image, image, [1000, 1000], mask=np.zeros((2, 2, 1), dtype=bool)).rows
    assert row == ("b = 1000", 2, None, None)
    with pytest.raises(InvalidInputError, match="do not belong together"):
        shell_table(image, image, [0.0])
