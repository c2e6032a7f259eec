"""The methods of section 7 and what the paper's tables 1 and 2 say of them.

A name is "spatial-angular". `learn` gives the two dictionaries of one, learned from patches; every learned
dictionary has at most the same number of atoms, so that methods differ by how they learn alone. The rows without
printed numbers: Curve-KSVD and KSVD-SR of table 2, and PCA-PCA, orthonormal axes without any sparsity.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from septum.array import Float
from septum.baselines import catalogue
from septum.baselines.method import SeparableMethod
from septum.baselines.tucker import principal_axes

KSVD_NONZEROS = (5, 10)


@dataclass(frozen=True)
class Row:
    """A method: its side of the paper's four questions, and where its two dictionaries come from."""

    name: str
    is_joint_domain: bool
    is_learned: bool
    learning: str  # "", "separate" or "joint"
    optimality: str  # "", "local" or "global"
    spatial: str
    angular: str


ROWS = (
    Row("I-SR", False, False, "", "", "I", "SR"),
    Row("I-SR + TV", False, False, "", "", "I", "SR"),
    Row("I-KSVD", False, True, "separate", "local", "I", "KSVD"),
    Row("Curve-SR", True, False, "", "", "Curve", "SR"),
    Row("Curve-KSVD", True, True, "separate", "local", "Curve", "KSVD"),
    Row("KSVD-SR", True, True, "separate", "local", "KSVD", "SR"),
    Row("KSVD-KSVD", True, True, "separate", "local", "KSVD", "KSVD"),
    Row("KDRSDL", True, True, "joint", "local", "KDRSDL", "KDRSDL"),
    Row("Proposed", True, True, "joint", "global", "Proposed", "Proposed"),
    Row("PCA-PCA", True, True, "separate", "", "PCA", "PCA"),
)
NAMES = tuple(row.name for row in ROWS)
BY_NAME = {row.name: row for row in ROWS}


@dataclass(frozen=True)
class Learning:
    """How dictionaries are learned: sizes (angular, spatial), sweeps of K-SVD, the learner's alpha and steps.

    `coding_alpha` tunes KDRSDL's weights on held-out training patches; None leaves them at its authors' defaults.
    """

    n_atoms: tuple[int, int]
    sweeps: int
    alpha: float
    steps: int
    coding_alpha: float | None
    seed: int


def learn(
    name: str, patches: Float, directions: ArrayLike, image_shape: tuple[int, int], how: Learning
) -> tuple[list[Any], dict[str, Any]]:
    """[angular, spatial] of one method, learned from training patches (T, G, V), and what it says of itself."""
    method = _method(name, patches, directions, image_shape, how).fit(patches)
    return method.dictionaries_, method.describe()


def _method(
    name: str, patches: Float, directions: ArrayLike, image_shape: tuple[int, int], how: Learning
) -> SeparableMethod:
    sides: list[dict[str, Any]] = [
        {"n_atoms": atoms, "n_nonzero": min(nonzero, atoms), "max_iter": how.sweeps, "random_state": how.seed}
        for atoms, nonzero in zip(how.n_atoms, KSVD_NONZEROS, strict=True)
    ]
    angular, spatial = sides
    makers: dict[str, Callable[[], SeparableMethod]] = {
        "I-SR": lambda: catalogue.i_sr(directions),
        "I-KSVD": lambda: catalogue.i_ksvd(**angular),
        "Curve-SR": lambda: catalogue.curve_sr(directions, image_shape),
        "Curve-KSVD": lambda: catalogue.curve_ksvd(image_shape, **angular),
        "KSVD-SR": lambda: catalogue.ksvd_sr(directions, **spatial),
        "KSVD-KSVD": lambda: catalogue.ksvd_ksvd(angular=angular, spatial=spatial),
        "KDRSDL": lambda: _kdrsdl(patches, how),
        "Proposed": lambda: _proposed(patches, how),
        "PCA-PCA": lambda: catalogue.pca(how.n_atoms),
    }
    return makers[name]()


def _kdrsdl(patches: Float, how: Learning) -> SeparableMethod:
    if how.coding_alpha is None:
        return catalogue.kdrsdl()
    default = 1.0 / float(np.sqrt(len(patches) * max(patches.shape[1:])))
    # On centred data the authors' weight of the error term is far too small.
    lams = [default * multiple for multiple in (100.0, 300.0, 1000.0)]
    return catalogue.kdrsdl_tuned(how.coding_alpha, alphas=(1e-2,), lams=lams, random_state=how.seed)


def _proposed(patches: Float, how: Learning) -> SeparableMethod:
    """Started from the principal axes at the sizes that all share, and descended from there."""
    axes = principal_axes(patches, how.n_atoms)
    return catalogue.proposed(
        how.alpha, n_atoms=how.n_atoms, init=axes, max_iter=how.steps, tol=1e-6, min_gain=0.0, random_state=how.seed
    )
