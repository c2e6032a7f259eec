"""Losses: how far a reconstruction is from the data, entry by entry."""

from septum.errors import InvalidInputError, InvalidTypeError
from septum.loss.huber import Huber
from septum.loss.protocol import Loss
from septum.loss.squared import Squared

__all__ = ["Huber", "Loss", "Squared", "as_loss"]

_BY_NAME = {"squared": Squared, "huber": Huber}


def as_loss(loss: str | Loss) -> Loss:
    """A loss from its name or the object itself."""
    if isinstance(loss, str):
        if loss not in _BY_NAME:
            raise InvalidInputError(f"loss must be one of {sorted(_BY_NAME)} or a loss object, not {loss!r}")
        return _BY_NAME[loss]()
    if not isinstance(loss, Loss) or isinstance(loss, type):
        raise InvalidTypeError(f"loss must be one of {sorted(_BY_NAME)} or a loss object, not {loss!r}")
    return loss
