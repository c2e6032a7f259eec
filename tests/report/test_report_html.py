"""The page: well formed, self-contained, escaped, small, accessible, and the same bytes each time."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest
import scipy.sparse as sp

from septum import certify, plot
from septum.errors import InvalidInputError, InvalidTypeError
from septum.report import (
    Column,
    Number,
    Numbers,
    Picture,
    Record,
    Section,
    Table,
    Text,
    denoising_report,
    render,
    study_report,
)
from septum.report.html import show_cell, show_large

VOID = {"meta", "link", "img", "input", "br", "hr"}
EVIL = '<script>alert("x")</script>&\'.nii.gz'


class Page(HTMLParser):
    """Checks nesting as it reads; keeps every tag with its attributes, and the text outside scripts."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.words = [], [], []
        self.feed(text)
        self.close()
        assert self.open == [], f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"{tag} has an attribute twice"
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.words.append(data)

    def every(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]


def study():
    table = Table(
        EVIL,
        (Column("method"), Column("ours", "dB", 2, better="higher"), Column("paper", "dB", 2, role="paper")),
        (("one", 19.0, 18.2), ("two", -20.125, 17.0), ("three", None, 16.0)),
        caption=EVIL,
    )
    items = (
        Text(EVIL),
        Text("mind", "note"),
        Numbers((Number("n", 3), Number("big", 1.5e9))),
        table,
        Picture("a", EVIL, EVIL),
    )
    record = Record(
        f"Study of {EVIL}",
        (Section("Same title", items), Section("Same title", (Picture("b", "curve"), Picture("c", "bytes")))),
        command=f"septum reproduce {EVIL}",
        inputs=({"Name": EVIL, "Bytes": 12, "SHA256": "ab"},),
        seeds={"data": 0},
    )
    history = {
        "objective": np.array([3.0, 2.0]),
        "lower_bound": np.ones(2),
        "inner_objective": [[4.0, 3.0], [2.0]],
    }
    pictures = {
        "a": plot.atoms(np.eye(4), (2, 2), title="x < y & z"),
        "b": plot.convergence(history),
        "c": plot.png(plot.atoms(np.eye(3)), dpi=40),
    }
    return record, pictures


def denoised(path, seed=0, **options):
    rng = np.random.default_rng(seed)
    shape = (20, 24, 4, 10)
    truth = 50 + 30 * np.cumsum(rng.normal(size=shape), axis=0)
    before = truth + 5 * rng.normal(size=shape)
    g = rng.normal(size=(10, 3))
    g /= np.linalg.norm(g, axis=1, keepdims=True)
    b = np.full(10, 1000.0)
    b[3], g[3] = 0.0, 0.0
    angular, spatial = (
        d / np.linalg.norm(d, axis=0) for d in (rng.normal(size=(10, 4)), rng.normal(size=(9, 5)))
    )
    X = rng.normal(size=(7, 10, 9))
    codes = sp.coo_array(
        0.3 * np.einsum("gi,tgv,vj->tij", angular, X, spatial) * (rng.random((7, 4, 5)) < 0.4)
    )
    history = {
        "objective": np.array([9.0, 7.0]),
        "lower_bound": np.full(2, 6.0),
        "attainment": np.array([0.4, 0.8]),
        "inner_objective": [np.array([10.0, 9.0]), np.array([8.0, 7.0])],
    }
    given = {
        "before": before, "after": truth, "truth": truth, "noise": np.full(shape[:3], 5.0), "bvals": b, "bvecs": g,
        "mask": np.ones(shape[:3], dtype=bool), "affine": np.diag([2.0, 2, 2, 1]), "title": f"Denoised: {EVIL}",
        "command": f"septum denoise {EVIL}", "dictionaries": [angular, spatial], "codes": codes, "patch_shape": (3, 3),
        "certificate": certify(X, [angular, spatial], codes, 1.0), "history": history, "alpha": 1.0,
        "numbers": {"Volumes": 10}, "parameters": {"patch": (3, 3), "mask": None, EVIL: EVIL}, "timings": {"learn": 1.5},
        "seeds": {"seed": 0}, "inputs": [{"Name": EVIL, "Bytes": 1, "SHA256": "ff"}], "notes": [EVIL],
        "closeups": [(EVIL, plot.png(plot.atoms(np.eye(3)), dpi=40))],
    }  # fmt: skip
    record = denoising_report(path, **(given | options))
    return record, path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    record, pictures = study()
    folder = tmp_path_factory.mktemp("pages")
    return [render(record, pictures), denoised(folder / "report.html")[1]]


def test_nothing_is_fetched(pages):
    for text in pages:
        bare = re.sub(r"base64,[A-Za-z0-9+/=]+", "", text)
        assert re.findall(r"(?i)https?:|ftp:|@import|//[a-z]", bare) == []
        page = Page(text)
        for tag, attrs in page.tags:
            for name in ("src", "href", "xlink:href", "action", "data", "poster", "srcset"):
                assert (attrs.get(name) or "#").startswith(("#", "data:")), (tag, attrs)
        assert not page.every("iframe") + page.every("object") + page.every("form")
        (policy,) = [
            a["content"] for a in page.every("meta") if a.get("http-equiv") == "Content-Security-Policy"
        ]
        assert "default-src 'none'" in policy


def test_names_from_files_are_escaped(pages):
    for text in pages:
        page = Page(text)
        assert "<script>alert" not in text
        assert 'alert("x")</script>' not in text
        words = "".join(page.words)
        assert f"{EVIL}" in words
        for attrs in page.every("script"):
            assert attrs.get("type", "") in ("", "application/json")


def test_ids_are_unique_and_references_lead_somewhere(pages):
    for text in pages:
        page = Page(text)
        ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
        assert len(ids) == len(set(ids))
        for _, attrs in page.tags:
            for name in ("aria-labelledby", "for", "data-from", "data-pack"):
                assert attrs.get(name) is None or attrs[name] in ids
            link = attrs.get("href") or attrs.get("xlink:href") or ""
            assert not link.startswith("#") or link[1:] in ids
        for reference in re.findall(r"url\(#([^)]+)\)", text):
            assert reference in ids


def test_pictures_and_controls_have_names(pages):
    for text in pages:
        page = Page(text)
        assert page.every("html")[0]["lang"] == "en"
        for attrs in page.every("img"):
            assert "alt" in attrs
        for attrs in page.every("svg"):
            assert attrs.get("aria-label") or attrs.get("aria-hidden") == "true"
        labelled = {attrs["for"] for attrs in page.every("label")}
        assert {attrs["id"] for attrs in page.every("input")} <= labelled
        for attrs in [a for _, a in page.tags if a.get("role") == "slider"]:
            assert {"aria-valuenow", "aria-valuemin", "aria-valuemax", "aria-label", "tabindex"} <= set(attrs)


def test_the_same_input_gives_the_same_bytes(tmp_path):
    record, pictures = study()
    again, more = study()
    assert render(record, pictures) == render(again, more)
    assert denoised(tmp_path / "a.html")[1] == denoised(tmp_path / "b.html")[1]


def test_the_best_number_is_bold_and_the_papers_are_marked(pages):
    page = Page(pages[0])
    best = [attrs for tag, attrs in page.tags if tag in ("td", "th") and "best" in attrs.get("class", "")]
    assert len(best) == 1
    assert '<td class="number value best">19.00</td>' in pages[0]
    assert "−20.12" in pages[0]  # a minus sign, and half to even
    assert '<td class="number paper">18.20</td>' in pages[0]


def test_a_denoised_image(tmp_path):
    record, text = denoised(tmp_path / "report.html", record_path=tmp_path / "record.json")
    assert [s.title for s in record.sections] == [
        "Before and after", "How good the dictionary is", "The dictionary", "Fibre directions", "Numbers",
        "Settings and times",
    ]  # fmt: skip
    assert Record.read(tmp_path / "record.json") == record
    assert "No dictionary of any size" in text
    assert len(Page(text).every("canvas")) == 4
    assert len(text) < 1_500_000
    assert sorted(p.name for p in tmp_path.iterdir()) == ["record.json", "report.html"]


def test_only_an_image_is_enough(tmp_path):
    image = np.random.default_rng(0).random((5, 6, 1, 1))
    record = denoising_report(tmp_path / "r.html", before=image, after=image)
    assert [s.title for s in record.sections] == ["Before and after"]
    page = Page((tmp_path / "r.html").read_text(encoding="utf-8"))
    assert all("disabled" in attrs for attrs in page.every("input"))


def test_other_numbers_of_modes_and_directions_of_their_own(tmp_path):
    rng = np.random.default_rng(0)
    three = [rng.normal(size=(d, 2)) for d in (4, 3, 5)]
    record, _ = denoised(tmp_path / "a.html", dictionaries=three, codes=None)
    pictures = [item.name for item in record.section("The dictionary").items]
    assert pictures == ["atoms-1", "atoms-2", "atoms-3"]
    g = rng.normal(size=(6, 3))
    two = [rng.normal(size=(6, 2)), rng.normal(size=(9, 2))]
    record, text = denoised(tmp_path / "b.html", dictionaries=two, codes=None, atom_bvecs=g, force=True)
    assert [i.name for i in record.section("The dictionary").items if isinstance(i, Picture)] == [
        "spatial-atoms", "angular-atoms",
    ]  # fmt: skip
    svgs = {a["aria-label"]: a for a in Page(text).every("svg") if "aria-label" in a}
    assert "The angular atoms." in svgs


def test_files_are_not_overwritten_and_nothing_is_left(tmp_path):
    record, pictures = study()
    path = tmp_path / "r.html"
    path.write_text("mine")
    with pytest.raises(InvalidInputError, match="exists"):
        study_report(path, record, pictures, record_path=tmp_path / "record.json")
    assert path.read_text() == "mine"
    assert [p.name for p in tmp_path.iterdir()] == ["r.html"]
    study_report(path, record, pictures, force=True)
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_a_real_size_is_below_ten_megabytes(tmp_path):
    # The worst case for compression: noise, at the size of a large scan.
    rng = np.random.default_rng(0)
    image = rng.integers(0, 1000, size=(256, 256, 12, 9), dtype=np.uint16)
    denoising_report(tmp_path / "r.html", before=image, after=image[::-1], noise=image[..., 0])
    assert 2e6 < (tmp_path / "r.html").stat().st_size < 10e6


def test_too_large_is_refused_and_nothing_written(tmp_path):
    noise = np.random.default_rng(0).bytes(8_000_000)
    record = Record("r", (Section("s", (Picture("p", "noise"),)),))
    with pytest.raises(InvalidInputError, match="more than 10"):
        study_report(tmp_path / "r.html", record, {"p": noise})
    assert list(tmp_path.iterdir()) == []


def test_dark_figures_keep_their_ground():
    figure = plot.atoms(np.eye(3))
    figure.set_facecolor("#0b0d12")
    record = Record("r", (Section("s", (Picture("p", "dark"),)),))
    (image,) = Page(render(record, {"p": figure})).every("img")
    assert image["src"].startswith("data:image/png;base64,")


def test_svg_text_from_elsewhere_cannot_run():
    record = Record("r", (Section("s", (Picture("p", "svg"),)),))
    page = render(record, {"p": '<svg xmlns="x"><script>alert(1)</script></svg>'})
    assert "alert(1)" not in page
    assert "data:image/svg+xml;base64," in page


def test_bad_pictures():
    record = Record("r", (Section("s", (Picture("p", "x"),)),))
    with pytest.raises(InvalidInputError, match="names a picture 'p' that was not given"):
        render(record)
    with pytest.raises(InvalidInputError, match="'q' has no place"):
        render(record, {"p": b"", "q": b""})
    with pytest.raises(InvalidTypeError, match="not int"):
        render(record, {"p": 3})
    twice = Record("r", (Section("s", (Picture("p", "x"), Picture("p", "x"))),))
    with pytest.raises(InvalidInputError, match="twice"):
        render(twice, {"p": b""})


@pytest.mark.parametrize(
    ("cell", "digits", "small", "large"),
    [
        (None, None, "–", "–"),
        (True, None, "yes", "yes"),
        (-12345, None, "−12345", "−12 345"),
        (1.5e9, None, "1.5e+09", "1.5 · 10⁹"),
        (-2.5e-7, None, "−2.5e−07", "−2.5 · 10⁻⁷"),
        (0.125, 2, "0.12", "0.12"),
        ("n", 2, "n", "n"),
        ("hello", None, "hello", "hello"),
    ],
)
def test_numbers_as_they_are_shown(cell, digits, small, large):
    assert show_cell(cell, digits) == small
    assert show_large(cell, digits).replace("\u202f", " ") == large
