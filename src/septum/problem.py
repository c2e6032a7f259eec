"""The problem: data, mask, loss, regulariser and alpha; its objective and its residual.

    f(A, C) = sum_t loss(M_t o (X_t - Z_t)) + alpha Theta(A, C),   Z_t = C_t x_1 A_1 ... x_n A_n

(equation 22 of the paper with a general loss and a mask). The problem knows no solver. It works on
ranges of samples, so that data larger than memory can pass through it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from septum.array import Float, Samples, as_alpha, as_samples, chunks
from septum.errors import InvalidInputError
from septum.factors import Factors
from septum.loss import Loss, Squared, as_loss
from septum.regularizer import Regularizer, as_regularizer


@dataclass(frozen=True)
class Problem:
    """Checked data and what is to be minimised over it."""

    samples: Samples
    alpha: float
    loss: Loss
    regularizer: Regularizer

    @classmethod
    def of(
        cls,
        X: ArrayLike,
        alpha: float,
        *,
        loss: str | Loss = "squared",
        mask: ArrayLike | None = None,
        regularizer: Regularizer | None = None,
    ) -> "Problem":
        """Check everything once; inside the library a Problem is trusted."""
        samples = as_samples(X, mask)
        penalty = as_regularizer(regularizer)
        penalty.check(len(samples.shape))
        return cls(samples, as_alpha(alpha), as_loss(loss), penalty)

    @property
    def n_samples(self) -> int:
        return self.samples.n_samples

    @property
    def shape(self) -> tuple[int, ...]:
        """(d_1, ..., d_n)."""
        return self.samples.shape

    @property
    def is_plain(self) -> bool:
        """Squared loss and nothing missing: the closed form applies."""
        return isinstance(self.loss, Squared) and self.samples.mask is None

    def parts(self) -> Iterator[slice]:
        """Ranges of samples that fit comfortably in memory; all at once if samples are coupled."""
        if self.regularizer.couples_samples:
            yield slice(0, self.n_samples)
            return
        yield from chunks(self.n_samples, 8 * int(np.prod(self.shape)))

    def data(self, part: slice) -> Float:
        """A range of samples in float64, zero where missing."""
        return self.samples.data[part].astype(np.float64)

    def masked(self, values: Float, part: slice) -> Float:
        """Zero where nothing was observed."""
        mask = self.samples.mask
        return values if mask is None else np.where(mask[part], values, 0.0)

    def error(self, reconstruction: Float, part: slice) -> Float:
        """M o (X - Z) in float64."""
        return self.masked(self.data(part) - reconstruction, part)

    def loss_by_sample(self, error: Float) -> Float:
        """The loss of every sample of a range, from its errors."""
        return self.loss.value(error).reshape(error.shape[0], -1).sum(axis=1)

    def zero_objective(self) -> Float:
        """f at zero codes, for every sample."""
        return np.concatenate([self.loss_by_sample(self.data(part)) for part in self.parts()])

    def objective(self, factors: Factors) -> Float:
        """f for every sample, in float64."""
        self.check(factors)
        terms = [
            self.loss_by_sample(self.error(factors.reconstruct(part, dtype=np.dtype(np.float64)), part))
            for part in self.parts()
        ]
        return np.concatenate(terms) + self.alpha * self.regularizer.value(factors.dictionaries, factors.codes)

    def check(self, factors: Factors) -> None:
        """Refuse factors whose shapes do not belong to this data."""
        lengths = tuple(A.shape[0] for A in factors.dictionaries)
        if lengths != self.shape:
            raise InvalidInputError(f"dictionaries have atoms of lengths {lengths}, but each sample has shape {self.shape}")
        if factors.n_samples != self.n_samples:
            raise InvalidInputError(f"codes hold {factors.n_samples} samples, but X holds {self.n_samples}")
