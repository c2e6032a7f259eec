"""Starting dictionaries from the known optimum (section 4.2).

The singular pairs above alpha are the atoms of the explicit global minimiser. Left and right vectors are
covered, each by itself, with as few lines as will do: a pair of value sigma served by a line at angle
theta keeps 1/2 (sigma cos(theta) - alpha)_+^2 of its 1/2 (sigma - alpha)^2. Samples with more modes give
rank-one terms by power iteration and deflation; missing entries are filled in first by a few steps of the
convex problem.
"""

from dataclasses import dataclass

import numpy as np

from septum.array import Float
from septum.learning.cover import Cover, greedy_cover
from septum.learning.history import Settings
from septum.learning.working import Working
from septum.regularizer.tensor_norm import power_iteration
from septum.spectral import pairs_above, shrink_singular_values, unfold

MOST_PAIRS = 3000
LEAST_SHARE = 3e-3
DEFLATIONS = 8


@dataclass(frozen=True)
class RankOneTerms:
    """Term p has value `value[p]` and unit vectors `vectors[k][:, p]`, one for each mode."""

    value: Float
    vectors: list[Float]


def rank_one_terms(X: Float, alpha: float) -> RankOneTerms:
    """The parts of the samples above alpha: singular pairs, or for n >= 3 a greedy deflation."""
    n_modes = X.ndim - 1
    if n_modes == 1:
        norm = np.linalg.norm(X, axis=1)
        kept = norm > alpha
        return RankOneTerms(norm[kept], [(X[kept] / norm[kept, None]).T])
    if n_modes == 2:
        pairs = pairs_above(X, alpha)
        return RankOneTerms(pairs.value, [pairs.left, pairs.right])
    return _deflated(X.astype(np.float64), alpha)


def spectral_seeds(working: Working, settings: Settings, caps: tuple[int, ...]) -> list[Float]:
    """Starting dictionaries, at most `caps` atoms a mode; at least one each."""
    terms = rank_one_terms(filled(working), working.alpha)
    if terms.value.size == 0:
        terms = rank_one_terms(filled(working), 0.0)
    terms = _sampled(terms, settings.rng)
    full = 0.5 * np.maximum(terms.value - working.alpha, 0.0) ** 2
    total = float(full.sum())
    least = (1e-6 if settings.is_capped else LEAST_SHARE) * total
    seeds = []
    for vectors, cap in zip(terms.vectors, caps, strict=True):
        cover = Cover((terms.value * vectors).T, np.zeros(terms.value.size), working.alpha)
        enough = (1.0 - 0.25 * settings.tol) * total
        seeds.append(greedy_cover(cover, cap, least_gain=least, enough=enough))
    return seeds


def random_seeds(working: Working, settings: Settings) -> list[Float]:
    """One random unit atom for each mode: the paper's start."""
    seeds = [settings.rng.standard_normal((d, 1)) for d in working.X.shape[1:]]
    return [A / np.linalg.norm(A) for A in seeds]


def filled(working: Working, steps: int = 20) -> Float:
    """The data; where entries are missing or outlying, what a few convex steps make of them.

    Z <- shrink(Z + rho'(M o (X - Z))) for the nuclear norm of the first unfolding.
    """
    if working.is_plain:
        return working.X
    Z = np.zeros(working.X.shape)
    target = Z
    for _ in range(steps):
        error = working.X - Z
        if working.mask is not None:
            error = np.where(working.mask, error, 0.0)
        target = Z + working.loss.influence(error)
        Z = shrink_singular_values(unfold(target, (0,)), working.alpha)[0].reshape(Z.shape)
    return target


def _sampled(terms: RankOneTerms, rng: np.random.Generator) -> RankOneTerms:
    if terms.value.size <= MOST_PAIRS:
        return terms
    weight = terms.value**2
    chosen = np.sort(rng.choice(terms.value.size, MOST_PAIRS, replace=False, p=weight / weight.sum()))
    return RankOneTerms(terms.value[chosen], [V[:, chosen] for V in terms.vectors])


def _deflated(X: Float, alpha: float) -> RankOneTerms:
    values: list[Float] = []
    found: list[list[Float]] = [[] for _ in range(X.ndim - 1)]
    rest = X
    for _ in range(DEFLATIONS):
        value, vectors = power_iteration(rest)
        alive = value > alpha
        if not alive.any():
            break
        rest = rest[alive]
        value = value[alive]
        vectors = [v[alive] for v in vectors]
        values.append(value)
        outer = value[:, None]
        for k, v in enumerate(vectors):
            found[k].append(v)
            outer = np.einsum("t...,td->t...d", outer if k else value, v)
        sign = np.sign(np.einsum("ti,ti->t", rest.reshape(len(rest), -1), outer.reshape(len(rest), -1)))
        rest = rest - sign.reshape(-1, *[1] * (rest.ndim - 1)) * outer
    if not values:
        return RankOneTerms(np.zeros(0), [np.zeros((d, 0)) for d in X.shape[1:]])
    return RankOneTerms(np.concatenate(values), [np.concatenate(v).T for v in found])
