"""Rank-1 regularisers: what an atom and its codes cost, and what that makes of a whole array."""

from septum.errors import InvalidTypeError
from septum.regularizer.gauge import omega
from septum.regularizer.l1_atoms import L1Atoms
from septum.regularizer.protocol import PolarBounds, Regularizer, Relaxation
from septum.regularizer.separable import Separable
from septum.regularizer.sparse_atoms import SparseAtoms
from septum.regularizer.sparse_codes import SparseCodes

__all__ = [
    "L1Atoms",
    "PolarBounds",
    "Regularizer",
    "Relaxation",
    "Separable",
    "SparseAtoms",
    "SparseCodes",
    "as_regularizer",
    "omega",
]


def as_regularizer(regularizer: Regularizer | None) -> Regularizer:
    """The regulariser object, or the paper's for None."""
    if regularizer is None:
        return Separable()
    if not isinstance(regularizer, Regularizer) or isinstance(regularizer, type):
        raise InvalidTypeError(
            f"regularizer must be None (the paper's) or an object of septum.regularizer, not {regularizer!r}"
        )
    return regularizer
