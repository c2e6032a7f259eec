"""Diffusion images: everything that should be read is, everything else is refused in one line, and what is
written is whole or absent."""

import errno
import gzip
import itertools
import os
import resource

import nibabel as nib
import numpy as np
import pytest

from septum.dmri import image as images
from septum.dmri import sample
from septum.dmri.image import DwiImage, SlabWriter, load, load_mask, load_volume, save, write, write_gradients
from septum.dmri.output import Outputs
from septum.errors import InvalidInputError, SeptumError

SHAPE = (5, 4, 6, 7)


def volume(shape=SHAPE, seed=0):
    return np.random.default_rng(seed).integers(1, 250, shape).astype(np.float64)


def gradients(n, seed=0):
    vectors = np.random.default_rng(seed).standard_normal((n, 3))
    bvecs = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    bvals = np.full(n, 1000.0)
    bvals[n // 2] = 0
    return bvals, bvecs


def put(
    folder, data, *, name="dwi.nii.gz", dtype=None, affine=None, slope=None, kind=nib.Nifti1Image, table=True
):
    """A NIfTI file written by NiBabel, with its gradient files."""
    array = np.asarray(data) if dtype is None else np.asarray(data).astype(dtype)
    file = kind(array, np.diag([2.0, 2, 2, 1]) if affine is None else affine, dtype=array.dtype)
    if slope is not None:
        file.header.set_slope_inter(*slope)
    path = folder / name
    nib.save(file, path)
    if table:
        bvals, bvecs = gradients(data.shape[-1])
        stem = images.image_stem(path)
        np.savetxt(folder / f"{stem}.bval", bvals[None])
        np.savetxt(folder / f"{stem}.bvec", bvecs.T)
    return path


# --- what is read ----------------------------------------------------------------------------------------

TYPES = ("u1", "i1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")


@pytest.mark.parametrize("name", ["dwi.nii", "dwi.nii.gz"])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("order", ["<", ">"])
def test_every_type_is_read_as_nibabel_reads_it(tmp_path, name, dtype, order):
    data = volume() / 2.0
    path = put(tmp_path, data, name=name, dtype=order + dtype)
    found = load(path)
    expected = nib.load(path).get_fdata(dtype=np.float32)
    assert found.data.dtype == np.float32
    assert found.data.flags.c_contiguous
    np.testing.assert_array_equal(found.data, expected)
    assert found.shape == SHAPE


@pytest.mark.parametrize("kind", [nib.Nifti1Image, nib.Nifti2Image])
@pytest.mark.parametrize("name", ["dwi.nii", "dwi.nii.gz"])
def test_slope_and_intercept_are_applied(tmp_path, kind, name):
    data = volume()
    path = tmp_path / name
    file = kind(data.astype(np.int16), np.eye(4))
    file.header.set_slope_inter(0.25, -3.0)
    # NiBabel would choose its own scaling, so the header and the values are written one by one.
    put(tmp_path, data, name=name)
    opened = gzip.open if name.endswith("gz") else open
    with opened(path, "wb") as stream:
        header = file.header.copy()
        header["scl_slope"], header["scl_inter"] = 0.25, -3.0
        header["magic"] = header.single_magic
        header.write_to(stream)
        stream.write(data.astype(np.int16).tobytes(order="F"))
    np.testing.assert_array_equal(load(path).data, (0.25 * data - 3).astype(np.float32))


@pytest.mark.parametrize("turn", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("signs", [(1, 1, 1), (-1, 1, 1), (-1, -1, 1)])
def test_any_orientation_is_kept(tmp_path, turn, signs):
    affine = np.eye(4)
    affine[:3, :3] = (np.diag([1.5, 2.0, 2.5]) * signs)[:, turn]
    affine[:3, 3] = [-10, 20, 7]
    path = put(tmp_path, volume(), affine=affine, dtype="i2")
    found = load(path)
    save(tmp_path / "out.nii.gz", found.data, found)
    again = nib.load(tmp_path / "out.nii.gz")
    np.testing.assert_allclose(again.affine, affine, atol=1e-6)
    np.testing.assert_array_equal(again.get_fdata(dtype=np.float32), found.data)
    assert nib.aff2axcodes(again.affine) == nib.aff2axcodes(affine)


def test_pairs_and_singleton_axes_are_read(tmp_path):
    data = volume()
    for kind, name in ((nib.Nifti1Pair, "pair.img"), (nib.Nifti1Image, "five.nii.gz")):
        array = data if name == "pair.img" else data[:, :, :, None, :]
        path = put(tmp_path, array, name=name, kind=kind, dtype="f4")
        np.testing.assert_array_equal(load(path).data, data.astype(np.float32))


def test_the_sample_is_what_it_says():
    found = load(sample().dwi)
    assert found.shape == (48, 48, 9, 65)
    assert found.gradients.describe() == "1 b0 and 64 directions at b = 1000"
    assert found.gradients.b0s.tolist() == [64]
    reference = nib.load(sample().dwi)
    np.testing.assert_array_equal(found.data, reference.get_fdata(dtype=np.float32))
    assert sample().dwi.stat().st_size < 2**20
    assert found.voxel_size == pytest.approx((1.8, 1.8, 1.8), abs=0.01)


def test_gradients_are_found_or_given(tmp_path):
    path = put(tmp_path, volume())
    other = tmp_path / "elsewhere"
    other.mkdir()
    moved = [(tmp_path / f"dwi.{k}").rename(other / f"x.{k}") for k in ("bval", "bvec")]
    with pytest.raises(InvalidInputError, match="no bval file beside"):
        load(path)
    found = load(path, *moved)
    assert found.bval_path == moved[0]
    assert len(found.gradients) == 7


def test_slabs_cover_the_image_once_with_their_halo():
    data = volume((3, 4, 11, 5)).astype(np.float32)
    found = DwiImage.from_arrays(data, gradients(5))
    for depth, halo in itertools.product((1, 2, 4, 11, 30), (0, 1, 3)):
        slabs = list(found.slabs(depth, halo))
        joined = np.concatenate([s.data[:, :, s.inner] for s in slabs], axis=2)
        np.testing.assert_array_equal(joined, data)
        for s in slabs:
            assert s.low == max(0, s.start - halo)
            assert s.data.shape[2] == min(11, s.stop + halo) - s.low


def test_a_plain_file_is_mapped_and_a_packed_one_may_be_spooled(tmp_path, monkeypatch):
    data = volume()
    plain = load(put(tmp_path, data, name="plain.nii", dtype="i2"))
    assert isinstance(plain.stored.values.base, np.memmap) or isinstance(plain.stored.values, np.memmap)
    monkeypatch.setattr(images, "SPOOL_BYTES", 100)
    packed = load(put(tmp_path, data, name="packed.nii.gz", dtype="i2"))
    assert isinstance(packed.stored.values.base, np.memmap) or isinstance(packed.stored.values, np.memmap)
    np.testing.assert_array_equal(packed.data, plain.data)


def test_arrays_are_wrapped_and_left_alone():
    data = volume().astype(np.int16)
    kept = data.copy()
    found = DwiImage.from_arrays(data, gradients(7))
    found.data[:] = 0
    assert np.array_equal(data, kept)
    assert data.flags.writeable
    np.testing.assert_array_equal(found.mean_b0(), data[..., 3])


def test_the_mean_b0_is_the_mean_of_all_b0s():
    bvals, bvecs = gradients(7)
    bvals[0] = 5
    data = volume()
    found = DwiImage.from_arrays(data, (bvals, bvecs))
    np.testing.assert_allclose(found.mean_b0(), data[..., [0, 3]].mean(axis=-1), rtol=1e-6)


# --- masks -----------------------------------------------------------------------------------------------


def test_masks_of_any_type_are_read(tmp_path):
    inside = volume(SHAPE[:3]) > 100
    for dtype in ("u1", "i2", "f4"):
        path = put(tmp_path, inside.astype(dtype), name=f"m_{dtype}.nii.gz", dtype=dtype, table=False)
        assert np.array_equal(load_mask(path, SHAPE[:3]), inside)


def test_nan_outside_the_mask_is_allowed(tmp_path):
    data = volume()
    data[0, 0, 0, 2] = np.nan
    inside = np.ones(SHAPE[:3], dtype=bool)
    path = put(tmp_path, data, dtype="f4")
    with pytest.raises(InvalidInputError, match="NaN"):
        load(path, mask=inside)
    inside[0, 0, 0] = False
    assert np.array_equal(load(path, mask=inside).mask, inside)
    mask_path = put(tmp_path, inside.astype("u1"), name="mask.nii.gz", dtype="u1", table=False)
    assert np.array_equal(load(path, mask=mask_path).mask, inside)


def test_bad_masks_are_refused(tmp_path):
    path = put(tmp_path, volume())
    for mask, reason in (
        (np.ones((5, 4, 5)), "5 x 4 x 5"),
        (np.zeros(SHAPE[:3]), "empty"),
        (np.full(SHAPE[:3], "a"), "numbers"),
    ):
        with pytest.raises(InvalidInputError, match=reason):
            load(path, mask=mask)
    with pytest.raises(InvalidInputError, match="4 dimensions"):
        load(path, mask=path)


def test_a_noise_map_must_lie_on_the_grid(tmp_path):
    path = put(tmp_path, volume((5, 4, 6)), name="noise.nii", table=False)
    assert load_volume(path, (5, 4, 6)).shape == (5, 4, 6)
    with pytest.raises(InvalidInputError, match="own grid"):
        load_volume(path, (5, 4, 7))


# --- bad images ------------------------------------------------------------------------------------------


def refuse(path, reason, **more):
    with pytest.raises(InvalidInputError, match=reason) as caught:
        load(path, **more)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["dwi.nii", "dwi.nii.gz"])
def test_truncated_files_are_refused_wherever_they_end(tmp_path, name):
    path = put(tmp_path, volume(), name=name, dtype="i2")
    whole = path.read_bytes()
    for end in [0, 1, 2, 10, 100, 347, 348, 352, len(whole) // 2, len(whole) - 9, len(whole) - 1]:
        path.write_bytes(whole[:end])
        refuse(path, r"dwi\.nii")


def test_a_flipped_bit_in_packed_values_is_noticed(tmp_path):
    path = put(tmp_path, volume(), dtype="f8")
    content = bytearray(path.read_bytes())
    content[-5] ^= 4  # in the checksum
    path.write_bytes(content)
    refuse(path, "damaged")


def write_header(path, **fields):
    """Change fields of the header of a plain NIfTI-1 file, leaving its values."""
    content = bytearray(path.read_bytes())
    header = np.frombuffer(content[:348], dtype=nib.Nifti1Header.template_dtype).copy()
    for key, value in fields.items():
        header[key] = value
    content[:348] = header.tobytes()
    path.write_bytes(content)


LIES = {
    "more volumes": {"dim": [4, 5, 4, 6, 70, 1, 1, 1]},
    "fewer slices": {"dim": [4, 5, 4, 5, 7, 1, 1, 1]},
    "huge": {"dim": [4, 32000, 32000, 32000, 7, 1, 1, 1]},
    "another type": {"datatype": 64, "bitpix": 64},
    "an offset beyond the end": {"vox_offset": 1e6},
    "infinite intercept": {"scl_slope": 2, "scl_inter": np.inf},
    "no such type": {"datatype": 999},
    "NaN orientation": {"srow_x": [np.nan, 0, 0, 0], "sform_code": 1},
    "negative": {"dim": [4, -5, 4, 6, 7, 1, 1, 1]},
    "nine axes": {"dim": [9, 5, 4, 6, 7, 1, 1, 1]},
    "no magic": {"magic": b"zzz"},
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("lie", LIES)
def test_headers_that_lie_are_refused(tmp_path, lie, packed):
    path = put(tmp_path, volume(), name="dwi.nii", dtype="i2")
    write_header(path, **LIES[lie])
    if packed:
        (tmp_path / "dwi.nii.gz").write_bytes(gzip.compress(path.read_bytes()))
        path = tmp_path / "dwi.nii.gz"
    refuse(path, r"dwi\.")


def test_other_bad_images_are_refused_with_a_reason(tmp_path):
    def case(name, data, reason, **more):
        refuse(put(tmp_path, data, name=f"{name}.nii.gz", **more), reason)

    data = volume()
    case("flat", data[..., 0], "3-D", table=False)
    case("one", data[..., :1], "one volume", table=False)
    case("zero", np.zeros(SHAPE), "zero", dtype="i2")
    case("constant", np.full(SHAPE, 7.0), "the same", dtype="i2")
    case("complex", data.astype(complex), "complex")
    for value, reason in ((np.nan, "NaN"), (np.inf, "infinity")):
        holed = data.copy()
        holed[1, 1, 1, 1] = value
        case(f"x{reason}", holed, reason)
    holed = data.copy()
    holed[0] = 1e300
    case("large", holed, "too large", dtype="f8")
    (tmp_path / "plain.nii.gz").write_bytes(b"not an image at all")
    refuse(tmp_path / "plain.nii.gz", "not a gzip file")
    (tmp_path / "packed.nii").write_bytes(gzip.compress(b"x"))
    refuse(tmp_path / "packed.nii", "rename")
    (tmp_path / "text.nii").write_text("hello " * 200)
    refuse(tmp_path / "text.nii", "NIfTI")
    refuse(tmp_path / "none.nii", "cannot read")
    refuse(tmp_path, "cannot read")


def test_no_b0_is_refused_unless_it_is_not_needed(tmp_path):
    path = put(tmp_path, volume())
    np.savetxt(tmp_path / "dwi.bval", np.full((1, 7), 1000.0))
    refuse(path, "no b0")
    assert load(path, require_b0=False).gradients.b0s.size == 0


def test_mutated_files_are_refused_or_read_and_nothing_else(tmp_path):
    """Some hundreds of damaged headers, values and gradient files."""
    random = np.random.default_rng(5)
    paths = [put(tmp_path, volume((4, 3, 3, 6)), name=name, dtype="i2") for name in ("a.nii", "b.nii.gz")]
    files = [*paths, tmp_path / "a.bval", tmp_path / "a.bvec"]
    whole = {path: path.read_bytes() for path in files}
    messages, n_read = [], 0
    for turn in range(480):
        victim = files[turn % 4]
        victim.write_bytes(mutated(whole[victim], random))
        try:
            found = load(paths[1] if victim == paths[1] else paths[0])
        except SeptumError as error:
            messages.append(str(error))
        else:
            assert np.isfinite(found.data).all()
            assert found.shape[3] == len(found.gradients)
            n_read += 1
        victim.write_bytes(whole[victim])
    assert min(n_read, len(messages)) > 20
    assert all(message and "\n" not in message for message in messages)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "a.bval",
        "a.bvec",
        "a.nii",
        "b.bval",
        "b.bvec",
        "b.nii.gz",
    ]


def mutated(content, random):
    """Bytes flipped (mostly in the first 400), cut, doubled, or put in."""
    out = bytearray(content)
    kind = random.integers(5)
    if kind < 2:
        for _ in range(random.integers(1, 6)):
            place = random.integers(min(len(out), 400 if random.random() < 0.8 else len(out)))
            out[place] = random.integers(256)
    elif kind == 2:
        del out[random.integers(len(out)) :]
    elif kind == 3:
        start, stop = sorted(random.integers(len(out), size=2))
        out[start:start] = out[start:stop]
    else:
        place = random.integers(len(out))
        out[place:place] = random.bytes(random.integers(1, 40))
    return bytes(out)


# --- writing ---------------------------------------------------------------------------------------------


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def test_the_header_is_kept_and_the_scaling_reset(tmp_path):
    file = nib.Nifti1Image(volume().astype("i2"), np.diag([2.0, 2, 2, 1]))
    file.header.set_xyzt_units("mm", "sec")
    file.header["descrip"] = b"scanner"
    file.header.set_sform(np.diag([2.0, 2, 2, 1]), code=2)
    file.header.set_qform(np.diag([2.0, 2, 2, 1]), code=3)
    file.header["cal_max"] = 99
    file.header.extensions.append(nib.nifti1.Nifti1Extension("comment", b"a note"))
    nib.save(file, tmp_path / "dwi.nii.gz")
    bvals, bvecs = gradients(7)
    np.savetxt(tmp_path / "dwi.bval", bvals[None])
    np.savetxt(tmp_path / "dwi.bvec", bvecs)
    found = load(tmp_path / "dwi.nii.gz")
    save(tmp_path / "out.nii", found.data + 0.5, found)
    save(tmp_path / "map.nii.gz", found.data[..., 0], found)
    for name, shape in (("out.nii", SHAPE), ("map.nii.gz", SHAPE[:3])):
        again = nib.load(tmp_path / name)
        assert again.shape == shape
        assert again.get_data_dtype() == np.float32
        assert again.header.get_xyzt_units() == ("mm", "sec")
        assert (int(again.header["sform_code"]), int(again.header["qform_code"])) == (2, 3)
        assert (again.dataobj.slope, again.dataobj.inter) == (1.0, 0.0)
        assert again.header["descrip"].item() == b"scanner"
        assert float(again.header["cal_max"]) == 0
        assert [e.text for e in again.header.extensions] == ["a note"]


def test_big_endian_and_nifti2_headers_are_kept(tmp_path):
    for name, kind, order in (("big", nib.Nifti1Image, ">"), ("two", nib.Nifti2Image, "<")):
        header = kind.header_class(endianness=order)
        file = kind(volume().astype("i2"), np.diag([3.0, 2, 1, 1]), header)
        path = tmp_path / f"{name}.nii"
        nib.save(file, path)
        bvals, bvecs = gradients(7)
        np.savetxt(tmp_path / f"{name}.bval", bvals)
        np.savetxt(tmp_path / f"{name}.bvec", bvecs)
        found = load(path)
        save(tmp_path / "out.nii.gz", found.data, found, force=True)
        again = nib.load(tmp_path / "out.nii.gz")
        assert isinstance(again, kind)
        np.testing.assert_array_equal(again.get_fdata(dtype=np.float32), volume().astype(np.float32))
        np.testing.assert_allclose(again.affine, np.diag([3.0, 2, 1, 1]))


def test_the_same_values_make_the_same_file(tmp_path):
    found = load(sample().dwi)
    part = found.data[:9, :8]
    for name in ("a.nii.gz", "b.nii.gz"):
        save(tmp_path / name, part, found)
    assert (tmp_path / "a.nii.gz").read_bytes() == (tmp_path / "b.nii.gz").read_bytes()
    assert (tmp_path / "a.nii.gz").read_bytes()[4:8] == b"\0\0\0\0"


@pytest.mark.parametrize("name", ["out.nii", "out.nii.gz"])
def test_slabs_in_any_order_make_the_file_that_the_whole_makes(tmp_path, name):
    found = load(sample().dwi)
    data = found.data[:7, :6]
    save(tmp_path / f"whole_{name}", data, found)
    with Outputs() as outputs, SlabWriter(tmp_path / name, data.shape, found, outputs=outputs) as writer:
        for start, stop in ((5, 9), (0, 2), (2, 5)):
            writer.write(start, data[:, :, start:stop])
    assert (tmp_path / name).read_bytes() == (tmp_path / f"whole_{name}").read_bytes()
    with (
        Outputs() as outputs,
        SlabWriter(tmp_path / f"map_{name}", data.shape[:3], found, outputs=outputs) as writer,
    ):
        writer.write(0, data[..., 0])
    np.testing.assert_array_equal(load_volume(tmp_path / f"map_{name}"), data[..., 0])
    assert names(tmp_path) == sorted([name, f"map_{name}", f"whole_{name}"])


def test_a_slab_that_does_not_fit_is_refused(tmp_path):
    found = load(sample().dwi)
    with (
        pytest.raises(InvalidInputError, match="does not fit"),
        Outputs() as outputs,
        SlabWriter(tmp_path / "x.nii", (4, 4, 4, 65), found, outputs=outputs) as writer,
    ):
        writer.write(3, found.data[:4, :4, :2])
    assert names(tmp_path) == []


def test_gradient_files_are_copied_byte_for_byte(tmp_path):
    found = load(sample().dwi)
    with Outputs() as outputs:
        write_gradients(tmp_path / "out.nii.gz", found, outputs=outputs)
    assert (tmp_path / "out.bvec").read_bytes() == sample().bvec.read_bytes()
    assert (tmp_path / "out.bval").read_bytes() == sample().bval.read_bytes()
    with Outputs(force=True) as outputs:
        write_gradients(
            tmp_path / "out.nii.gz", DwiImage.from_arrays(volume(), gradients(7)), outputs=outputs
        )
    assert len((tmp_path / "out.bvec").read_text().splitlines()) == 3


def test_an_output_must_be_nifti(tmp_path):
    with pytest.raises(InvalidInputError, match=r"must end in \.nii\.gz"):
        save(tmp_path / "out.mif", volume(), np.eye(4))
    assert names(tmp_path) == []


# --- whole or not at all ---------------------------------------------------------------------------------


def test_nothing_is_overwritten_without_force(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("mine")
    with pytest.raises(InvalidInputError, match="--force"), Outputs() as outputs:
        outputs.claim(path)
    with pytest.raises(InvalidInputError, match="--force"), Outputs() as outputs:
        outputs.text(path, "new")
    assert path.read_text() == "mine"
    with Outputs(force=True) as outputs:
        outputs.text(path, "new")
    assert path.read_text() == "new"
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_any_end_but_a_good_one_leaves_nothing(tmp_path, error):
    (tmp_path / "old.txt").write_text("old")

    def work():
        with Outputs(force=True) as outputs:
            outputs.folder(tmp_path / "new" / "deep")
            outputs.text(tmp_path / "old.txt", "changed")
            outputs.text(tmp_path / "new" / "deep" / "x.txt", "x")
            write(tmp_path / "y.nii.gz", volume(), np.eye(4), outputs=outputs)
            raise error

    with pytest.raises(error):
        work()
    assert names(tmp_path) == ["old.txt"]
    assert (tmp_path / "old.txt").read_text() == "old"


def test_a_failure_while_renaming_puts_everything_back(tmp_path, monkeypatch):
    for name in "ab":
        (tmp_path / name).write_text("old")
    replace = os.replace

    def fail(source, target):
        if str(target).endswith("c"):
            raise OSError(errno.ENOSPC, "no space")
        replace(source, target)

    def work():
        with Outputs(force=True) as outputs:
            for name in "abcd":
                outputs.text(tmp_path / name, "new")
            monkeypatch.setattr(os, "replace", fail)

    with pytest.raises(InvalidInputError, match="disk is full"):
        work()
    assert names(tmp_path) == ["a", "b"]
    assert {(tmp_path / name).read_text() for name in "ab"} == {"old"}


def test_a_full_disk_is_one_clear_error_and_leaves_nothing(tmp_path):
    """A limit on the size of files stands for a disk without room."""
    kept = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, kept[1]))
    try:
        for name in ("a.nii", "a.nii.gz"):
            with pytest.raises(InvalidInputError, match="cannot write"):
                save(tmp_path / name, np.random.default_rng(0).random((20, 20, 20)), np.eye(4))
        with (
            pytest.raises(InvalidInputError, match="cannot write"),
            Outputs() as outputs,
            SlabWriter(tmp_path / "b.nii", (20, 20, 20, 3), np.eye(4), outputs=outputs),
        ):
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, kept)
    assert names(tmp_path) == []


def test_places_that_cannot_be_written_are_refused_at_once(tmp_path):
    (tmp_path / "file").write_text("")
    cases = {
        tmp_path / "none" / "x.nii": "does not exist",
        tmp_path / "file" / "x.nii": "is a file",
        tmp_path: "is a folder",
        tmp_path / ("x" * 400): "name is too long|too long",
    }
    for path, reason in cases.items():
        with pytest.raises(InvalidInputError, match=reason), Outputs() as outputs:
            outputs.claim(path)
    with pytest.raises(InvalidInputError, match="cannot write"), Outputs() as outputs:
        outputs.folder("/proc/self/septum")
    with pytest.raises(InvalidInputError, match="is a file"), Outputs() as outputs:
        outputs.folder(tmp_path / "file" / "deep")
    with pytest.raises(InvalidInputError, match="asked for twice"), Outputs() as outputs:
        outputs.claim(tmp_path / "a", tmp_path / "x" / ".." / "a")
    assert names(tmp_path) == ["file"]


def test_new_files_have_the_permissions_of_any_new_file(tmp_path):
    (tmp_path / "plain").write_text("")
    (tmp_path / "own").write_text("")
    (tmp_path / "own").chmod(0o640)
    with Outputs(force=True) as outputs:
        outputs.text(tmp_path / "new", "")
        outputs.text(tmp_path / "own", "")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert (tmp_path / "own").stat().st_mode & 0o777 == 0o640
