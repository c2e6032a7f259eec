"""Factors: what normalising, restricting, ordering and pruning keep."""

import numpy as np
from hypothesis import given

from septum.factors import Factors
from septum.kronecker import atom_norms, flatten_codes
from septum.regularizer import Separable
from strategies import cases


def factors_of(case):
    return Factors(case.dictionaries, flatten_codes(case.codes, case.codes.shape, np.dtype(float)))


def theta(factors):
    return Separable().value(factors.dictionaries, factors.codes)


@given(cases(1, 3))
def test_reconstruct(case):
    factors = factors_of(case)
    assert factors.sizes == case.codes.shape[1:]
    assert factors.n_samples == len(case.X)
    np.testing.assert_allclose(factors.reconstruct(), case.reconstruction, atol=1e-12)
    np.testing.assert_allclose(factors.reconstruct(slice(0, 1)), case.reconstruction[:1], atol=1e-12)


@given(cases(1, 3))
def test_normalized_keeps_reconstruction_and_cost(case):
    factors = factors_of(case)
    unit = factors.normalized()
    for norms in atom_norms(unit.dictionaries):
        np.testing.assert_allclose(norms, 1.0, rtol=1e-12)
    np.testing.assert_allclose(unit.reconstruct(), case.reconstruction, atol=1e-11)
    np.testing.assert_allclose(theta(unit), theta(factors), rtol=1e-11, atol=1e-12)


@given(cases(1, 3))
def test_pruned_keeps_reconstruction_and_cost(case):
    factors = factors_of(case)
    pruned = factors.pruned()
    assert all((count > 0).all() for count in pruned.usage())
    np.testing.assert_allclose(pruned.reconstruct(), case.reconstruction, atol=1e-12)
    np.testing.assert_allclose(theta(pruned), theta(factors), atol=1e-12)


@given(cases(1, 3))
def test_ordered_puts_the_most_used_first(case):
    ordered = factors_of(case).ordered()
    for count in ordered.usage():
        assert (np.diff(count) <= 0).all()
    np.testing.assert_allclose(ordered.reconstruct(), case.reconstruction, atol=1e-12)


@given(cases(1, 3))
def test_usage_counts_codes(case):
    for mode, count in enumerate(factors_of(case).usage()):
        axes = tuple(k for k in range(case.codes.ndim) if k != mode + 1)
        np.testing.assert_array_equal(count, (case.codes != 0).sum(axis=axes))


@given(cases(2, 3))
def test_restricted_drops_the_codes_of_dropped_atoms(case):
    kept = [np.arange(A.shape[1])[::-2] for A in case.dictionaries]
    restricted = factors_of(case).restricted(kept)
    dense = case.codes[np.ix_(np.arange(len(case.X)), *kept)]
    np.testing.assert_array_equal(restricted.codes.toarray().reshape(dense.shape), dense)
    for A, B, chosen in zip(case.dictionaries, restricted.dictionaries, kept, strict=True):
        np.testing.assert_array_equal(B, A[:, chosen])
