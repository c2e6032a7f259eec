"""Norms of atoms, column by column: values, exact projections on their unit balls, and a dual norm.

Three norms are used: l2 (the paper's), l1, and N(g) = ||g||_2 + beta ||g||_1, which favours sparse
atoms. For the last one, with s(g, u) the soft threshold at u,

    prox of mu N:  (1 - mu / ||s||_2)_+ s,  s = s(g, mu beta);
    dual norm:     the one lambda with ||s(w, lambda beta)||_2 = lambda, attained by g along s(w, lambda beta);
    projection:    the prox at the one mu for which N = 1.
"""

import numpy as np

from septum.array import Float


def project_l2(atoms: Float) -> Float:
    """The nearest columns with ||g||_2 <= 1."""
    norms = np.linalg.norm(atoms, axis=0)
    return atoms / np.maximum(norms, 1.0).astype(atoms.dtype)


def project_l1(atoms: Float) -> Float:
    """The nearest columns with ||g||_1 <= 1: a soft threshold, found from the sorted magnitudes."""
    size = np.abs(atoms).astype(np.float64)
    ordered = -np.sort(-size, axis=0)
    excess = np.cumsum(ordered, axis=0) - 1.0
    count = np.arange(1, len(atoms) + 1)[:, None]
    kept = (ordered * count > excess).sum(axis=0)
    level = np.take_along_axis(excess, np.maximum(kept - 1, 0)[None], axis=0) / np.maximum(kept, 1)
    level = np.where(size.sum(axis=0) > 1.0, level, 0.0)
    return (np.sign(atoms) * np.maximum(size - level, 0.0)).astype(atoms.dtype)


def sparse_norm(atoms: Float, beta: float) -> Float:
    """N(g) = ||g||_2 + beta ||g||_1 for every column, in float64."""
    atoms = atoms.astype(np.float64, copy=False)
    return np.linalg.norm(atoms, axis=0) + beta * np.abs(atoms).sum(axis=0)


def sparse_prox(atoms: Float, mu: Float | float, beta: float) -> Float:
    """The proximal map of mu N, column by column."""
    soft = np.sign(atoms) * np.maximum(np.abs(atoms) - mu * beta, 0.0)
    norm = np.linalg.norm(soft, axis=0)
    return soft * np.maximum(1.0 - mu / np.where(norm > 0, norm, np.inf), 0.0)


def sparse_dual_norm(vectors: Float, beta: float) -> Float:
    """sup <w, g> over N(g) <= 1, for every column w."""
    size = -np.sort(-np.abs(vectors.astype(np.float64)), axis=0)
    count = np.arange(1, len(size) + 1)[:, None]
    total, squares = np.cumsum(size, axis=0), np.cumsum(size**2, axis=0)
    # An entry is active when its breakpoint lies beyond the root: beta ||s(w, |w_j|)|| < |w_j|.
    beyond = np.maximum(squares - 2 * size * total + count * size**2, 0.0)
    active = np.maximum((beta**2 * beyond < size**2).sum(axis=0), 1)
    at = (active - 1)[None]
    total, squares = np.take_along_axis(total, at, 0)[0], np.take_along_axis(squares, at, 0)[0]
    root = np.sqrt(np.maximum(squares - beta**2 * (active * squares - total**2), 0.0))
    denominator = beta * total + root
    return np.where(denominator > 0, squares / np.where(denominator > 0, denominator, 1.0), 0.0)


def sparse_maximizer(vectors: Float, beta: float) -> tuple[Float, Float]:
    """The dual norm of every column and a column of N = 1 that attains it."""
    level = sparse_dual_norm(vectors, beta)
    soft = np.sign(vectors) * np.maximum(np.abs(vectors) - level * beta, 0.0)
    norm = sparse_norm(soft, beta)
    first = np.zeros_like(soft)
    first[0] = 1.0 / (1.0 + beta)
    return level, np.where(norm > 0, soft / np.where(norm > 0, norm, 1.0), first)


def project_sparse(atoms: Float, beta: float) -> Float:
    """The nearest columns with N(g) <= 1, by bisection to the last bit on the one unknown mu."""
    wide = atoms.astype(np.float64)
    outside = sparse_norm(wide, beta) > 1.0
    if not outside.any():
        return atoms.copy()
    target = wide[:, outside]
    low, high = np.zeros(target.shape[1]), sparse_dual_norm(target, beta)
    while True:
        middle = 0.5 * (low + high)
        if ((middle <= low) | (middle >= high)).all():
            break
        inside = sparse_norm(sparse_prox(target, middle, beta), beta) <= 1.0
        low, high = np.where(inside, low, middle), np.where(inside, middle, high)
    wide[:, outside] = sparse_prox(target, high, beta)
    return wide.astype(atoms.dtype)
