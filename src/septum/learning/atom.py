"""The exact step of one atom: the best direction and the best scale of its codes at once.

With everything else fixed, the objective is 1/2 h ||a||^2 - <z, a> + alpha w ||a|| in the unnormalised
atom a, where h = H_ii, z = G_i - sum_{l != i} H_il a_l and w is the l1 norm of its codes. Its minimiser
is a = (1 - alpha w / ||z||)_+ z / h; its norm then moves into the codes. Merely normalising z / h would
leave the codes' scale behind. With weights on the entries h becomes a vector and
a = z / (h + alpha w / ||a||), where ||a|| solves a monotone scalar equation.
"""

import numba
import numpy as np
from scipy.optimize import brentq

from septum.array import Float
from septum.learning.slab import Statistics


def update_atoms(A: Float, stats: Statistics, alpha: float, *, sweeps: int = 3) -> tuple[Float, Float]:
    """Cycle the exact step over all atoms; the new unit atoms and the factor of each atom's codes.

    An atom that nothing uses, or whose best step is zero, is left where it is: its codes decide.
    """
    atoms = np.array(A.T, dtype=np.float64, order="C")
    scale = np.ones(A.shape[1])
    G = np.array(stats.G.T, order="C")
    _cycle(atoms, G, stats.H.copy(), stats.weight.copy(), alpha, sweeps, scale)
    return np.ascontiguousarray(atoms.T), scale


@numba.njit(nogil=True, cache=True)
def _cycle(atoms, G, H, weight, alpha, sweeps, scale):
    r, d = atoms.shape
    z = np.empty(d)
    for _ in range(sweeps):
        for i in range(r):
            h = H[i, i]
            if h <= 0.0:
                continue
            for v in range(d):
                z[v] = G[i, v]
            for l in range(r):
                if l != i and H[i, l] != 0.0:
                    for v in range(d):
                        z[v] -= H[i, l] * atoms[l, v]
            norm = 0.0
            for v in range(d):
                norm += z[v] * z[v]
            norm = np.sqrt(norm)
            factor = (norm - alpha * weight[i]) / h
            if factor <= 0.0:
                continue
            for v in range(d):
                atoms[i, v] = z[v] / norm
                G[i, v] *= factor
            for l in range(r):
                H[i, l] *= factor
                H[l, i] *= factor
            weight[i] *= factor
            scale[i] *= factor


def weighted_atom(z: Float, h: Float, penalty: float) -> Float:
    """argmin_a 1/2 sum_v h_v a_v^2 - <z, a> + penalty ||a||, with h >= 0 (and z = 0 where h = 0)."""
    norm = float(np.linalg.norm(z))
    if norm <= penalty or not (h > 0).any():
        return np.zeros_like(z)
    live = h > 0
    z, out = z[live], np.zeros_like(z)
    h = h[live]

    def excess(size: float) -> float:
        return float(np.linalg.norm(z / (h * size + penalty))) - 1.0

    low, high = (norm - penalty) / h.max(), (norm - penalty) / h.min()
    if penalty == 0.0:
        out[live] = z / h
        return out
    size = low if high <= low else brentq(excess, 0.999 * low, 1.001 * high, xtol=1e-15 * high, rtol=1e-14)
    out[live] = z / (h + penalty / size)
    return out
