"""Stages on disk: done once, done again when anything they depend on changes, and never half-written."""

import numpy as np
import pytest

from septum.experiment.stage import Result, Study

calls = []


def double(*, value, scale=1.0):
    calls.append(value)
    return Result({"twice": 2 * value * scale}, {"ones": np.ones(value)})


@pytest.fixture(autouse=True)
def _forget():
    calls.clear()


def test_a_finished_stage_is_not_done_again(tmp_path):
    study = Study(tmp_path)
    first = study.stage(double, value=3)
    again = Study(tmp_path).stage(double, value=3)
    assert calls == [3]
    assert again.numbers == first.numbers == {"twice": 6.0}
    np.testing.assert_array_equal(again.arrays["ones"], np.ones(3))


def test_other_parameters_make_another_stage(tmp_path):
    study = Study(tmp_path)
    assert study.stage(double, value=3, scale=2.0).numbers != study.stage(double, value=3).numbers
    assert calls == [3, 3]


def test_a_damaged_stage_is_done_again(tmp_path):
    study = Study(tmp_path)
    study.stage(double, value=3)
    (path,) = (tmp_path / "stages").glob("double-*.npz")
    path.write_bytes(path.read_bytes()[:40])
    assert study.stage(double, value=3).numbers == {"twice": 6.0}
    assert calls == [3, 3]


def test_a_stopped_study_goes_on_where_it_was(tmp_path):
    every = [{"value": k} for k in (1, 2, 3)]

    def stops(fraction, text):
        if fraction >= 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Study(tmp_path, report=stops).stages(double, every, begin=0.0, end=1.0, text="doubling")
    assert calls == [1, 2]
    assert [r.numbers["twice"] for r in Study(tmp_path).stages(double, every, begin=0.0, end=1.0, text="")] == [2, 4, 6]
    assert calls == [1, 2, 3]
    assert not list((tmp_path / "stages").glob(".*"))


def test_processes_give_the_same_results(tmp_path):
    from septum.experiment.synthetic import optimum

    every = [{"n_samples": 20, "seed": 0, "alpha": alpha} for alpha in (0.7, 0.9)]
    one = Study(tmp_path / "one").stages(optimum, every, begin=0.0, end=1.0, text="")
    two = Study(tmp_path / "two", n_threads=2).stages(optimum, every, begin=0.0, end=1.0, text="")
    assert [r.numbers for r in one] == [r.numbers for r in two]
