"""Which atoms a stream no longer needs, and what to put in their place.

At fixed sizes a local minimum often spends two atoms on one direction while another is missing. A swap in
mode k is worth it when the new atom gains more than dropping the old one can cost:

* gain: an atom p for mode k, joined with any atoms of the other modes, meets sample t in the rows
  V_q = unfold_k(R_t) (other atoms) and lowers f by at least 1/2 sum_t max_q (|V_q p| - alpha)_+^2, the exact
  one-sided test of the growth step. The sample that gains most is left out of the sum, so that
  an atom for one sample alone never wins.
* cost: with all other codes fixed, dropping atom i costs at most the decrease that its exact step
  makes, less what remains when its codes are handed to the nearest other atom,

      1/(2 h_i) [ (||z_i|| - alpha w_i)_+^2 - max_l (|<z_i, a_l>| - alpha w_i)_+^2 ],

  z_i, h_i, w_i as in the atom step. For a near-duplicate it is near zero.
"""

from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from septum.array import Float, chunks
from septum.factors import Factors
from septum.kronecker import mode_product, sizes
from septum.problem import Problem
from septum.spectral import largest_singular_values, unfold

# A new atom must differ from those there: its absolute cosines stay below this.
NOVELTY = 0.999
STARTS = 8
STEPS = 5
# Rows must be longer than alpha by more than rounding.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Addition:
    """A unit atom for one mode and the decrease of f it gives at least, the best sample left out."""

    atom: Float
    gain: float


def removal_cost(atoms: Float, gram: Float, cross: Float, mass: Float, alpha: float) -> Float:
    """For every atom, an upper bound of what dropping it costs."""
    h = np.diag(gram)
    z = cross - atoms @ gram + atoms * h
    own = np.maximum(np.linalg.norm(z, axis=0) - alpha * mass, 0.0) ** 2
    aligned = np.abs(atoms.T @ z)
    np.fill_diagonal(aligned, 0.0)
    handed = np.maximum(aligned.max(axis=0) - alpha * mass, 0.0) ** 2
    return np.where(h > 0, (own - handed) / (2 * np.where(h > 0, h, 1.0)), 0.0)


def best_addition(problem: Problem, factors: Factors, mode: int) -> Addition | None:
    """The atom of one mode that the exact one-sided test likes best, if any passes."""
    rows, sample = _promising_rows(problem, factors, mode)
    if not len(rows):
        return None
    order = np.argsort(-np.linalg.norm(rows, axis=1), kind="stable")
    _, first = np.unique(sample[order], return_index=True)
    starts = rows[order[np.sort(first)[:STARTS]]]
    found = [_refined(rows, sample, start, problem.alpha) for start in starts]
    found = [one for one in found if np.abs(one.atom @ factors.dictionaries[mode]).max(initial=0.0) <= NOVELTY]
    return max(found, key=lambda one: one.gain, default=None)


def _promising_rows(problem: Problem, factors: Factors, mode: int) -> tuple[Float, NDArray[np.intp]]:
    """Rows V_q longer than alpha, and their samples."""
    length = problem.shape[mode]
    width = prod(sizes(factors.dictionaries)) // factors.sizes[mode]
    rows, sample = [np.zeros((0, length))], [np.zeros(0, dtype=np.intp)]
    for part in chunks(problem.n_samples, 8 * (width * length + 2 * prod(problem.shape))):
        V = residual(problem, factors, part)
        for k, A in enumerate(factors.dictionaries):
            if k != mode:
                V = mode_product(V, A.T, k)
        V = np.moveaxis(V, mode + 1, -1).reshape(V.shape[0], -1, length)
        t, q = np.nonzero(np.einsum("tqd,tqd->tq", V, V) > (problem.alpha * (1 + ROUNDING)) ** 2)
        rows.append(V[t, q])
        sample.append(t + part.start)
    return np.concatenate(rows), np.concatenate(sample)


def _refined(rows: Float, sample: NDArray[np.intp], atom: Float, alpha: float) -> Addition:
    """A few steps of p <- sum_q (|V_q p| - alpha)_+ sign(V_q p) V_q, which never lower the sum over all rows."""
    atom = atom / np.linalg.norm(atom)
    for _ in range(STEPS):
        along = rows @ atom
        atom = (np.sign(along) * np.maximum(np.abs(along) - alpha, 0.0)) @ rows
        atom /= np.linalg.norm(atom)
    best = np.zeros(int(sample.max()) + 1)
    np.maximum.at(best, sample, np.maximum(np.abs(rows @ atom) - alpha, 0.0))
    by_sample = 0.5 * best**2
    return Addition(atom, float(by_sample.sum() - by_sample.max()))


def residual(problem: Problem, factors: Factors, part: slice) -> Float:
    """rho'(M o (X - Z)) of a range of samples."""
    Z = factors.reconstruct(part, dtype=np.dtype(np.float64))
    return problem.loss.influence(problem.error(Z, part))


def unexplained(problem: Problem, factors: Factors, count: int) -> list[Float]:
    """Atoms of the samples whose residual has the largest polar above alpha: a (d_k, m) array for each mode."""
    found: list[list[Float]] = [[] for _ in problem.shape]
    level, kept = [], []
    for part in problem.parts():
        R = residual(problem, factors, part)
        bound = largest_singular_values(unfold(R, (0,)))
        best = np.argsort(-bound, kind="stable")[:count]
        best = best[bound[best] > problem.alpha]
        level.append(bound[best])
        kept.append(R[best])
    rest, order = np.concatenate(kept), np.argsort(-np.concatenate(level), kind="stable")[:count]
    for t in order:
        for mode, vector in enumerate(problem.regularizer.worst_atom(rest, int(t))):
            found[mode].append(vector)
    return [
        np.array(vectors).T if vectors else np.zeros((d, 0)) for vectors, d in zip(found, problem.shape, strict=True)
    ]


def novel(atoms: Float, candidates: Float) -> Float:
    """Candidates that are near no atom and no earlier candidate."""
    kept: list[Float] = []
    for one in candidates.T:
        if np.abs(one @ np.column_stack([atoms, *kept])).max(initial=0.0) <= NOVELTY:
            kept.append(one)
    return np.array(kept).T if kept else candidates[:, :0]
