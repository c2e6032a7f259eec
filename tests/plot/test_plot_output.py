"""Files and bytes: the same each time, whole or not at all, and matplotlib's own settings left alone."""

import importlib
import subprocess
import sys

import numpy as np
import pytest

from septum import plot
from septum.errors import InvalidInputError, MissingExtraError


@pytest.fixture
def figure():
    return plot.atoms(np.random.default_rng(0).normal(size=(9, 4)), (3, 3), title="Atoms")


def test_the_same_figure_gives_the_same_bytes(figure):
    again = plot.atoms(np.random.default_rng(0).normal(size=(9, 4)), (3, 3), title="Atoms")
    assert plot.png(figure) == plot.png(again)
    assert plot.svg(figure) == plot.svg(again)
    assert "<dc:date>" not in plot.svg(figure)


def test_files(figure, tmp_path):
    starts = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
    for kind, start in starts.items():
        path = plot.save(figure, tmp_path / f"a.{kind}")
        assert path.read_bytes().startswith(start)
    with pytest.raises(InvalidInputError, match="exists"):
        plot.save(figure, tmp_path / "a.png", force=False)
    with pytest.raises(InvalidInputError, match=r"\.png, \.svg or \.pdf"):
        plot.save(figure, tmp_path / "a.jpeg")
    with pytest.raises(InvalidInputError, match="does not exist"):
        plot.save(figure, tmp_path / "absent" / "a.png")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.pdf", "a.png", "a.svg"]


def test_letters_stay_letters_when_asked(figure):
    assert ">Atoms</text>" in plot.svg(figure, text=True)
    assert ">Atoms</text>" not in plot.svg(figure)


def test_settings_are_left_alone(figure):
    import matplotlib

    # Reading "backend" would choose one.
    names = [name for name in matplotlib.rcParams if name != "backend"]
    before = {name: matplotlib.rcParams[name] for name in names}
    plot.png(plot.atoms(np.eye(3)))
    assert {name: matplotlib.rcParams[name] for name in names} == before


def test_nothing_is_imported_before_it_is_needed_and_pyplot_never():
    code = (
        "import sys, septum; from septum import plot; assert 'matplotlib' not in sys.modules;"
        "plot.svg(plot.atoms([[1.0, 0.0], [0.0, 1.0]])); assert 'matplotlib' in sys.modules;"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_matplotlib_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"septum\[dmri\]"):
        plot.atoms(np.eye(3))


def test_the_module_does_not_hide_the_function():
    importlib.import_module("septum.plot.front")
    assert callable(plot.front)
    assert plot.front is sys.modules["septum.plot.front"].front
    assert set(plot.__all__) <= set(dir(plot))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = plot.nothing
