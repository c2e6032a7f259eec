"""Hypothesis strategies shared by the tests: samples with awkward shapes, ranks, ties and scales, and factors.

Arrays are drawn by a seed and a kind, not entry by entry: examples are cheap, and shrink to small shapes
and seed 0.
"""

from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st
from scipy import sparse

KINDS = ("gaussian", "zero", "rank one", "ties", "equal singular values", "graded", "one sample zero")


def make_samples(shape: tuple[int, ...], kind: str, seed: int, scale: float = 1.0) -> np.ndarray:
    """Samples (n_samples, d_1, ..., d_n) of one of the kinds above."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal(shape)
    if kind == "zero":
        X = np.zeros(shape)
    elif kind == "rank one":
        X = rng.standard_normal((shape[0],) + (1,) * (len(shape) - 1))
        for mode in range(1, len(shape)):
            sizes = [shape[0]] + [1] * (len(shape) - 1)
            sizes[mode] = shape[mode]
            X = X * rng.standard_normal(sizes)
    elif kind == "ties":
        X = rng.integers(-1, 2, size=shape).astype(float)
    elif kind == "equal singular values":
        X = np.zeros(shape)
        for t in range(shape[0]):
            for i in range(min(shape[1:])):
                X[(t, *[i] * (len(shape) - 1))] = 1.5
    elif kind == "graded":
        X = X * 10.0 ** -np.arange(shape[-1])
    elif kind == "one sample zero":
        X[rng.integers(shape[0])] = 0.0
    return scale * X


def shapes(min_modes: int = 1, max_modes: int = 3, max_side: int = 5, max_samples: int = 4):
    """(n_samples, d_1, ..., d_n), sides of one included."""
    return st.integers(min_modes, max_modes).flatmap(
        lambda n: st.tuples(st.integers(1, max_samples), *[st.integers(1, max_side)] * n)
    )


seeds = st.integers(0, 2**16)


@st.composite
def samples(draw, min_modes: int = 1, max_modes: int = 3, max_side: int = 5, scales=(1.0,)):
    """Samples of any kind."""
    shape = draw(shapes(min_modes, max_modes, max_side))
    return make_samples(shape, draw(st.sampled_from(KINDS)), draw(seeds), draw(st.sampled_from(scales)))


@dataclass(frozen=True)
class Case:
    """Samples, dictionaries and dense codes that fit together, and a weight alpha."""

    X: np.ndarray
    dictionaries: list[np.ndarray]
    codes: np.ndarray
    alpha: float
    seed: int = field(repr=False, default=0)

    @property
    def sparse_codes(self) -> sparse.coo_array:
        return sparse.coo_array(self.codes)

    @property
    def reconstruction(self) -> np.ndarray:
        """Z by plain summation over joint atoms."""
        return plain_reconstruction(self.dictionaries, self.codes)


def plain_reconstruction(dictionaries, codes) -> np.ndarray:
    """sum over joint atoms of c a_1 o ... o a_n, one by one."""
    Z = np.zeros((codes.shape[0], *[A.shape[0] for A in dictionaries]))
    for index in np.ndindex(*codes.shape[1:]):
        atom = np.ones(())
        for A, i in zip(dictionaries, index, strict=True):
            atom = np.multiply.outer(atom, A[:, i])
        Z += np.multiply.outer(codes[(slice(None), *index)], atom)
    return Z


def make_case(
    shape, kind: str, seed: int, *, alpha: float = 1.0, max_atoms: int = 4, scale: float = 1.0
) -> Case:
    """A case with random atoms of any norm, some of them zero, and sparse codes."""
    rng = np.random.default_rng(seed)
    X = make_samples(shape, kind, seed, scale)
    r = tuple(rng.integers(1, max_atoms + 1, size=len(shape) - 1))
    dictionaries = [rng.standard_normal((d, k)) for d, k in zip(shape[1:], r, strict=True)]
    if rng.uniform() < 0.3:
        dictionaries[0][:, 0] = 0.0
    codes = rng.standard_normal((shape[0], *r)) * (rng.uniform(size=(shape[0], *r)) < 0.4) * scale
    return Case(X, dictionaries, codes, alpha * scale, seed)


@st.composite
def cases(draw, min_modes: int = 1, max_modes: int = 3, max_side: int = 4, scales=(1.0,)):
    """Data, factors and alpha of any kind."""
    shape = draw(shapes(min_modes, max_modes, max_side))
    return make_case(
        shape,
        draw(st.sampled_from(KINDS)),
        draw(seeds),
        alpha=draw(st.sampled_from((0.1, 0.7, 1.5, 4.0))),
        scale=draw(st.sampled_from(scales)),
    )


def make_mask(shape, seed: int, share: float = 0.7) -> np.ndarray:
    """True where observed; every sample keeps at least one entry."""
    rng = np.random.default_rng(seed + 1)
    mask = rng.uniform(size=shape) < share
    flat = mask.reshape(shape[0], -1)
    flat[np.arange(shape[0]), rng.integers(flat.shape[1], size=shape[0])] = True
    return mask
