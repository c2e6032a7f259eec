"""`import septum` is quick because it loads nothing but itself; names load when first used."""

import subprocess
import sys

import pytest

import septum

HEAVY = (
    "numpy", "scipy", "sklearn", "numba", "joblib", "nibabel", "dipy", "curvelets", "pywt", "matplotlib", "jinja2",
    "rich", "pandas", "cvxpy",
)  # fmt: skip


def run(code: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_import_loads_no_other_package():
    loaded = run("import sys, septum; print(*sorted({name.split('.')[0] for name in sys.modules}))").split()
    assert "septum" in loaded
    assert not set(HEAVY) & set(loaded)


def test_import_takes_under_three_tenths_of_a_second():
    code = "from time import perf_counter as now; start = now(); import septum; print(now() - start)"
    assert sorted(float(run(code)) for _ in range(3))[1] < 0.3


def test_certify_loads_no_extra():
    code = "import sys, septum; septum.certify; print(*sorted({name.split('.')[0] for name in sys.modules}))"
    loaded = set(run(code).split())
    assert not loaded & {
        "nibabel",
        "dipy",
        "curvelets",
        "pywt",
        "matplotlib",
        "jinja2",
        "rich",
        "pandas",
        "numba",
    }


def test_every_public_name_of_the_core_loads():
    for name in septum._HOME:
        assert getattr(septum, name).__name__ == name
    assert set(septum._HOME) <= set(dir(septum))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = septum.nothing_like_it
