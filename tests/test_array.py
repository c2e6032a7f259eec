"""What comes in at the door: kinds of arrays, masks, alpha, dictionaries, and clear refusals."""

import numpy as np
import pytest
from scipy import sparse

from septum.array import as_alpha, as_dictionaries, as_float, as_mask, as_samples, chunks
from septum.errors import InvalidInputError, InvalidTypeError, SeptumError

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 4, 5))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats_pass_without_a_copy(dtype):
    data = X.astype(dtype)
    samples = as_samples(data)
    assert samples.data is data or np.shares_memory(samples.data, data)
    assert samples.dtype == dtype
    assert (samples.n_samples, samples.shape, samples.mask) == (3, (4, 5), None)


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint16, bool, np.float16, np.longdouble])
def test_other_real_numbers_become_double(dtype):
    assert as_samples((10 * X).astype(dtype)).dtype == np.float64


@pytest.mark.parametrize("dtype", [">f4", ">f8"])
def test_foreign_byte_order_becomes_native(dtype):
    data = X.astype(dtype)
    got = as_samples(data).data
    assert got.dtype.isnative
    assert got.dtype.itemsize == data.dtype.itemsize
    np.testing.assert_array_equal(got, data)


def test_lists_fortran_order_and_read_only_arrays():
    np.testing.assert_array_equal(as_samples(X.tolist()).data, X)
    np.testing.assert_array_equal(as_samples(np.asfortranarray(X)).data, X)
    locked = X.copy()
    locked.setflags(write=False)
    np.testing.assert_array_equal(as_samples(locked).data, X)


def test_memory_maps_stay_on_disk(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, X.astype(np.float32))
    mapped = np.load(path, mmap_mode="r")
    assert np.shares_memory(as_samples(mapped).data, mapped)


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (3.0, "scalar"),
        ([1.0, 2.0], "reshape"),
        (np.zeros((0, 3)), "0 sample"),
        (np.zeros((3, 0)), "0 feature"),
        (np.zeros((3, 2, 0)), "ode 2"),
        (np.where(X > 1, np.nan, X), "NaN"),
        (np.where(X > 1, np.inf, X), "infinity"),
        (np.where(X > 1, -np.inf, X).astype(np.float32), "infinity"),
    ],
)
def test_unusable_values(bad, says):
    with pytest.raises(InvalidInputError, match=says):
        as_samples(bad)


@pytest.mark.parametrize(
    "bad", [X.astype(complex), np.array([["a", "b"]]), [[object()]], sparse.eye_array(3)]
)
def test_unusable_kinds(bad):
    with pytest.raises(SeptumError):
        as_samples(bad)


def test_complex_is_a_clear_no():
    with pytest.raises((InvalidTypeError, InvalidInputError), match="omplex"):
        as_float(X.astype(np.complex64), "X")


def test_huge_finite_values_are_not_infinite():
    data = np.full((2, 3), 1e308)
    np.testing.assert_array_equal(as_samples(data).data, data)


class TestMask:
    def test_what_is_masked_may_be_anything(self):
        data, mask = X.copy(), np.ones(X.shape, bool)
        data[0, 1, 2], data[1, 0, 0] = np.nan, np.inf
        mask[0, 1, 2] = mask[1, 0, 0] = False
        before = data.copy()
        samples = as_samples(data, mask)
        assert samples.data[0, 1, 2] == samples.data[1, 0, 0] == 0
        np.testing.assert_array_equal(samples.mask, mask)
        np.testing.assert_array_equal(data, before)

    def test_what_is_observed_may_not(self):
        data, mask = X.copy(), np.ones(X.shape, bool)
        data[0, 0, 0] = np.nan
        mask[1, 1, 1] = False
        with pytest.raises(InvalidInputError, match=r"mask=np\.isfinite"):
            as_samples(data, mask)

    def test_a_full_mask_is_no_mask(self):
        assert as_samples(X, np.ones(X.shape, bool)).mask is None

    def test_zeros_and_ones_will_do(self):
        mask = (X > 0).astype(np.uint8)
        np.testing.assert_array_equal(as_mask(mask, X.shape), X > 0)

    def test_bad_masks(self):
        with pytest.raises(InvalidInputError, match="shape"):
            as_samples(X, np.ones((3, 4), bool))
        with pytest.raises(InvalidInputError, match="boolean"):
            as_samples(X, X)
        mask = np.ones(X.shape, bool)
        mask[1] = mask[2] = False
        with pytest.raises(InvalidInputError, match=r"sample 1 and of 1 more"):
            as_samples(X, mask)


@pytest.mark.parametrize("good", [1, 0.5, np.float32(2), np.int64(3)])
def test_alpha(good):
    assert as_alpha(good) == float(good)


@pytest.mark.parametrize("bad", [0, -1, np.nan, np.inf, "1", True, None, [1.0], 1 + 1j])
def test_bad_alpha(bad):
    with pytest.raises(InvalidInputError, match="alpha"):
        as_alpha(bad)


class TestDictionaries:
    def test_checked_against_the_samples(self):
        A, B = np.ones((4, 2)), np.ones((5, 3), np.float32)
        got = as_dictionaries([A, B], (4, 5), dtype=np.dtype(np.float64))
        assert [D.dtype for D in got] == [np.float64, np.float64]
        assert [D.shape for D in got] == [(4, 2), (5, 3)]

    @pytest.mark.parametrize(
        ("bad", "says"),
        [
            (np.ones((4, 2)), "list"),
            ([np.ones((4, 2))], "1 dictionaries"),
            ([np.ones((4, 2)), np.ones(5)], r"dictionaries\[1\]"),
            ([np.ones((4, 2)), np.ones((6, 3))], "length 6"),
            ([np.ones((4, 2)), np.full((5, 3), np.nan)], "NaN"),
        ],
    )
    def test_refused(self, bad, says):
        with pytest.raises(InvalidInputError, match=says):
            as_dictionaries(bad, (4, 5))


@pytest.mark.parametrize(
    ("n", "size", "budget"), [(10, 8, 24), (10, 100, 10), (1, 8, 1), (7, 1, 7), (5, 0, 3)]
)
def test_chunks_cover_every_sample_once(n, size, budget):
    parts = list(chunks(n, size, budget))
    assert [t for part in parts for t in range(n)[part]] == list(range(n))
    assert all(part.stop > part.start for part in parts)
