"""Factors: one dictionary for each mode, and the codes that join them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from septum.array import Float
from septum.kronecker import Codes, atom_norms, code_indices, multiply_sparse, sizes


@dataclass(frozen=True)
class Factors:
    """Dictionaries A_k `(d_k, r_k)` and codes, a CSR array `(n_samples, r_1 * ... * r_n)`."""

    dictionaries: Sequence[Float]
    codes: Codes

    @property
    def sizes(self) -> tuple[int, ...]:
        """(r_1, ..., r_n)."""
        return sizes(self.dictionaries)

    @property
    def n_samples(self) -> int:
        return self.codes.shape[0]

    def reconstruct(self, part: slice = slice(None), *, dtype: np.dtype | None = None) -> Float:
        """Z_t for a range of samples."""
        return multiply_sparse(self.codes[part], self.dictionaries, dtype=dtype)

    def normalized(self) -> "Factors":
        """The same reconstruction and the same product of norms, every atom of unit norm.

        Atoms of norm zero, and codes on them, contribute nothing and are dropped.
        """
        norms = atom_norms(self.dictionaries)
        kept = self.restricted([np.flatnonzero(norm > 0) for norm in norms])
        norms = [norm[norm > 0] for norm in norms]
        _, index = code_indices(kept.codes, kept.sizes)
        scale = np.ones(kept.codes.nnz)
        for norm, i in zip(norms, index, strict=True):
            scale *= norm[i]
        codes = kept.codes.copy()
        codes.data = (codes.data * scale).astype(codes.dtype)
        unit = [(A / norm).astype(A.dtype) for A, norm in zip(kept.dictionaries, norms, strict=True)]
        return Factors(unit, codes)

    def restricted(self, kept: Sequence[NDArray[np.intp]]) -> "Factors":
        """Only the named atoms of each mode, in the order named; codes on other atoms are dropped."""
        position = []
        for A, chosen in zip(self.dictionaries, kept, strict=True):
            where = np.full(A.shape[1], -1, dtype=np.int64)
            where[chosen] = np.arange(len(chosen))
            position.append(where)
        sample, index = code_indices(self.codes, self.sizes)
        moved = [where[i] for where, i in zip(position, index, strict=True)]
        inside = np.logical_and.reduce([m >= 0 for m in moved])
        r = tuple(len(chosen) for chosen in kept)
        flat = np.zeros(int(inside.sum()), dtype=np.int64)
        for size, m in zip(r, moved, strict=True):
            flat = flat * size + m[inside]
        width = int(np.prod(r, dtype=np.int64))
        codes = sparse.csr_array(
            (self.codes.data[inside], (sample[inside], flat)), shape=(self.n_samples, width)
        )
        return Factors([np.ascontiguousarray(A[:, c]) for A, c in zip(self.dictionaries, kept, strict=True)], codes)

    def usage(self) -> list[NDArray[np.intp]]:
        """How many codes each atom of each mode takes part in."""
        _, index = code_indices(self.codes, self.sizes)
        return [np.bincount(i, minlength=size) for i, size in zip(index, self.sizes, strict=True)]

    def ordered(self) -> "Factors":
        """Atoms sorted by use, most used first; ties go by the sum of their codes' magnitudes."""
        _, index = code_indices(self.codes, self.sizes)
        weight = np.abs(self.codes.data.astype(np.float64))
        order = []
        for i, size, count in zip(index, self.sizes, self.usage(), strict=True):
            mass = np.bincount(i, weights=weight, minlength=size)
            order.append(np.lexsort((np.arange(size), -mass, -count)))
        return self.restricted(order)

    def pruned(self) -> "Factors":
        """Without the atoms that no code uses."""
        return self.restricted([np.flatnonzero(count) for count in self.usage()])
