"""Every example runs and keeps its word."""

import importlib.util
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples"


def run(name):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main()


def test_all_examples_are_tested():
    assert {path.stem for path in FOLDER.glob("*.py")} == {"learn_and_certify", "missing_entries", "denoise_patches"}


def test_learning_reaches_what_it_was_asked_for():
    measured, expected = run("learn_and_certify")
    assert measured >= expected


@pytest.mark.parametrize("name", ["missing_entries", "denoise_patches"])
def test_errors_fall(name):
    after, before = run(name)
    assert after < 0.5 * before
