"""The synthetic set of section 6: sparse combinations of three angular and six spatial atoms.

Each sample is sum_pq s_pq a_ip b_jq^T + noise with m in {1, 2} angular and n in {1, 2, 3} spatial indices,
uniform with replacement, and weights uniform on [0, 1] divided by their sum. The paper prints its
atoms as pictures only; these are rebuilt so that r~, the size of the explicit optimum, matches its
printed values (1002, 702, 460, 369 at alpha 0.75, 0.85, 0.9, 0.95). The paper gives the noise
as 0.003; only as a standard deviation does that agree with its counts.
"""

import numpy as np
from scipy import sparse
from sklearn.utils import Bunch, check_random_state

from septum.array import Float
from septum.errors import InvalidInputError

ANGULAR_CENTRES = (0.15, 0.5, 0.85)
ANGULAR_WIDTH = 0.3
N_ANGULAR = 10
SIDE = 10


def angular_atoms() -> Float:
    """Three unit-norm bumps exp(-((g - c) / 0.3)^2) on ten points of [0, 1]: (10, 3)."""
    g = np.linspace(0.0, 1.0, N_ANGULAR)[:, None]
    atoms = np.exp(-(((g - np.array(ANGULAR_CENTRES)) / ANGULAR_WIDTH) ** 2))
    return atoms / np.linalg.norm(atoms, axis=0)


def spatial_atoms() -> Float:
    """Square, column stripes, disk, diagonal, corner and row stripes on a 10 x 10 grid: (100, 6)."""
    y, x = np.mgrid[0:SIDE, 0:SIDE]
    shapes = [
        (x >= 2) & (x <= 7) & (y >= 2) & (y <= 7),
        x % 2 == 0,
        (x - 4.5) ** 2 + (y - 4.5) ** 2 <= 16,
        x == y,
        (x <= 4) & (y <= 4),
        y % 2 == 0,
    ]
    atoms = np.stack([shape.ravel() + 0.03 for shape in shapes], axis=1)
    return atoms / np.linalg.norm(atoms, axis=0)


def make_separable(n_samples: int = 1200, *, noise: float = 0.003, random_state: object = None) -> Bunch:
    """Samples of section 6 with the atoms and codes they were made from.

    Returns
    -------
    Bunch with `X` (n_samples, 10, 100), `dictionaries` [(10, 3), (100, 6)], and `codes`, a COO array
    (n_samples, 3, 6) such that X = codes x_1 A_1 x_2 A_2 + noise.
    """
    if isinstance(n_samples, bool) or int(n_samples) != n_samples or n_samples < 1:
        raise InvalidInputError(f"n_samples must be a positive integer, not {n_samples!r}")
    if not np.isfinite(noise) or noise < 0:
        raise InvalidInputError(f"noise must be a non-negative standard deviation, not {noise!r}")
    rng = _generator(random_state)
    angular, spatial = angular_atoms(), spatial_atoms()
    codes = np.zeros((n_samples, angular.shape[1], spatial.shape[1]))
    for t in range(n_samples):
        rows = rng.integers(0, angular.shape[1], size=rng.integers(1, 3))
        columns = rng.integers(0, spatial.shape[1], size=rng.integers(1, 4))
        weights = rng.uniform(size=(rows.size, columns.size))
        np.add.at(codes[t], (rows[:, None], columns[None, :]), weights / weights.sum())
    X = angular @ codes @ spatial.T + noise * rng.standard_normal((n_samples, N_ANGULAR, SIDE * SIDE))
    return Bunch(X=X, dictionaries=[angular, spatial], codes=sparse.coo_array(codes))


def _generator(random_state: object) -> np.random.Generator:
    """A NumPy Generator from None, an integer, a Generator, or scikit-learn's RandomState."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**31 - 1))
    if random_state is None or isinstance(random_state, (int, np.integer, np.random.Generator)):
        return np.random.default_rng(random_state)
    return np.random.default_rng(check_random_state(random_state).randint(0, 2**31 - 1))
