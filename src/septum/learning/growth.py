"""Growth: which atoms would lower the objective most, on one side or on all (algorithm 3, corrected).

A new atom of mode k is used together with existing atoms of the other modes. For each sample t and each
joint atom of the other modes there is a row

    q = (R_t + what the codes on that joint atom contribute) correlated with it,

and the codes it carries gain base = <q, P> - 1/2 |P|^2 - alpha ||c||_1 now, P being their combination of
mode-k atoms. A new atom p may add to them (where they are zero: the exact one-sided test ||q|| > alpha) or
replace them. `Cover` finds p by the total decrease over all rows. Atoms new in every mode at once come
from the worst singular pairs of the residual and are ranked by the same total. The growth with the
largest decrease for each atom added wins.
"""

from dataclasses import dataclass

import numpy as np

from septum.array import Float, chunks
from septum.kronecker import code_indices, joint_columns, mode_product, sizes
from septum.learning.cover import Cover
from septum.learning.working import Working
from septum.regularizer.separable import Separable

MOST_ROWS = 20_000
MOST_SAMPLES = 2_000
JOINT_CANDIDATES = 24


@dataclass(frozen=True)
class Proposal:
    """New atoms `(d_k, m_k)` for each mode and the decrease they promise before any descent."""

    atoms: list[Float]
    decrease: float

    @property
    def count(self) -> int:
        return sum(A.shape[1] for A in self.atoms)


def propose(working: Working, *, count: int, needed: float, room: list[int]) -> Proposal:
    """Up to `count` atoms, fewer once they promise a decrease of `needed`; `room` bounds each mode."""
    force = working.force()
    covers = [rows_of_mode(working, force, mode) if room[mode] > 0 else None for mode in range(len(room))]
    joint = JointCandidates.of(working, force) if min(room) > 0 else None
    chosen: list[list[Float]] = [[] for _ in room]
    promised = 0.0
    while sum(map(len, chosen)) < count and promised < needed:
        best_gain, best_mode, best_atom = 0.0, None, None
        for mode, cover in enumerate(covers):
            if cover is None or len(chosen[mode]) >= room[mode]:
                continue
            atom, gain = cover.best_atom()
            if gain > best_gain:
                best_gain, best_mode, best_atom = gain, mode, atom
        has_room = all(len(c) < space for c, space in zip(chosen, room, strict=True))
        if joint is not None and has_room and joint.best_gain() / len(room) > best_gain:
            gain, atoms = joint.take()
            for mode, atom in enumerate(atoms):
                chosen[mode].append(atom)
            promised += gain
        elif best_mode is not None and best_atom is not None:
            covers[best_mode].add(best_atom)  # type: ignore[union-attr]
            chosen[best_mode].append(best_atom)
            promised += best_gain
        else:
            break
    atoms = [
        np.stack(new, axis=1) if new else np.zeros((A.shape[0], 0))
        for new, A in zip(chosen, working.dictionaries, strict=True)
    ]
    return Proposal(atoms, promised)


def rows_of_mode(working: Working, force: Float, mode: int) -> Cover:
    """Every row that a new atom of this mode could serve."""
    used = _used_rows(working, force, mode)
    fresh = _fresh_rows(working, force, mode, used[0])
    rows = np.concatenate([used[1], fresh[0]])
    base = np.concatenate([used[2], np.zeros(len(fresh[0]))])
    weights = None if used[3] is None or fresh[1] is None else np.concatenate([used[3], fresh[1]])
    return Cover(rows, base, working.alpha, weights).trimmed(MOST_ROWS)


def _used_rows(working: Working, force: Float, mode: int) -> tuple[Float, Float, Float, Float | None]:
    """Keys (t, joint atom of the other modes) that carry codes; q, base and mask weights of each."""
    r, dictionaries = working.sizes, working.dictionaries
    sample, index = code_indices(working.codes, r)
    rest = np.zeros(working.codes.nnz, dtype=np.int64)
    width = 1
    for j, i in enumerate(index):
        if j != mode:
            rest, width = rest * r[j] + i, width * r[j]
    keys, row = np.unique(sample * width + rest, return_inverse=True)
    owner, joint = np.divmod(keys, width)
    P = np.zeros((keys.size, dictionaries[mode].shape[0]))
    np.add.at(P, row, working.codes.data[:, None] * dictionaries[mode].T[index[mode]])
    paid = np.bincount(row, weights=np.abs(working.codes.data), minlength=keys.size)
    q = np.empty_like(P)
    others = [A for j, A in enumerate(dictionaries) if j != mode]
    # What each row sees of an atom of this mode: all of it, unless entries are missing or weighed down.
    seen = None if working.is_plain else np.empty_like(P)
    weights = None if working.is_plain else working.weights(working.residual_error())
    for part in chunks(keys.size, 8 * int(np.prod(force.shape[1:]))):
        columns = joint_columns(others, joint[part]).T if others else np.ones((part.stop - part.start, 1))
        q[part] = _contracted(force, owner[part], columns, mode)
        if weights is not None and seen is not None:
            seen[part] = _contracted(weights, owner[part], columns**2, mode)
    share = P if seen is None else seen * P
    q += share
    base = np.einsum("qd,qd->q", q, P) - 0.5 * np.einsum("qd,qd->q", share, P) - working.alpha * paid
    return keys, q, np.maximum(base, 0.0), seen


def _contracted(tensor: Float, owner: Float, columns: Float, mode: int) -> Float:
    folded = np.moveaxis(tensor[owner], mode + 1, 1).reshape(len(owner), tensor.shape[mode + 1], -1)
    return np.einsum("qdr,qr->qd", folded, columns)


def _fresh_rows(working: Working, force: Float, mode: int, used: Float) -> tuple[Float, Float | None]:
    """Rows without codes whose residual alone passes the one-sided test ||q|| > alpha."""
    others = [j for j in range(len(working.sizes)) if j != mode]
    width = int(np.prod([working.sizes[j] for j in others], dtype=np.int64))
    d = force.shape[mode + 1]
    weights = None if working.is_plain else working.weights(working.residual_error())
    rows, seen = [np.zeros((0, d))], [np.zeros((0, d))]
    for part in chunks(len(force), 8 * width * d):
        q = _seen_through(force[part], working.dictionaries, others, mode, power=1)
        inside = np.flatnonzero(np.einsum("qd,qd->q", q, q) > working.alpha**2)
        inside = inside[~np.isin(inside + part.start * width, used, assume_unique=True)]
        rows.append(q[inside])
        if weights is not None:
            seen.append(_seen_through(weights[part], working.dictionaries, others, mode, power=2)[inside])
    return np.concatenate(rows), None if weights is None else np.concatenate(seen)


def _seen_through(tensor: Float, dictionaries: list[Float], others: list[int], mode: int, power: int) -> Float:
    for j in others:
        tensor = mode_product(tensor, dictionaries[j].T ** power, j)
    return np.moveaxis(tensor, mode + 1, -1).reshape(-1, tensor.shape[mode + 1])


class JointCandidates:
    """Atoms new in every mode: the worst vectors of a few samples, ranked over all of them."""

    def __init__(self, atoms: list[Float], brings: Float, base: Float) -> None:
        self.atoms, self.brings, self.base = atoms, brings, base

    @classmethod
    def of(cls, working: Working, force: Float) -> "JointCandidates | None":
        missing = working.decrease - working.value
        order = np.argsort(-missing, kind="stable")[:JOINT_CANDIDATES]
        penalty = Separable()
        vectors = [penalty.worst_atom(force, int(t)) for t in order]
        if not vectors:
            return None
        atoms = [np.stack([v[k] for v in vectors], axis=1) for k in range(len(working.sizes))]
        rows = np.argsort(-missing, kind="stable")[:MOST_SAMPLES]
        residual = np.abs(_joint_correlations(force[rows], atoms))
        brings = 0.5 * np.maximum(residual - working.alpha, 0.0) ** 2
        if working.is_plain:
            alone = 0.5 * np.maximum(np.abs(_joint_correlations(working.X[rows], atoms)) - working.alpha, 0.0) ** 2
            brings = np.maximum(brings, alone - working.value[rows, None])
        else:
            weights = working.weights(working.residual_error())
            if weights is not None:
                seen = _joint_correlations(weights[rows], [A**2 for A in atoms])
                brings = brings / np.maximum(seen, 1e-12)
        return cls(atoms, np.maximum(brings, 0.0), np.zeros(len(rows)))

    def best_gain(self) -> float:
        return float(self._totals().max(initial=0.0))

    def take(self) -> tuple[float, list[Float]]:
        """The best candidate; what it brings is no longer there for the others."""
        totals = self._totals()
        winner = int(np.argmax(totals))
        self.base = np.maximum(self.base, self.brings[:, winner])
        return float(totals[winner]), [A[:, winner] for A in self.atoms]

    def _totals(self) -> Float:
        return np.maximum(self.brings - self.base[:, None], 0.0).sum(axis=0)


def _joint_correlations(tensor: Float, atoms: list[Float]) -> Float:
    """<tensor_t, a_1k o ... o a_nk> for every sample t and candidate k."""
    out = tensor @ atoms[-1]
    for A in reversed(atoms[:-1]):
        out = np.einsum("t...dk,dk->t...k", out, A)
    return out


def room_left(working: Working, caps: tuple[int, ...]) -> list[int]:
    """How many atoms each mode may still take."""
    return [max(0, cap - size) for cap, size in zip(caps, sizes(working.dictionaries), strict=True)]
