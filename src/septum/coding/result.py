"""What sparse coding returns: codes, and how good each sample's codes are."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse


@dataclass(frozen=True)
class CodingResult:
    """Codes of every sample with their evidence.

    codes : COO array (n_samples, r_1, ..., r_n), in the data's dtype; `.toarray()` makes it dense.
    gap : (n_samples,) float64. An upper bound of how far the objective at the codes is above its minimum, absolute.
        `sparse_code`: the duality gap. `omp`: half the squared residual, since no selection of atoms reaches below 0.
    n_iter : (n_samples,) passes made: sweeps, Newton-corrected or not, FISTA or majorisation steps; for `omp` atoms chosen.
    converged : (n_samples,) bool, True where the stopping rule was met.
    """

    codes: sparse.coo_array
    gap: NDArray[np.float64]
    n_iter: NDArray[np.int64]
    converged: NDArray[np.bool_]

    def __repr__(self) -> str:
        shape, share = self.codes.shape, self.codes.nnz / max(1, int(np.prod(self.codes.shape)))
        return (
            f"CodingResult(codes={shape} with {self.codes.nnz} nonzero ({share:.2%}), "
            f"largest gap={self.gap.max():.3g}, converged={int(self.converged.sum())} of {len(self.converged)})"
        )
