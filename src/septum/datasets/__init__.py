"""Data sets made on the spot."""

from septum.datasets.separable import make_separable

__all__ = ["make_separable"]
