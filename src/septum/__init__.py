"""septum: separable dictionary learning with a certificate of global optimality.

Many signals are matrices or tensors. septum learns one dictionary for each of their modes, with
sparse codes that join them, X_t ~ C_t x_1 A_1 ... x_n A_n, and says how far the answer is from
the best that any dictionaries of any size could reach. The public names load when first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "SeparableDictionaryLearning": "estimator",
    "Certificate": "certificate",
    "certify": "certificate",
    "Optimum": "optimum",
    "global_optimum": "optimum",
    "CodingResult": "coding",
    "sparse_code": "coding",
    "omp": "coding",
    "Path": "sweep",
    "path": "sweep",
    "Front": "sweep",
    "front": "sweep",
    "save": "persistence",
    "load": "persistence",
    "SeptumError": "errors",
    "InvalidInputError": "errors",
}
_ROOMS = ("baselines", "datasets", "dictionaries", "dmri", "loss", "plot", "regularizer", "spectral")

__all__ = ["__version__", *_HOME, *_ROOMS]

if TYPE_CHECKING:
    from septum.certificate import Certificate as Certificate
    from septum.certificate import certify as certify
    from septum.coding import CodingResult as CodingResult
    from septum.coding import omp as omp
    from septum.coding import sparse_code as sparse_code
    from septum.errors import InvalidInputError as InvalidInputError
    from septum.errors import SeptumError as SeptumError
    from septum.estimator import SeparableDictionaryLearning as SeparableDictionaryLearning
    from septum.optimum import Optimum as Optimum
    from septum.optimum import global_optimum as global_optimum
    from septum.persistence import load as load
    from septum.persistence import save as save
    from septum.sweep import Front as Front
    from septum.sweep import Path as Path
    from septum.sweep import front as front
    from septum.sweep import path as path


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(f"septum.{_HOME[name]}"), name)
    elif name in _ROOMS:
        value = importlib.import_module(f"septum.{name}")
    else:
        raise AttributeError(f"module 'septum' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
