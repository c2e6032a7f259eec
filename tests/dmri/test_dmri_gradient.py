"""Gradient tables: what is read, in whatever shape, and what is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from septum.dmri.gradient import (
    Gradients,
    as_gradients,
    check_same_scheme,
    find_beside,
    image_stem,
    read,
    read_scheme,
)
from septum.errors import InvalidInputError


def unit(n, seed=0):
    vectors = np.random.default_rng(seed).standard_normal((n, 3))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def table(n=6, b=1000.0):
    bvecs = np.vstack([np.zeros(3), unit(n)])
    return np.r_[0.0, np.full(n, b)], bvecs


def put(folder, bvals, bvecs, stem="dwi", endings=(".bval", ".bvec")):
    paths = [folder / (stem + ending) for ending in endings]
    for path, values in zip(paths, (bvals, bvecs), strict=True):
        path.write_text(
            values
            if isinstance(values, str)
            else "\n".join(" ".join(map(repr, map(float, row))) for row in np.atleast_2d(values))
        )
    return paths


@pytest.mark.parametrize("bval_column", [False, True])
@pytest.mark.parametrize("bvec_columns", [False, True])
def test_rows_or_columns_are_the_same(tmp_path, bval_column, bvec_columns):
    bvals, bvecs = table()
    paths = put(tmp_path, bvals[:, None] if bval_column else bvals, bvecs if bvec_columns else bvecs.T)
    found = read(*paths, 7)
    np.testing.assert_allclose(found.bvals, bvals)
    np.testing.assert_allclose(found.bvecs, bvecs, atol=1e-15)


@pytest.mark.parametrize("columns", [False, True])
def test_three_volumes_are_read_whichever_way_has_unit_vectors(tmp_path, columns):
    bvals = np.array([0.0, 1000.0, 1000.0])
    bvecs = np.array([[0.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.0, 0.0, 1.0]])
    found = read(*put(tmp_path, bvals, bvecs if columns else bvecs.T), 3)
    np.testing.assert_allclose(found.bvecs, bvecs)


def test_commas_tabs_comments_and_a_byte_order_mark_are_read(tmp_path):
    paths = put(tmp_path, "\ufeff0,\t1000;1000 # scanner\n\n", "0 1 0\n0 0 1\n0 0 0\n")
    assert read(*paths, 3).shells[0].volumes.tolist() == [1, 2]


def test_what_is_written_is_read_back_the_same(tmp_path):
    first = as_gradients(table(20))
    again = read(*put(tmp_path, first.bval_text(), first.bvec_text()), 21)
    assert np.array_equal(again.bvals, first.bvals)
    np.testing.assert_allclose(again.bvecs, first.bvecs, atol=1e-8)
    assert len(first.bvec_text().splitlines()) == 3


def test_shells_group_nearly_equal_b_values_wherever_the_b0_lies():
    bvals = np.array([995, 5, 1005, 2000, 2990, 1990, 3010, 50, 1000.0])
    found = as_gradients((bvals, np.where(bvals[:, None] > 50, unit(9), 0)))
    assert found.b0s.tolist() == [1, 7]
    assert [s.volumes.tolist() for s in found.shells] == [[0, 2, 8], [3, 5], [4, 6]]
    assert [round(s.bvalue) for s in found.shells] == [1000, 1995, 3000]
    assert "2 b0" in found.describe()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from([0.0, 700.0, 1000.0, 2500.0]), min_size=2, max_size=30), st.integers(0, 99))
def test_shells_and_b0s_share_out_the_volumes(bvals, seed):
    bvals = np.array([*bvals, 1000.0]) + np.random.default_rng(seed).uniform(0, 9, len(bvals) + 1)
    found = as_gradients((bvals, unit(len(bvals))), require_b0=False)
    parts = [found.b0s, *(s.volumes for s in found.shells)]
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(bvals)))
    for shell in found.shells:
        assert np.ptp(bvals[shell.volumes]) < 10


def test_a_dipy_table_goes_in_and_comes_out():
    bvals, bvecs = table()
    ours = as_gradients((bvals, bvecs))
    theirs = ours.dipy_table()
    again = as_gradients(theirs)
    assert np.array_equal(again.bvals, bvals)
    np.testing.assert_allclose(again.bvecs, bvecs)
    assert np.array_equal(theirs.b0s_mask, ours.is_b0)


def test_the_callers_arrays_are_left_alone():
    bvals, bvecs = table()
    kept = bvals.copy(), bvecs.copy()
    found = as_gradients((bvals, bvecs))
    found.bvals[:] = 7
    found.bvecs[:] = 7
    assert np.array_equal(bvals, kept[0])
    assert np.array_equal(bvecs, kept[1])


def test_voxel_axes_follow_fsls_convention():
    found = as_gradients(table())
    np.testing.assert_array_equal(found.in_voxel_axes(np.diag([-2.0, 2, 2, 1])), found.bvecs)
    np.testing.assert_array_equal(found.in_voxel_axes(np.eye(4)), found.bvecs * [-1, 1, 1])


def test_unit_vectors_are_made_exact_and_unused_ones_are_dropped():
    bvals = [0.0, 1000.0]
    found = as_gradients((bvals, [[np.nan, np.nan, np.nan], [0.58, 0.58, 0.58]]))
    assert np.array_equal(found.bvecs[0], np.zeros(3))
    assert np.linalg.norm(found.bvecs[1]) == pytest.approx(1, abs=1e-15)


BAD_TABLES = {
    "another number of volumes": (table(5), 7, "7 volumes"),
    "fewer vectors": ((table(6)[0], table(5)[1]), 7, "vectors"),
    "not unit": ((table(6)[0], 1.5 * table(6)[1]), 7, "length 1.5"),
    "a weighted volume without direction": ((table(6)[0], 0 * table(6)[1]), 7, "length 0"),
    "no b0": ((table(6)[0] + 900, unit(7)), 7, "no b0"),
    "no weighting": ((np.zeros(7), unit(7)), 7, "no diffusion-weighted"),
    "b in ms/um2": ((table(6)[0] / 1000, unit(7)), 7, "multiply by 1000"),
    "negative": ((-table(6)[0], unit(7)), 7, "negative"),
    "NaN": ((table(6)[0] * np.nan, unit(7)), 7, "finite"),
    "NaN vector": ((table(6)[0], np.full((7, 3), np.nan)), 7, "length nan"),
    "two columns": ((table(6)[0], np.ones((7, 2))), 7, "must be 3 x 7"),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_bad_tables_are_refused_with_a_reason(name):
    content, n, reason = BAD_TABLES[name]
    with pytest.raises(InvalidInputError, match=reason):
        as_gradients(content, n)


BAD_FILES = {
    "empty": ("", "0 1\n0 0\n0 0", "empty"),
    "words": ("0 many", "0 1\n0 0\n0 0", "not a number"),
    "ragged": ("0 1000", "0 1\n0 0\n0", "different lengths"),
    "a table of b-values": ("0 1000\n0 1000", "0 1\n0 0\n0 0", "one row or one column"),
    "swapped": ("0 1 0 0\n0 0 1 0\n0 0 0 1", "0 1000 1000 1000", "other way round"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_files_are_refused_with_a_reason(tmp_path, name):
    bval, bvec, reason = BAD_FILES[name]
    with pytest.raises(InvalidInputError, match=reason):
        read(*put(tmp_path, bval, bvec))


def test_binary_and_missing_files_are_refused(tmp_path):
    path = tmp_path / "x.bval"
    path.write_bytes(bytes(range(128, 256)))
    with pytest.raises(InvalidInputError, match="not a text file"):
        read(path, path)
    with pytest.raises(InvalidInputError, match="cannot read"):
        read(tmp_path / "none", path)


@pytest.mark.parametrize(
    ("image", "names"),
    [
        ("dwi.nii.gz", ("dwi.bval", "dwi.bvec")),
        ("dwi.nii", ("dwi.bvals", "dwi.bvecs")),
        ("data.nii.gz", ("bvals", "bvecs")),
        ("a.b.nii.gz", ("a.b.bval", "a.b.bvec")),
        ("dwi.nii.gz", ("dwi.nii.gz.bval", "dwi.nii.gz.bvec")),
    ],
)
def test_files_beside_the_image_are_found(tmp_path, image, names):
    for name in names:
        (tmp_path / name).write_text("0")
    assert [p.name for p in find_beside(tmp_path / image)] == list(names)


def test_nothing_beside_is_none(tmp_path):
    assert find_beside(tmp_path / "dwi.nii") == (None, None)


@pytest.mark.parametrize(
    ("name", "stem"), [("a.nii.gz", "a"), ("a.b.nii", "a.b"), ("a.hdr", "a"), ("a.png", "a.png")]
)
def test_stems(name, stem):
    assert image_stem(name) == stem


def test_the_fingerprint_is_that_of_the_axes():
    bvals, bvecs = table(30)
    first = as_gradients((bvals, bvecs))
    assert first.fingerprint() == as_gradients((bvals, -bvecs)).fingerprint()
    assert first.fingerprint() != as_gradients((bvals, np.roll(bvecs, 1, axis=1))).fingerprint()


def test_schemes_are_compared_up_to_sign():
    first = as_gradients(table(12))
    check_same_scheme(first, Gradients(first.bvals, -first.bvecs))
    others = {
        "13 directions": as_gradients(table(13)),
        "other b-values": as_gradients(table(12, b=2000.0)),
        "other gradient directions": Gradients(first.bvals, np.roll(first.bvecs, 1, axis=1)),
    }
    for reason, other in others.items():
        with pytest.raises(InvalidInputError, match=reason):
            check_same_scheme(first, other)


def test_a_scheme_is_read_from_any_of_its_names(tmp_path):
    bvals, bvecs = table(8)
    bval, bvec = put(tmp_path, bvals, bvecs.T)
    first = as_gradients((bvals, bvecs))
    np.savetxt(tmp_path / "four.txt", np.column_stack([bvecs, bvals]))
    np.savetxt(tmp_path / "three.txt", bvecs * bvals[:, None], delimiter=",")
    for name in (bval, bvec, tmp_path / "dwi.nii.gz", tmp_path / "four.txt", tmp_path / "three.txt"):
        found = read_scheme(name)
        np.testing.assert_allclose(found.bvals, bvals, rtol=1e-12)
        np.testing.assert_allclose(found.bvecs, first.bvecs, atol=1e-12)


def test_a_scheme_without_its_fellow_is_refused(tmp_path):
    (tmp_path / "x.bval").write_text("0 1000")
    with pytest.raises(InvalidInputError, match=r"no \.bvec beside"):
        read_scheme(tmp_path / "x.bval")
    (tmp_path / "y.txt").write_text("1 2\n3 4\n")
    with pytest.raises(InvalidInputError, match="2 columns"):
        read_scheme(tmp_path / "y.txt")
