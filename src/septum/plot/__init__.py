"""Pictures for papers and reports: every function returns a matplotlib Figure, and shows nothing.

`atom` draws dictionaries, `sphere` what lives on directions, `trace` how the objective met its bound,
`front` attainment against atoms, `comparison` an image before and after, `field` orientation
distributions; `style` holds the one palette and `output` writes PNG and SVG. No pyplot, no global state.
matplotlib is imported when a picture is asked for.
"""

import importlib
import sys
from types import ModuleType
from typing import Any

_HOME = {
    "angular_atoms": "atom",
    "atoms": "atom",
    "before_after": "comparison",
    "convergence": "trace",
    "front": "front",
    "joint_atoms": "atom",
    "odf_field": "field",
    "png": "output",
    "save": "output",
    "svg": "output",
}

__all__ = list(_HOME)


class _Room(ModuleType):
    """Importing the module `plot.front` must not hide the function `plot.front`."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOME and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Room


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'septum.plot' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"septum.plot.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
