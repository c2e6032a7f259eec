"""Arrays as 8-bit PNG bytes: grey, or one byte a pixel with a colour table; and PNG as a data URI."""

import base64
import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from septum.array import Float
from septum.errors import MissingExtraError

Bytes8 = NDArray[np.uint8]


def quantise(values: Float, low: Float | float, high: Float | float) -> Bytes8:
    """Values between low and high on 0..255, clipped; what is not a number is 0."""
    span = np.maximum(np.asarray(high, dtype=np.float64) - low, np.finfo(np.float64).tiny)
    scaled = np.clip((np.nan_to_num(values, nan=-np.inf, posinf=np.inf) - low) / span, 0.0, 1.0)
    return np.rint(255.0 * scaled).astype(np.uint8)


def encode(picture: Bytes8, colours: Bytes8 | None = None) -> bytes:
    """A (rows, columns) picture as PNG; `colours` (256, 3) makes it a palette picture."""
    image_of = _pillow()
    image = image_of.fromarray(np.ascontiguousarray(picture))
    if colours is not None:
        image = image.convert("L")
        image.putpalette(np.ascontiguousarray(colours, dtype=np.uint8).tobytes())
    stream = io.BytesIO()
    image.save(stream, format="PNG", optimize=True)
    return stream.getvalue()


def colour_table(colormap: Any) -> Bytes8:
    """The 256 colours of a matplotlib colour map."""
    return np.rint(255.0 * colormap(np.arange(256))[:, :3]).astype(np.uint8)


def data_uri(content: bytes, kind: str = "image/png") -> str:
    """Bytes as something an `img` can show without fetching anything."""
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise MissingExtraError("pillow") from error
    return Image
