"""Records: to JSON and back, equal; and what differs between two of them is found."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from septum.errors import InvalidInputError
from septum.report import Column, Number, Numbers, Picture, Record, Section, Table, Text, compare, versions

cells = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**12), 10**12), st.floats(allow_nan=False), st.text(max_size=8)
)
columns = st.builds(
    Column,
    st.text(max_size=5),
    digits=st.none() | st.integers(0, 5),
    role=st.sampled_from(["value", "paper", "timing"]),
    better=st.sampled_from(["", "higher", "lower"]),
)


@st.composite
def tables(draw):
    heads = draw(st.lists(columns, min_size=1, max_size=4))
    row = st.tuples(*(cells for _ in heads))
    return Table(draw(st.text(max_size=5)), tuple(heads), tuple(draw(st.lists(row, max_size=3))))


items = st.one_of(
    st.builds(Text, st.text(max_size=20), st.sampled_from(["", "note"])),
    st.builds(Numbers, st.lists(st.builds(Number, st.text(max_size=5), cells), max_size=3).map(tuple)),
    st.builds(Picture, st.text(max_size=5), st.text(max_size=5), st.text(max_size=5)),
    tables(),
)
records = st.builds(
    Record,
    st.text(max_size=10),
    st.lists(st.builds(Section, st.text(max_size=6), st.lists(items, max_size=3).map(tuple)), max_size=3).map(
        tuple
    ),
    command=st.text(max_size=10),
    inputs=st.lists(st.fixed_dictionaries({"Name": st.text(), "SHA256": st.text()}), max_size=2).map(tuple),
    seeds=st.dictionaries(
        st.text(max_size=4), st.integers() | st.lists(st.integers(), max_size=3), max_size=2
    ),
)


@given(records)
@settings(max_examples=60, deadline=None)
def test_round_trip(record):
    again = Record.from_json(record.to_json())
    assert again == record
    assert again.to_json() == record.to_json()
    assert compare(record, again) == []


@pytest.fixture
def record():
    table = Table(
        "psnr",
        (
            Column("slice"),
            Column("ours", "dB", 2),
            Column("paper", role="paper"),
            Column("seconds", role="timing"),
        ),
        ((25, 20.5, 19.501, 3.0), (30, 18.25, 17.221, 4.0)),
    )
    numbers = Numbers((Number("atoms", 30), Number("seconds", 1.5, role="timing")))
    sections = (Section("Tables", (Text("as it was"), table, numbers)),)
    return Record(
        "a run", sections, inputs=({"Name": "a", "SHA256": "00"},), seeds={"data": 0}, versions=versions()
    )


def changed(record, **changes):
    text, table, numbers = record.sections[0].items
    given = {"text": text, "table": table, "numbers": numbers} | changes
    return replace(record, sections=(Section("Tables", tuple(given.values())),))


def test_one_changed_cell_is_found(record):
    table = record.sections[0].items[1]
    rows = (table.rows[0], (30, 18.26, 17.221, 4.0))
    (found,) = compare(record, changed(record, table=replace(table, rows=rows)))
    assert (found.this, found.other) == (18.25, 18.26)
    assert found.where == "Tables / psnr / row 2 (30) / ours"
    assert "18.25 here, 18.26 there" in str(found)
    assert compare(record, changed(record, table=replace(table, rows=rows)), rtol=1e-3) == []
    assert compare(record, changed(record, table=replace(table, rows=rows)), atol=0.02) == []


def test_times_words_and_versions_may_differ(record):
    table = record.sections[0].items[1]
    rows = tuple((*row[:3], 99.0) for row in table.rows)
    other = changed(
        record,
        table=replace(table, rows=rows),
        text=Text("as it is"),
        numbers=Numbers((Number("atoms", 30), Number("seconds", 77.0, role="timing"))),
    )
    assert compare(record, replace(other, versions={"numpy": "0"}, command="another")) == []


def test_what_is_missing_seeds_and_inputs_are_differences(record):
    table = record.sections[0].items[1]
    shorter = changed(record, table=replace(table, rows=table.rows[:1]))
    assert [d.other for d in compare(record, shorter)] == ["absent"] * 3
    assert [d.this for d in compare(shorter, record)] == ["absent"] * 3
    assert [d.where for d in compare(record, replace(record, seeds={"data": 1}))] == ["seed / data"]
    other = replace(record, inputs=({"Name": "a", "SHA256": "11"},))
    assert [d.where for d in compare(record, other)] == ["input 1 / SHA256"]


def test_numbers_of_numpy_and_not_finite_ones():
    number = Number("x", np.float32(0.5))
    assert isinstance(number.value, float)
    row = (np.int64(3), np.nan, np.inf, -np.inf, np.bool_(True))
    table = Table("t", ("a", "b", "c", "d", "e"), (row,))
    assert table.rows == ((3, None, "∞", "−∞", True),)
    assert [type(cell) for cell in table.rows[0]] == [int, type(None), str, str, bool]


def test_a_truth_value_is_not_a_number():
    one, other = (Record("r", (Section("s", (Numbers((Number("is", value),)),)),)) for value in (True, 1))
    assert len(compare(one, other)) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("not json", "not valid JSON"),
        ("[1]", "not a record"),
        ('{"format": "septum-record", "schema": 99}', "schema 99"),
        ('{"format": "septum-record", "schema": 1}', "damaged"),
        (
            '{"format": "septum-record", "schema": 1, "sections": [{"title": "", "items": [{"kind": "x"}]}]}',
            "kind 'x'",
        ),
    ],
)
def test_bad_json(text, words):
    with pytest.raises(InvalidInputError, match=words):
        Record.from_json(text)


def test_bad_files_rows_and_sections(tmp_path, record):
    with pytest.raises(InvalidInputError, match="cannot read the record"):
        Record.read(tmp_path / "absent.json")
    with pytest.raises(InvalidInputError, match="2 columns but a row of 1"):
        Table("t", ("a", "b"), ((1,),))
    with pytest.raises(InvalidInputError, match="no section 'Other'"):
        record.section("Other")
    path = tmp_path / "record.json"
    path.write_text(record.to_json(), encoding="utf-8")
    assert Record.read(path) == record
    assert json.loads(path.read_text(encoding="utf-8"))["versions"]["numpy"] == np.__version__
