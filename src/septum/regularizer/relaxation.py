"""Relaxations built from others: slice by slice, the sum of two, one vector, the data as one sample.

Each is a norm below the Omega of some regulariser (section 3.2), and its `shrink` leaves behind a point
whose dual norm is at most the threshold, which is all that a lower bound needs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from septum.array import Float
from septum.regularizer.atom_norm import sparse_dual_norm, sparse_norm, sparse_prox
from septum.regularizer.protocol import Relaxation


def slices(X: Float, mode: int) -> Float:
    """Every slice along a mode as a sample of its own: `(n_samples * d_mode, other modes)`."""
    moved = np.moveaxis(X, mode + 1, 1)
    others = moved.shape[2:] or (1,)
    return moved.reshape(-1, *others)


@dataclass(frozen=True)
class SliceNorm:
    """The sum over slices along a mode of a norm of each slice; the dual norm is the largest slice's."""

    mode: int
    inner: Relaxation

    @property
    def is_exact(self) -> bool:
        return self.inner.is_exact

    def value(self, Z: Float) -> Float:
        return self.inner.value(slices(Z, self.mode)).reshape(len(Z), -1).sum(axis=1)

    def shrink(self, X: Float, threshold: float) -> Float:
        shape = np.moveaxis(X, self.mode + 1, 1).shape
        shrunk = self.inner.shrink(slices(X, self.mode), threshold)
        return np.moveaxis(shrunk.reshape(shape), 1, self.mode + 1)

    def dual_norm(self, R: Float) -> Float:
        return self.inner.dual_norm(slices(R, self.mode)).reshape(len(R), -1).max(axis=1)


@dataclass(frozen=True)
class SumOfNorms:
    """Omega_A + beta Omega_B, which is at most the Omega of N = N_A + beta N_B.

    Its dual ball is the sum of A's and beta times B's, so X is split as Q_A + Q_B + rest by projecting
    on each in turn; every iterate is feasible, and the rest tends to the proximal map. The dual norm
    is bounded by the best split of R in proportion to itself: 1 / (1 / dual_A + beta / dual_B).
    """

    first: Relaxation
    second: Relaxation
    beta: float
    max_iter: int = 100
    tol: float = 1e-6
    is_exact = False

    def value(self, Z: Float) -> Float:
        return self.first.value(Z) + self.beta * self.second.value(Z)

    def shrink(self, X: Float, threshold: float) -> Float:
        rest = X.astype(np.float64)
        in_second = np.zeros_like(rest)
        size = np.linalg.norm(rest.reshape(len(rest), -1), axis=1)
        active = np.arange(len(rest))
        for _ in range(self.max_iter):
            x = X[active].astype(np.float64, copy=False)
            in_first = x - in_second[active]
            in_first -= self.first.shrink(in_first, threshold)
            free = x - in_first
            new = self.second.shrink(free, threshold * self.beta)
            change = np.linalg.norm((new - rest[active]).reshape(len(new), -1), axis=1)
            rest[active], in_second[active] = new, free - new
            active = active[change > self.tol * size[active]]
            if active.size == 0:
                break
        return rest

    def dual_norm(self, R: Float) -> Float:
        return harmonic(self.first.dual_norm(R), self.second.dual_norm(R), self.beta)


def harmonic(first: Float, second: Float, beta: float) -> Float:
    """1 / (1 / first + beta / second), zero where either is."""
    below = second + beta * first
    return np.where(below > 0, first * second / np.where(below > 0, below, 1.0), 0.0)


@dataclass(frozen=True)
class SparseVectorNorm:
    """||z||_2 + beta ||z||_1 of every sample, for samples of one mode."""

    beta: float
    is_exact = True

    def value(self, Z: Float) -> Float:
        return sparse_norm(Z.T, self.beta)

    def shrink(self, X: Float, threshold: float) -> Float:
        return sparse_prox(X.T.astype(np.float64), threshold, self.beta).T

    def dual_norm(self, R: Float) -> Float:
        return sparse_dual_norm(R.T, self.beta)


@dataclass(frozen=True)
class WholeData:
    """A norm of the whole data taken as one sample, in equal shares."""

    inner: Relaxation

    @property
    def is_exact(self) -> bool:
        return self.inner.is_exact

    def value(self, Z: Float) -> Float:
        return np.full(len(Z), self.inner.value(Z[None])[0] / len(Z))

    def shrink(self, X: Float, threshold: float) -> Float:
        return self.inner.shrink(X[None], threshold)[0]

    def dual_norm(self, R: Float) -> Float:
        return np.full(len(R), self.inner.dual_norm(R[None])[0])


def pairs(first: Sequence[Relaxation], second: Sequence[Relaxation], beta: float) -> list[SumOfNorms]:
    """Every sum of a norm of the first kind and one of the second."""
    return [SumOfNorms(a, b, beta) for a in first for b in second]
