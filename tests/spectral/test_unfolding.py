"""Unfoldings: every way to split modes into rows and columns, and back."""

import numpy as np
import pytest
from hypothesis import given

from septum.spectral import bipartitions, unfold
from septum.spectral.unfolding import fold
from strategies import samples


@pytest.mark.parametrize("n_modes", [1, 2, 3, 4, 5])
def test_every_split_is_listed_once(n_modes):
    found = bipartitions(n_modes)
    everything = set(range(n_modes))
    splits = {frozenset((frozenset(rows), frozenset(everything - set(rows)))) for rows in found}
    assert len(splits) == len(found) == max(1, 2 ** (n_modes - 1) - 1)


@given(samples(1, 4, max_side=3))
def test_fold_undoes_unfold(X):
    for rows in bipartitions(X.ndim - 1):
        flat = unfold(X, rows)
        assert flat.ndim == 3
        np.testing.assert_array_equal(fold(flat, rows, X.shape[1:]), X)


def test_entries_go_where_they_should():
    X = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    flat = unfold(X, (0, 2))
    assert flat.shape == (2, 15, 4)
    assert flat[1, 2 * 5 + 3, 1] == X[1, 2, 1, 3]
