"""Choosing unit vectors that raise a sum of thresholded correlations the most.

Seeding and growth ask the same question. Given rows q (residuals seen through the atoms of the other
modes) each of which already gains base_q, a new atom p with its best code would bring

    gain(p) = sum_q [ 1/2 (|<q, p>| - alpha)_+^2 / h_q(p) - base_q ]_+ ,

h_q(p) = 1 when all is observed, else the share of p that the mask lets row q see. The sum is convex in p
where its terms are active, so p <- its gradient, normalised, never lowers it. Picking atoms one after
another, each raising base_q to what it brings, is the greedy rule for coverage: as in k-means, but for
lines, and in units of the objective itself.
"""

from dataclasses import dataclass

import numpy as np

from septum.array import Float


@dataclass
class Cover:
    """Rows `q` (n_rows, d), what each gains already, and squared mask weights or None."""

    rows: Float
    base: Float
    alpha: float
    weights: Float | None = None

    def __len__(self) -> int:
        return len(self.base)

    def trimmed(self, most: int) -> "Cover":
        """Only the rows with the largest possible gain, at most `most` of them."""
        potential = self.potential()
        kept = np.flatnonzero(potential > 0)
        if kept.size > most:
            kept = np.sort(kept[np.argsort(-potential[kept], kind="stable")[:most]])
        weights = None if self.weights is None else self.weights[kept]
        return Cover(self.rows[kept], self.base[kept], self.alpha, weights)

    def potential(self) -> Float:
        """What each row would gain from the atom that fits it alone."""
        norm = np.linalg.norm(self.rows, axis=1)
        best = 0.5 * np.maximum(norm - self.alpha, 0.0) ** 2
        if self.weights is not None:
            unit = self.rows / np.where(norm > 0, norm, 1.0)[:, None]
            best /= np.maximum(np.einsum("qd,qd->q", self.weights, unit**2), 1e-12)
        return best - self.base

    def brings(self, atoms: Float) -> tuple[Float, Float]:
        """What every row would gain in all from each atom alone, and the codes: (n_rows, n_atoms)."""
        inner = self.rows @ atoms
        excess = np.maximum(np.abs(inner) - self.alpha, 0.0)
        if self.weights is None:
            return 0.5 * excess**2, np.copysign(excess, inner)
        seen = np.maximum(self.weights @ atoms**2, 1e-12)
        return 0.5 * excess**2 / seen, np.copysign(excess, inner) / seen

    def gains(self, atoms: Float) -> Float:
        """The total gain of each atom by itself."""
        value, _ = self.brings(atoms)
        return np.maximum(value - self.base[:, None], 0.0).sum(axis=0)

    def ascend(self, atoms: Float, steps: int) -> Float:
        """Each atom moved up its own gain."""
        for _ in range(steps):
            value, codes = self.brings(atoms)
            codes[value <= self.base[:, None]] = 0.0
            moved = self.rows.T @ codes
            norm = np.linalg.norm(moved, axis=0)
            atoms = np.where(norm > 0, moved / np.where(norm > 0, norm, 1.0), atoms)
        return atoms

    def starts(self, count: int) -> Float:
        """Rows of large potential, normalised, as candidates."""
        order = np.argsort(-self.potential(), kind="stable")[:count]
        rows = self.rows[order]
        return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).T

    def best_atom(self, *, candidates: int = 24, steps: int = 4) -> tuple[Float, float]:
        """The best atom found from several starts, and its gain."""
        if len(self) == 0:
            return np.zeros(self.rows.shape[1]), 0.0
        atoms = self.ascend(self.starts(candidates), steps)
        gains = self.gains(atoms)
        winner = int(np.argmax(gains))
        return atoms[:, winner], float(gains[winner])

    def add(self, atom: Float) -> None:
        """Raise what each row gains to what this atom brings, where that is more."""
        value, _ = self.brings(atom[:, None])
        np.maximum(self.base, value[:, 0], out=self.base)


def greedy_cover(
    cover: Cover, most: int, *, least_gain: float, enough: float, candidates: int = 1500, rounds: int = 8
) -> Float:
    """Up to `most` atoms for a set of rows: greedy picks among the rows, then joint refinement.

    Picks end when one gains less than `least_gain`, or the rows gain `enough` in all.
    """
    pool = cover.starts(min(candidates, len(cover)))
    value, _ = cover.brings(pool)
    best = cover.base.copy()
    picked: list[int] = []
    while len(picked) < min(most, pool.shape[1]):
        extra = np.maximum(value - best[:, None], 0.0).sum(axis=0)
        winner = int(np.argmax(extra))
        if picked and (extra[winner] <= least_gain or best.sum() >= enough):
            break
        picked.append(winner)
        best = np.maximum(best, value[:, winner])
    return refine(cover, pool[:, picked], rounds)


def refine(cover: Cover, atoms: Float, rounds: int) -> Float:
    """Give each row to the atom that serves it best, move the atoms up, and repeat."""
    for _ in range(rounds):
        value, codes = cover.brings(atoms)
        owner = np.argmax(value, axis=1)
        rows = np.arange(len(cover))
        only = np.zeros_like(codes)
        only[rows, owner] = codes[rows, owner]
        moved = cover.rows.T @ only
        norm = np.linalg.norm(moved, axis=0)
        atoms = np.where(norm > 0, moved / np.where(norm > 0, norm, 1.0), atoms)
    return atoms
