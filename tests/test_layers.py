"""Imports point one way only: every module imports from its own layer or from those before it."""

import ast
import pkgutil
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
CORE_PACKAGES = {"numpy", "scipy", "sklearn", "numba", "threadpoolctl", "joblib"}
EXTRAS = {"nibabel", "dipy", "curvelets", "pywt", "matplotlib", "jinja2", "rich"}


def modules() -> list[Path]:
    return sorted(path for path in ROOT.rglob("*.py"))


def parts(path: Path) -> tuple[str, ...]:
    """("coding", "engine") for coding/engine.py; ("coding",) for its __init__.py."""
    names = path.relative_to(ROOT).with_suffix("").parts
    return names[:-1] if names[-1] == "__init__" else names


def imported(tree: ast.AST, package: tuple[str, ...]) -> set[str]:
    """Dotted names of all modules named by import statements, and by import_module of a constant, at any depth."""
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
    backwards = sorted(name for name in rooms_of(path) if RANK[name] > RANK[room])
    assert not backwards, f"{path.relative_to(ROOT)} imports {backwards}, which come after {room}"


def reached(room: str) -> set[str]:
    """Every room that a room leans on, directly or not."""
    seen, waiting = set(), [room]
    while waiting:
        name = waiting.pop()
        for path in modules():
            if (parts(path) or ("",))[0] == name:
                new = rooms_of(path) - seen - {name}
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
    "path", [path for path in modules() if (parts(path) or ("",))[0] in CORE], ids=lambda path: ".".join(parts(path))
)
def test_the_core_needs_numpy_scipy_sklearn_and_numba_only(path):
    """A front draws itself, and so names matplotlib, inside the function that draws."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    outside = {name.split(".")[0] for name in imports_of(path)} & EXTRAS
    if parts(path) == ("sweep",):
        inside = {name.split(".")[0] for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) for name in imported(f, ())}
        outside -= inside & {"matplotlib"}
    assert not outside


def test_a_step_backwards_would_be_seen():
    def names(source, package):
        return imported(ast.parse(source), package)

    assert names("def f():\n    from septum.cli import main", ()) == {"septum.cli"}
    assert names("from septum import certify", ()) == {"septum.certificate"}
    assert names("from ..estimator import X", ("coding",)) == {"septum.estimator"}
    assert names("from .engine import solve", ("coding",)) == {"septum.coding.engine"}
    assert names("import_module('septum.report')", ()) == {"septum.report"}
