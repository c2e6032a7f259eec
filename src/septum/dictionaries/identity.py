"""The identity: every entry is an atom of its own (the I of I-SR in the paper's section 7)."""

from math import prod

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from septum.dictionaries.atom import as_extent


def identity(shape: int | tuple[int, ...], *, operator: bool = False) -> NDArray[np.float64] | LinearOperator:
    """The (d, d) identity for signals of `shape`, as a matrix or, for large images, as an operator."""
    size = prod(as_extent(shape))
    return aslinearoperator(sparse.eye_array(size, format="csr")) if operator else np.eye(size)
