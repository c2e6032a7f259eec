"""Singular values of all samples at once: largest values, bounds, thresholding, pairs above a level."""

from septum.spectral.gramian import energy
from septum.spectral.largest import exceeds, largest_singular_values, max_singular_value
from septum.spectral.pairs import SingularPairs, pairs_above
from septum.spectral.threshold import shrink_singular_values, singular_values
from septum.spectral.unfolding import bipartitions, unfold

__all__ = [
    "SingularPairs",
    "bipartitions",
    "energy",
    "exceeds",
    "largest_singular_values",
    "max_singular_value",
    "pairs_above",
    "shrink_singular_values",
    "singular_values",
    "unfold",
]
