"""A field of orientation distributions: one glyph a voxel, coloured by direction."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def odf_field(*arguments: Any, **options: Any) -> "Figure":
    """The picture of `septum.dmri.odf.odf_field_picture`, with its arguments."""
    from septum.dmri.odf import odf_field_picture

    return odf_field_picture(*arguments, **options)
