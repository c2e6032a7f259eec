"""Diffusion MRI: images in, better images out.

`image` and `gradient` read what scanners write; `output` and `sidecar` write files that appear whole or
not at all, each with its provenance; `phantom` and `multitensor` simulate volumes whose truth is known;
`sample` is a small real one; `odf` and `glyph` show where the fibres go. The names below load when
first used, so that importing this package needs none of the extras.
"""

import importlib
import sys
from types import ModuleType
from typing import Any

_HOME = {
    "DwiImage": "image",
    "Gradients": "gradient",
    "denoise": "denoise",
    "load": "image",
    "load_mask": "image",
    "sample": "sample",
    "save": "image",
}
_ROOMS = (
    "denoise",
    "glyph",
    "gradient",
    "harmonic",
    "image",
    "mask",
    "multitensor",
    "noise",
    "odf",
    "output",
    "patch",
    "phantom",
    "sample",
    "sidecar",
    "sphere",
)

__all__ = ["DwiImage", "Gradients", "denoise", "load", "load_mask", "sample", "save"]


class _Package(ModuleType):
    """Where a function and its module share a name (denoise, sample), the name is the function's."""

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and _HOME.get(name) == name:
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(f"septum.dmri.{_HOME[name]}"), name)
    elif name in _ROOMS:
        value = importlib.import_module(f"septum.dmri.{name}")
    else:
        raise AttributeError(f"module 'septum.dmri' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*_HOME, *_ROOMS})
