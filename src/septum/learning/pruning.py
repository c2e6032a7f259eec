"""Fewer atoms: which one would be missed the least, measured rather than guessed.

The samples that use an atom are coded again without it, all else as it was; what f loses is the price of
removing it (before any descent, so an upper bound). Near-duplicates come out first: their users have
somewhere else to go.
"""

from dataclasses import dataclass

import numpy as np

from septum.array import Float
from septum.coding import engine
from septum.factors import Factors
from septum.kronecker import code_indices
from septum.learning.working import Working
from septum.loss import Squared

CANDIDATES = 6


@dataclass(frozen=True)
class Removal:
    """Atom `atom` of mode `mode` can go at a price of `loss`."""

    mode: int
    atom: int
    loss: float


def cheapest_removals(working: Working, *, candidates: int = CANDIDATES) -> list[Removal]:
    """The removals that cost least, cheapest first, among each mode's least useful atoms."""
    _, index = code_indices(working.codes, working.sizes)
    energy = working.codes.data.astype(np.float64) ** 2
    found = []
    for mode, size in enumerate(working.sizes):
        if size == 1:
            continue
        use = np.bincount(index[mode], weights=energy, minlength=size)
        for atom in np.argsort(use, kind="stable")[:candidates]:
            found.append(Removal(mode, int(atom), price(working, mode, int(atom))))
    return sorted(found, key=lambda removal: removal.loss)


def price(working: Working, mode: int, atom: int) -> float:
    """What f loses when the users of an atom are coded again without it."""
    sample, index = code_indices(working.codes, working.sizes)
    users = np.unique(sample[index[mode] == atom])
    if users.size == 0:
        return 0.0
    kept = _all_but(working, mode, atom)
    factors = Factors(working.dictionaries, working.codes[users]).restricted(kept)
    X = working.X[users]
    mask = None if working.mask is None else working.mask[users]
    coded = engine.solve(
        X,
        list(factors.dictionaries),
        working.alpha,
        tol=working.code_tol,
        warm=factors.codes,
        mask=mask,
        loss=None if isinstance(working.loss, Squared) else working.loss,
        n_jobs=working.n_jobs,
    )
    alone = Working(**{**working.__dict__, "X": X, "mask": mask})
    return float(working.value[users].sum() - alone.value_of(list(factors.dictionaries), coded.codes).sum())


def without(working: Working, removal: Removal) -> Working:
    """A copy without that atom, its users coded again."""
    copy = working.restricted(_all_but(working, removal.mode, removal.atom))
    copy.solve_codes()
    return copy


def drop_unused(working: Working) -> Working:
    """Without atoms that no code uses, at no price; each mode keeps at least one."""
    usage = Factors(working.dictionaries, working.codes).usage()
    kept = [np.flatnonzero(count) if count.any() else np.zeros(1, np.intp) for count in usage]
    if all(k.size == size for k, size in zip(kept, working.sizes, strict=True)):
        return working
    return working.restricted(kept)


def _all_but(working: Working, mode: int, atom: int) -> list[Float]:
    kept = [np.arange(size) for size in working.sizes]
    kept[mode] = np.delete(kept[mode], atom)
    return kept
