"""Real even spherical harmonics, DIPY's, as an angular dictionary.

The even degrees 0, 2, ..., L hold every antipodally symmetric function of degree at most L; there are
(L + 1)(L + 2)/2 of them. Columns are scaled to unit norm on the sampled directions.
"""

import numpy as np
from numpy.typing import ArrayLike

from septum.array import Float
from septum.dictionaries.atom import as_count, as_directions, unit_columns
from septum.errors import InvalidInputError, MissingExtraError


def spherical_harmonics(directions: ArrayLike, *, order: int = 8, basis: str = "descoteaux") -> Float:
    """DIPY's real even harmonics up to `order` at `directions` (G, 3): a (G, (order+1)(order+2)/2) dictionary.

    `basis` is "descoteaux" or "tournier" (MRtrix): the same functions up to order and sign.
    """
    if as_count(order, "order", least=0) % 2:
        raise InvalidInputError(
            f"order must be even, not {order}: diffusion signals are antipodally symmetric"
        )
    if basis not in ("descoteaux", "tournier"):
        raise InvalidInputError(f'basis must be "descoteaux" or "tournier", not {basis!r}')
    sampled = as_directions(directions)
    try:
        from dipy.core.geometry import cart2sphere
        from dipy.reconst.shm import real_sh_descoteaux, real_sh_tournier
    except ImportError as error:
        raise MissingExtraError("dipy") from error
    evaluate = real_sh_descoteaux if basis == "descoteaux" else real_sh_tournier
    _, polar, longitude = cart2sphere(*sampled.T)
    matrix, _, _ = evaluate(order, polar, longitude, legacy=False)
    return unit_columns(np.asarray(matrix, dtype=np.float64))
