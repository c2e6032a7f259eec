"""Imports point one way only: every module imports from its own layer or from those before it."""

import ast
import pkgutil
import sys
from pathlib import Path

import pytest

import septum

ROOT = Path(septum.__file__).parent

LAYERS = (
    ("errors",),
    ("array",),
    ("kronecker",),
    ("spectral",),
    ("loss",),
    ("regularizer",),
    ("factors",),
    ("problem",),
    ("bound", "optimum"),
    ("certificate",),
    ("attribution",),
    ("coding",),
    ("learning",),
    ("estimator",),
    ("sweep", "persistence"),
    ("datasets",),
    ("dictionaries",),
    ("baselines",),
    ("dmri",),
    ("plot",),
    ("report",),
    ("experiment",),
    ("cli",),
)
RANK = {room: rank for rank, rooms in enumerate(LAYERS) for room in rooms}
CORE = {room for rooms in LAYERS[: RANK["datasets"]] for room in rooms}
CORE_PACKAGES = {"numpy", "scipy", "sklearn", "numba", "threadpoolctl", "septum"} | set(
    sys.stdlib_module_names
)
# A method that hands its object to the picture room, for convenience.
ALLOWED = {("sweep", "plot")}


def modules() -> list[Path]:
    return sorted(path for path in ROOT.rglob("*.py"))


def parts(path: Path) -> tuple[str, ...]:
    """("coding", "engine") for coding/engine.py; ("coding",) for its __init__.py."""
    names = path.relative_to(ROOT).with_suffix("").parts
    return names[:-1] if names[-1] == "__init__" else names


def imported(tree: ast.AST, package: tuple[str, ...]) -> set[str]:
    """Dotted names of all modules that a module reaches for, at any depth.

    By import statements, by import_module of a constant, or as attributes of the lazily loaded package.
    """
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                here = ("septum", *package)[: 1 + len(package) - (node.level - 1)]
                base = ".".join([*here, base] if base else here)
            if base == "septum":
                found |= {f"septum.{septum._HOME.get(alias.name, alias.name)}" for alias in node.names}
            else:
                found.add(base)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if called in ("import_module", "__import__") and isinstance(node.args[0].value, str):
                found.add(node.args[0].value)
        elif isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "septum":
            found.add(f"septum.{septum._HOME.get(node.attr, node.attr)}")
    return found


def imports_of(path: Path) -> set[str]:
    names = parts(path)
    package = names if path.name == "__init__.py" else names[:-1]
    return imported(ast.parse(path.read_text(encoding="utf-8")), package)


def rooms_of(path: Path) -> set[str]:
    """The rooms of septum that a module imports from, the package's own name (its version) aside."""
    names = {name.split(".")[1] for name in imports_of(path) if name.startswith("septum.")}
    return names - {"__version__"}


def test_every_room_has_a_layer():
    found = {info.name for info in pkgutil.iter_modules([str(ROOT)])} - {"__main__"}
    assert found <= set(RANK), f"give a layer to {sorted(found - set(RANK))}"


@pytest.mark.parametrize("path", modules(), ids=lambda path: ".".join(parts(path)) or "septum")
def test_no_import_points_backwards(path):
    room = (parts(path) or ("septum",))[0]
    if room in ("septum", "__main__"):
        return
    ahead = {name for name in rooms_of(path) if RANK[name] > RANK[room]}
    backwards = sorted(name for name in ahead if (room, name) not in ALLOWED)
    assert not backwards, f"{path.relative_to(ROOT)} imports {backwards}, which come after {room}"


def reached(room: str) -> set[str]:
    """Every room that a room leans on, directly or not."""
    seen, waiting = set(), [room]
    while waiting:
        name = waiting.pop()
        for path in modules():
            if (parts(path) or ("",))[0] == name:
                new = {other for other in rooms_of(path) if (name, other) not in ALLOWED} - seen - {name}
                seen |= new
                waiting += new
    return seen


def test_the_certificate_knows_no_solver():
    assert "problem" in reached("certificate")
    assert not reached("certificate") & {"coding", "learning", "estimator", "sweep", "baselines"}


def test_the_core_knows_no_diffusion_imaging():
    for room in CORE:
        assert not reached(room) & {"dmri", "dictionaries", "plot", "report", "experiment", "cli"}, room


@pytest.mark.parametrize(
    "path",
    [path for path in modules() if (parts(path) or ("",))[0] in CORE],
    ids=lambda path: ".".join(parts(path)),
)
def test_the_core_needs_numpy_scipy_sklearn_and_numba_only(path):
    assert {name.split(".")[0] for name in imports_of(path)} <= CORE_PACKAGES


def test_a_step_backwards_would_be_seen():
    def names(source, package):
        return imported(ast.parse(source), package)

    assert names("def f():\n    from septum.cli import main", ()) == {"septum.cli"}
    assert names("from septum import certify", ()) == {"septum.certificate"}
    assert names("from ..estimator import X", ("coding",)) == {"septum.estimator"}
    assert names("from .engine import solve", ("coding",)) == {"septum.coding.engine"}
    assert names("import_module('septum.report')", ()) == {"septum.report"}
    assert names("import septum\nseptum.plot.front", ()) == {"septum", "septum.plot"}
