"""A mask made from the data: where there is an object rather than noise.

The mean of the weighted volumes (in which a head's fat and skin are dark) is smoothed a little and cut
where Otsu's method says; the largest connected part is kept, without its holes. Where the two sides of the cut
are nearly as bright, as in a crop from inside a head, all is object. Denoising never needs a
mask; pictures and scores may.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from septum.dmri.image import DwiImage

_BINS = 256
_ALIKE = 0.6


def foreground(image: DwiImage, *, smooth: float = 1.0) -> NDArray[np.bool_]:
    """A boolean array (X, Y, Z), True inside the object; `smooth` is in voxels."""
    total = np.zeros(image.shape[:3])
    for volume in image.gradients.weighted:
        total += image.volume(int(volume))
    level = ndimage.gaussian_filter(total / len(image.gradients.weighted), smooth)
    inside = level > otsu(level)
    if not inside.any() or level[~inside].mean() > _ALIKE * level[inside].mean():
        return np.ones(image.shape[:3], dtype=bool)
    opened = ndimage.binary_opening(inside)
    parts, count = ndimage.label(opened if opened.any() else inside)
    largest = parts == 1 + int(np.argmax(np.bincount(parts.ravel(), minlength=count + 1)[1:]))
    filled = ndimage.binary_fill_holes(ndimage.binary_dilation(largest) & inside)
    for z in range(filled.shape[2]):
        filled[:, :, z] = ndimage.binary_fill_holes(filled[:, :, z])
    return filled


def otsu(values: NDArray[np.floating]) -> float:
    """The threshold that parts the values into two classes with the largest variance between them."""
    counts, edges = np.histogram(values, bins=_BINS)
    middles = (edges[:-1] + edges[1:]) / 2
    below = np.cumsum(counts)[:-1]
    sums = np.cumsum(counts * middles)
    above = counts.sum() - below
    both = (below > 0) & (above > 0)
    gap = np.zeros(len(below))
    gap[both] = sums[:-1][both] / below[both] - (sums[-1] - sums[:-1][both]) / above[both]
    return float(edges[1:-1][np.argmax(below * above * gap**2)])
