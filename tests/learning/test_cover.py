"""Choosing atoms by the total they bring, against the sum written out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from septum.learning.cover import Cover, greedy_cover, refine

ALPHA = 0.8


def make_cover(seed=0, n_rows=30, d=5, weighted=False):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n_rows, d))
    base = 0.2 * rng.random(n_rows)
    weights = rng.random((n_rows, d)) if weighted else None
    return Cover(rows, base, ALPHA, weights)


def unit_atoms(seed, d, count):
    atoms = np.random.default_rng(seed).standard_normal((d, count))
    return atoms / np.linalg.norm(atoms, axis=0)


@pytest.mark.parametrize("weighted", [False, True])
def test_gain_of_an_atom_is_the_best_code_of_every_row(weighted):
    """1/2 (|<q, p>| - alpha)_+^2 / h is what the best code c gains in <q, p> c - h c^2 / 2 - alpha |c|."""
    cover = make_cover(weighted=weighted)
    atoms = unit_atoms(1, 5, 3)
    grid = np.linspace(-8, 8, 160_001)
    for k in range(3):
        total = 0.0
        for q in range(len(cover)):
            h = 1.0 if cover.weights is None else cover.weights[q] @ atoms[:, k] ** 2
            best = (cover.rows[q] @ atoms[:, k] * grid - 0.5 * h * grid**2 - ALPHA * np.abs(grid)).max()
            total += max(best - cover.base[q], 0.0)
        assert cover.gains(atoms)[k] == pytest.approx(total, abs=1e-5)


@given(seed=st.integers(0, 500))
def test_ascent_never_lowers_the_gain(seed):
    cover = make_cover(seed)
    atoms = unit_atoms(seed + 1, 5, 6)
    before = cover.gains(atoms)
    for _ in range(4):
        atoms = cover.ascend(atoms, 1)
        after = cover.gains(atoms)
        assert (after >= before - 1e-12).all()
        before = after


def test_potential_is_what_a_row_gains_from_its_own_direction():
    cover = make_cover()
    own = (cover.rows / np.linalg.norm(cover.rows, axis=1, keepdims=True)).T
    value, _ = cover.brings(own)
    np.testing.assert_allclose(cover.potential(), np.diag(value) - cover.base, atol=1e-12)


def test_adding_an_atom_raises_the_base_and_leaves_it_nothing_more_to_gain():
    cover = make_cover()
    atom, gain = cover.best_atom()
    assert gain > 0
    before = cover.base.copy()
    cover.add(atom)
    assert (cover.base >= before).all()
    assert cover.gains(atom[:, None])[0] == pytest.approx(0.0, abs=1e-12)


def test_trimming_keeps_the_rows_that_can_gain():
    cover = make_cover()
    cover.base[:10] = 100.0
    kept = cover.trimmed(8)
    assert len(kept) == 8
    assert (kept.potential() > 0).all()
    best = np.sort(cover.potential())[::-1][:8]
    np.testing.assert_allclose(np.sort(kept.potential())[::-1], best)


def test_greedy_cover_finds_separated_lines_and_stops_when_enough():
    rng = np.random.default_rng(0)
    lines = np.linalg.qr(rng.standard_normal((6, 3)))[0]
    which = rng.integers(0, 3, 60)
    rows = (3.0 * rng.choice([-1.0, 1.0], 60)) * lines[:, which] + 0.01 * rng.standard_normal((6, 60))
    cover = Cover(rows.T, np.zeros(60), 1.0)
    total = cover.potential().sum()
    atoms = greedy_cover(cover, 10, least_gain=1e-3 * total, enough=0.999 * total)
    assert atoms.shape == (6, 3)
    assert np.abs(lines.T @ atoms).max(axis=1).min() > 0.999
    assert greedy_cover(cover, 2, least_gain=0.0, enough=np.inf).shape == (6, 2)


def test_refinement_does_not_lose_coverage():
    cover = make_cover(seed=4, n_rows=80)
    cover.base[:] = 0.0
    atoms = unit_atoms(5, 5, 4)
    before = cover.brings(atoms)[0].max(axis=1).sum()
    assert cover.brings(refine(cover, atoms, 5))[0].max(axis=1).sum() >= before
