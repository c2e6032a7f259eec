"""Discrete cosines, separable over the axes of an image, with as many atoms as asked.

On one axis of d points with r atoms, atom k samples cos(pi k (i + 1/2)/r). For r = d that is the
orthonormal DCT-II. For r > d the frequencies are finer than the axis resolves; all atoms but the
constant one then lose their mean, as in the overcomplete cosine dictionary of Aharon, Elad and
Bruckstein (IEEE Transactions on Signal Processing 54(11), 2006), so that flat regions cost one atom.
An atom of an image is the product of one atom for each axis.
"""

from functools import reduce

import numpy as np

from septum.array import Float
from septum.dictionaries.atom import as_count, as_extent, unit_columns
from septum.errors import InvalidInputError


def dct(shape: int | tuple[int, ...], n_atoms: int | tuple[int, ...] | None = None) -> Float:
    """Cosine atoms for signals of `shape`: a (product of shape, product of n_atoms) dictionary.

    `n_atoms` counts the atoms on each axis, at least the axis' length; one number serves all axes.
    The default, as many as points, is an orthonormal basis.
    """
    lengths = as_extent(shape)
    if n_atoms is None:
        counts = lengths
    else:
        counts = as_extent(n_atoms, "n_atoms")
        counts = counts * len(lengths) if len(counts) == 1 else counts
    if len(counts) != len(lengths):
        raise InvalidInputError(f"n_atoms has {len(counts)} entries, but shape has {len(lengths)} axes")
    for axis, (length, count) in enumerate(zip(lengths, counts, strict=True)):
        as_count(count, f"n_atoms[{axis}]", least=length)
    axes = [_cosines(length, count) for length, count in zip(lengths, counts, strict=True)]
    return reduce(lambda left, right: np.kron(left, right), axes)


def _cosines(length: int, count: int) -> Float:
    grid = np.outer(np.arange(length) + 0.5, np.arange(count))
    atoms = np.cos(np.pi / count * grid)
    atoms[:, 1:] -= atoms[:, 1:].mean(axis=0)
    return unit_columns(atoms)
