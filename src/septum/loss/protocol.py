"""What a loss must offer: a convex, even, smooth function of the error at each entry.

A loss is a sum over entries, loss(X, Z) = sum rho(M o (X - Z)), so it sees errors only. The mask M
of observed entries belongs to the `Problem`, which passes errors that are zero where nothing was
observed; rho(0) = 0, its derivative at 0 is 0, so such entries count for nothing.
"""

from typing import Protocol, runtime_checkable

from septum.array import Float


@runtime_checkable
class Loss(Protocol):
    """rho, its derivative, its conjugate, and the Fenchel-Young gap between a point and a dual point."""

    @property
    def name(self) -> str:
        """The word that selects the loss in the estimator."""
        ...

    @property
    def lipschitz(self) -> float:
        """A Lipschitz constant of the derivative rho'."""
        ...

    @property
    def dual_limit(self) -> float:
        """The conjugate is finite where |q| <= dual_limit (infinity: everywhere)."""
        ...

    def value(self, error: Float) -> Float:
        """rho(error), entry by entry."""
        ...

    def influence(self, error: Float) -> Float:
        """rho'(error): minus the gradient of the loss with respect to Z, the residual R_t."""
        ...

    def conjugate(self, q: Float) -> Float:
        """rho*(q) = sup_e q e - rho(e), entry by entry, for |q| <= dual_limit."""
        ...

    def fenchel_young(self, error: Float, q: Float) -> Float:
        """rho(error) + rho*(q) - q error >= 0, written without cancellation."""
        ...
