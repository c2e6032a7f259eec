"""The synthetic study in the smallest size: every number in its tables follows from the arrays it kept."""

import numpy as np
import pytest

from septum.datasets import make_separable
from septum.experiment import Study, synthetic
from septum.experiment.paper import SYNTHETIC
from septum.optimum import global_optimum
from septum.report.record import Record, compare

TINY = synthetic.Size(40, None, 3, 20, 2, (0.95, 0.75))


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    folder = tmp_path_factory.mktemp("synthetic")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(synthetic, "SMALL", TINY)
        record, pictures = synthetic.run(Study(folder, small=True))
        again, _ = synthetic.run(Study(folder, small=True))
        fresh, _ = synthetic.run(Study(tmp_path_factory.mktemp("fresh"), small=True))
    return record, pictures, again, fresh


def table(record, section):
    return next(item for item in record.section(section).items if hasattr(item, "rows"))


def test_the_same_study_gives_the_same_record(ran):
    record, _, again, fresh = ran
    assert compare(record, again) == []
    assert compare(record, fresh, rtol=1e-9) == []
    assert Record.from_json(record.to_json()) == record


def test_rows_hold_the_known_optimum_and_the_paper(ran):
    sizes = table(ran[0], "Sizes")
    labels = [column.label for column in sizes.columns]
    X = make_separable(TINY.n_samples, random_state=0).X
    for row in sizes.rows:
        alpha = float(row[0].split(",")[0])
        assert row[labels.index("r~")] == global_optimum(X, alpha).rank
        assert row[labels.index("r~, paper")] == SYNTHETIC[alpha][3]
        assert row[labels.index("attainment")] <= 100.0
        assert row[labels.index("objective minus optimum")] >= 0.0


def test_the_default_solver_reaches_its_goal(ran):
    sizes = table(ran[0], "Sizes")
    column = [c.label for c in sizes.columns].index("attainment")
    reached = [row[column] for row in sizes.rows if "default" in row[0]]
    assert len(reached) == 2
    assert min(reached) >= 98.0


def test_every_picture_named_is_there(ran):
    record, pictures, _, _ = ran
    named = {item.name for section in record.sections for item in section.items if hasattr(item, "alt")}
    assert named == set(pictures)


def test_matches_are_one_for_the_atoms_themselves_whatever_their_sign():
    atoms = synthetic.spatial_atoms()
    np.testing.assert_allclose(synthetic.matches(-atoms[:, ::-1], atoms), 1.0)
    np.testing.assert_array_equal(synthetic.matches(atoms[:, :0], atoms), 0.0)


def test_zero_is_optimal_from_the_largest_singular_value_on():
    numbers = synthetic.zero_remark(n_samples=30, seed=0).numbers
    assert numbers["codes"] == 0
    assert numbers["verdict"] == "optimal"
    assert numbers["ranks"]["1.05"] == 0
