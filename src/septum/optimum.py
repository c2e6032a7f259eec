"""The closed form of section 4.2: the global optimum of the squared loss for matrices and vectors.

    f* = 1/2 ||X||^2 - 1/2 sum_t sum_i (sigma_{t,i} - alpha)_+^2

is known before any learning starts, and so is one global minimiser: the singular pairs above alpha,
r~ = sum_t rank(D_alpha(X_t)) atoms a side, each used by one sample. What learning adds is a dictionary
far smaller than that.
"""

from dataclasses import dataclass, field
from functools import cached_property
from math import prod

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from septum.array import Float, Samples, as_alpha, as_samples, chunks
from septum.errors import InvalidInputError
from septum.spectral import (
    SingularPairs,
    energy,
    pairs_above,
    shrink_singular_values,
    singular_values,
    unfold,
)


@dataclass(frozen=True)
class Optimum:
    """The global optimum; the large fields are made when they are first asked for.

    Attributes
    ----------
    value : float
        f*, the least objective over dictionaries of every size.
    rank : int
        r~, the number of singular pairs above alpha: the atoms of the explicit minimiser on each side.
    """

    value: float
    rank: int
    alpha: float
    samples: Samples = field(repr=False)

    @cached_property
    def pairs(self) -> SingularPairs:
        """The singular pairs above alpha."""
        return pairs_above(unfold(self.samples.data, (0,)), self.alpha)

    @cached_property
    def dictionaries(self) -> list[Float]:
        """Unit-norm atoms `(d_k, r~)` of the explicit minimiser, one pair for each nonzero code."""
        sides = [self.pairs.left, self.pairs.right]
        if len(self.samples.shape) == 1:
            sides = [self.pairs.left * self.pairs.right]
        return [side.astype(self.samples.dtype) for side in sides]

    @cached_property
    def codes(self) -> sparse.coo_array:
        """The codes `(n_samples, r~, ..., r~)`: sigma - alpha at (t, p, ..., p) for each pair p."""
        n_modes = len(self.samples.shape)
        p = np.arange(len(self.pairs))
        value = (self.pairs.value - self.alpha).astype(self.samples.dtype)
        shape = (self.samples.n_samples, *[len(self.pairs)] * n_modes)
        return sparse.coo_array((value, (self.pairs.sample, *[p] * n_modes)), shape=shape)

    @cached_property
    def reconstruction(self) -> Float:
        """The minimiser Z of the convex problem, `(n_samples, d_1, ..., d_n)`."""
        out = np.empty_like(self.samples.data)
        for part in chunks(self.samples.n_samples, 8 * prod(self.samples.shape)):
            shrunk, _ = shrink_singular_values(unfold(self.samples.data[part], (0,)), self.alpha)
            out[part] = shrunk.reshape(out[part].shape)
        return out


def global_optimum(X: ArrayLike, alpha: float) -> Optimum:
    """The global optimum of separable dictionary learning with the squared loss, for n <= 2 modes.

    Parameters
    ----------
    X : array (n_samples, d_1) or (n_samples, d_1, d_2)
    alpha : float > 0, the paper's lambda.

    Examples
    --------
    >>> import numpy as np
    >>> from septum import global_optimum
    >>> X = np.array([[[3.0, 0.0], [0.0, 1.0]]])
    >>> optimum = global_optimum(X, alpha=2.0)
    >>> optimum.value, optimum.rank
    (4.5, 1)
    """
    samples, alpha = as_samples(X), as_alpha(alpha)
    if len(samples.shape) > 2:
        raise InvalidInputError(
            f"the closed form needs samples with one or two modes, not {len(samples.shape)}: for tensors the "
            "optimum is NP-hard; septum.certify gives bounds"
        )
    value, rank = 0.0, 0
    for part in chunks(samples.n_samples, 8 * prod(samples.shape)):
        matrices = unfold(samples.data[part], (0,)).astype(np.float64, copy=False)
        size = energy(matrices)
        above = size > alpha**2  # elsewhere no singular value exceeds alpha and zero is optimal
        sigma = singular_values(matrices[above], resolve=False)
        excess = np.maximum(sigma - alpha, 0.0)
        value += 0.5 * float(size[~above].sum())
        value += float(np.sum(0.5 * np.minimum(sigma, alpha) ** 2 + alpha * excess))
        rank += int(np.count_nonzero(excess))
    return Optimum(value, rank, alpha, samples)
