"""Fixed dictionaries: one function each, all with atoms of unit norm in the columns.

Angular: `spherical_ridgelets`, `spherical_harmonics`, sampled at any set of directions. Spatial:
`dct`, `wavelet`, `curvelet`, on patches or on whole images of one or more dimensions, flattened row
by row. Either: `identity`. Every function returns a `(d, r)` array; `curvelet` and `identity` can
return a SciPy `LinearOperator` of that shape instead, for images too large for a matrix, which
`septum.sparse_code` takes as its last dictionary.
"""

from septum.dictionaries.curvelet import CurveletOperator, curvelet
from septum.dictionaries.dct import dct
from septum.dictionaries.harmonic import spherical_harmonics
from septum.dictionaries.identity import identity
from septum.dictionaries.ridgelet import ridgelet_frame_bounds, spherical_ridgelets
from septum.dictionaries.wavelet import wavelet

__all__ = [
    "CurveletOperator",
    "curvelet",
    "dct",
    "identity",
    "ridgelet_frame_bounds",
    "spherical_harmonics",
    "spherical_ridgelets",
    "wavelet",
]
