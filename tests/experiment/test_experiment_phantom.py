"""The phantom study in the smallest size: its tables follow from its stages, and its stages from their seeds."""

from dataclasses import asdict, replace

import numpy as np
import pytest

from septum.dmri.phantom import default_scheme, simulate
from septum.experiment import Study, phantom, phantom_page, picture
from septum.experiment.paper import DENOISING
from septum.experiment.roster import BY_NAME, NAMES
from septum.experiment.score import psnr
from septum.report.record import Record, compare

PRINTED = phantom.Protocol("printed", False, (0.8, 0.5), 0.6, 1)
CENTRED = phantom.Protocol("centred", True, (0.6, 0.45), 0.6, 1)
TINY = phantom.Size(
    ("I-SR", "I-KSVD", "KSVD-KSVD", "Proposed"), (25,), (18, 29), 6, (6, 6), 2, 2, (PRINTED, CENTRED), True, (0.8,), False
)


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(phantom, "SMALL", TINY)
        patch.setattr(phantom, "TUNING", (20,))
        folder = tmp_path_factory.mktemp("phantom")
        record, pictures = phantom.run(Study(folder, small=True))
        again, _ = phantom.run(Study(folder, small=True))
        fresh, _ = phantom.run(Study(tmp_path_factory.mktemp("fresh"), small=True))
    return record, pictures, again, fresh


def table(record, section, name):
    return next(item for item in record.section(section).items if getattr(item, "name", "").startswith(name))


def column(found, label):
    index = [c.label for c in found.columns].index(label)
    return {row[0]: row[index] for row in found.rows}


def test_the_same_study_gives_the_same_record(ran):
    record, _, again, fresh = ran
    assert compare(record, again) == []
    assert compare(record, fresh, rtol=1e-9) == []
    assert Record.from_json(record.to_json()) == record


def test_every_picture_named_is_there(ran):
    record, pictures, _, _ = ran
    named = {item.name for section in record.sections for item in section.items if hasattr(item, "alt")}
    assert named == set(pictures)


def test_table_three_holds_the_paper_and_the_raw_data(ran):
    scores = table(ran[0], "Table 3, the paper's protocol", "PSNR against SNR 30")
    assert set(column(scores, "average")) == {"raw data", *TINY.methods}
    for name, printed in column(scores, "average, paper").items():
        assert printed == (DENOISING[name][-1] if name in DENOISING else None)
    volume = simulate(seed=0, slices=TINY.slices)
    weighted = volume.gradients.weighted
    noisy, clean = (volume.with_noise(s, seed=0).data[:, :, 7:8, weighted].astype(float) for s in (10, 30))
    first = psnr(noisy, clean)[0]
    noisy, clean = (volume.with_noise(s, seed=1).data[:, :, 7:8, weighted].astype(float) for s in (10, 30))
    assert column(scores, "slice 25")["raw data"] == pytest.approx((first + psnr(noisy, clean)[0]) / 2, abs=1e-5)


def test_gaps_meet_the_tolerance_and_denoising_helps(ran):
    sections = {"Table 3, the paper's protocol": "against SNR 30", "Table 3, centred patches": "against truth"}
    for section, metric in sections.items():
        details = table(ran[0], section, "How each was run")
        assert all(gap <= 1e-3 for gap in column(details, "largest lasso gap").values())
        scores = column(table(ran[0], section, f"PSNR {metric}"), "average")
        assert scores["I-SR"] > scores["raw data"] + 1


def test_differences_are_those_of_the_averages(ran):
    answers = table(ran[0], "The four questions", "Answers")
    by_pair = {row[2]: row for row in answers.rows}
    row = by_pair["KSVD-KSVD over I-KSVD"]
    scores = column(table(ran[0], "Table 3, the paper's protocol", "PSNR"), "average")
    labels = [c.label for c in answers.columns]
    assert row[labels.index("printed")] == pytest.approx(scores["KSVD-KSVD"] - scores["I-KSVD"])
    assert row[labels.index("paper")] == pytest.approx(DENOISING["KSVD-KSVD"][-1] - DENOISING["I-KSVD"][-1])
    assert row[labels.index("printed, as the paper?")] in ("agrees", "the opposite", "undecided")
    assert by_pair["KDRSDL over KSVD-KSVD"][labels.index("printed")] is None


def test_perfect_denoising_that_keeps_the_floor_is_the_mean_of_many_noises():
    """The bound is E[m]; the mean of 200 noisy magnitudes comes close to it."""
    volume = simulate(seed=0, slices=(25, 26))
    weighted = volume.gradients.weighted[:8]
    total = np.mean([volume.with_noise(10, seed=k).data[..., weighted] for k in range(200)], axis=0)
    truth = volume.truth[..., weighted].astype(float)
    expected = phantom.SIGMA * phantom.rician.mean(truth / phantom.SIGMA)
    assert np.abs(total - expected).mean() < 0.01
    assert np.abs(expected - truth).mean() > 0.02


def test_one_slice_has_the_noise_it_has_in_the_volume():
    volume = simulate(seed=3, slices=(20, 24))
    whole = volume.with_noise(10, seed=5).data[:, :, 2]
    np.testing.assert_array_equal(phantom.one_slice(volume, 2).with_noise(10, seed=5).data[:, :, 0], whole)


def test_other_training_seeds_give_other_dictionaries_and_fixed_ones_stay():
    sizes = {"slices": [18, 29], "test": [25], "seed": 0, "n_patches": 6, "n_atoms": [5, 5], "sweeps": 1}
    how = replace(PRINTED, alphas=(0.8,))
    found = {}
    for name in ("I-SR", "KSVD-KSVD"):
        for seed in (0, 1):
            result = phantom.trial(method=name, protocol=asdict(how), training_seed=seed, noise_seeds=[0], **sizes)
            found[name, seed] = result.arrays["angular"]
    np.testing.assert_array_equal(found["I-SR", 0], found["I-SR", 1])
    assert np.abs(found["KSVD-KSVD", 0] - found["KSVD-KSVD", 1]).max() > 1e-3


def test_the_roster_is_the_papers_tables():
    assert set(DENOISING) < set(NAMES)
    assert {"Curve-KSVD", "KSVD-SR"} < set(NAMES)
    for first, second in (pair for _, _, pairs in phantom_page.QUESTIONS for pair in pairs):
        assert {first, second} <= set(DENOISING)
    assert BY_NAME["Proposed"].optimality == "global"
    assert not BY_NAME["I-KSVD"].is_joint_domain


def test_the_shape_of_a_fibres_signal_points_along_the_fibre():
    scheme = default_scheme()
    directions = scheme.bvecs[scheme.weighted]
    fibre = np.array([0.6, 0.0, 0.8])
    signal = np.exp(-3.0 * (directions @ fibre) ** 2)
    for atom in (signal, -signal, signal - signal.mean()):
        values = picture.basis(directions, picture.ORDER) @ picture._shape(atom, directions)
        assert abs(directions[np.argmax(values)] @ fibre) > 0.95
