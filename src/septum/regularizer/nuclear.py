"""The nuclear norm of an unfolding: the relaxation behind every bound of the paper's regulariser.

Section 4.2: Omega(X) = sum_t ||X_t||_* for matrices. For tensors the nuclear norm of each unfolding
is a lower bound, exact only for n <= 2.
"""

from dataclasses import dataclass

from septum.array import Float
from septum.spectral import largest_singular_values, shrink_singular_values, singular_values, unfold
from septum.spectral.unfolding import fold


@dataclass(frozen=True)
class NuclearNorm:
    """Omega_S(Z_t) = ||unfold(Z_t, rows)||_*; its dual norm is the spectral norm of the unfolding."""

    rows: tuple[int, ...]
    is_exact: bool

    def value(self, Z: Float) -> Float:
        return singular_values(unfold(Z, self.rows)).sum(axis=1)

    def shrink(self, X: Float, threshold: float) -> Float:
        shrunk, _ = shrink_singular_values(unfold(X, self.rows), threshold)
        return fold(shrunk, self.rows, X.shape[1:])

    def dual_norm(self, R: Float) -> Float:
        return largest_singular_values(unfold(R, self.rows))
