"""The real-image study on a small image with known signal: residuals, records, and images that do not fit."""

import numpy as np
import pytest

from septum.dmri.image import write
from septum.dmri.multitensor import simulate
from septum.dmri.output import Outputs
from septum.errors import InvalidInputError
from septum.experiment import Study, real, real_page
from septum.report.record import Record, compare

TINY = real.Size(("I-SR", "KSVD-KSVD", "Proposed"), 8, (6, 6), 2, 1, 1)


def save(phantom, path):
    with Outputs(force=False) as outputs:
        write(path, phantom.data, phantom.affine, outputs=outputs)
        outputs.text(path.parent / "dwi.bval", phantom.gradients.bval_text())
        outputs.text(path.parent / "dwi.bvec", phantom.gradients.bvec_text())
    return path


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    phantom = simulate(shape=(16, 14, 6), snr=20.0)
    return save(phantom, tmp_path_factory.mktemp("image") / "dwi.nii.gz")


@pytest.fixture(scope="module")
def ran(image, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(real, "SMALL", TINY)
        folder = tmp_path_factory.mktemp("real")
        record, pictures = real.run(Study(folder, small=True), image=image)
        again, _ = real.run(Study(tmp_path_factory.mktemp("fresh"), small=True), image=image)
    return record, pictures, again


def test_the_same_study_gives_the_same_record(ran):
    record, _, again = ran
    assert compare(record, again, rtol=1e-9) == []
    assert Record.from_json(record.to_json()) == record
    assert record.inputs[0]["Name"] == "dwi.nii.gz"


def test_every_picture_named_is_there(ran):
    record, pictures, _ = ran
    named = {item.name for section in record.sections for item in section.items if hasattr(item, "alt")}
    assert named == set(pictures)


def test_what_is_removed_is_about_the_noise(ran):
    (residuals,) = ran[0].section("What was taken away").items
    labels = [c.label for c in residuals.columns]
    removed = {row[0]: row[labels.index("removed, in sigma")] for row in residuals.rows}
    assert set(removed) == {*TINY.methods, real_page.WHOLE}
    assert all(0.4 < value < 1.6 for value in removed.values())


def test_the_sample_is_the_default():
    from septum.dmri import sample

    assert real._path(None) == sample().dwi


def test_an_image_too_small_for_a_patch_is_refused(tmp_path):
    path = save(simulate(shape=(8, 14, 4), snr=20.0), tmp_path / "dwi.nii.gz")
    with pytest.raises(InvalidInputError, match="at least 12 x 12"):
        real.run(Study(tmp_path / "study", small=True), image=path)


def test_middle_slices():
    assert real.middle_slices(9, 3) == [3, 4, 5]
    assert real.middle_slices(2, 3) == [0, 1]


def test_the_window_holds_the_most_voxels():
    where = np.zeros((40, 30), dtype=bool)
    where[21:35, 8:20] = True
    x, y = real_page._window(where)
    assert where[x, y].sum() == where.sum()


def test_disagreement_is_the_angle_between_neighbours():
    where = np.zeros((3, 3), dtype=bool)
    where[0, :2] = True
    directions = np.zeros((3, 3, 3))
    directions[0, 0], directions[0, 1] = (1, 0, 0), (np.cos(0.3), np.sin(0.3), 0)
    assert real_page._disagreement(directions, where) == pytest.approx(np.degrees(0.3))
