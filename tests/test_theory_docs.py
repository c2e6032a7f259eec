"""Every file and test that the documentation of the theory names is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("theory.md")) + sorted((ROOT / "docs" / "decisions").glob("*.md"))
NAMED = re.compile(r"`([\w/.-]+\.(?:py|md))(?:::(\w+))?`")


def named():
    for page in PAGES:
        for path, name in NAMED.findall(page.read_text(encoding="utf-8")):
            yield pytest.param(path, name, id=f"{page.name}:{path}:{name}")


def places(path):
    roots = (ROOT, ROOT / "src" / "septum", ROOT / "tests", ROOT / "docs", ROOT / "tests" / "regularizer")
    return [root / path for root in (*roots, ROOT / "src/septum/regularizer") if (root / path).exists()]


@pytest.mark.parametrize(("path", "name"), list(named()))
def test_what_is_named_exists(path, name):
    found = places(path)
    assert found, f"no file {path}"
    if name:
        pattern = re.compile(rf"^(?:def|class) {name}\b", re.MULTILINE)
        assert any(pattern.search(place.read_text(encoding="utf-8")) for place in found), f"no {name} in {path}"


def test_the_theory_page_names_tests():
    text = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")
    assert len([name for _, name in NAMED.findall(text) if name]) > 30
