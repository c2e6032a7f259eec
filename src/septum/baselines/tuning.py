"""KDRSDL with its two weights chosen from the data.

At the authors' default lam the error term absorbs almost all of centred data, and the dictionaries learn
from what is left. A fair comparison tunes it. Each pair of weights learns from most of the samples; the
others are coded by the separable lasso on the dictionaries learned, at the alpha that coding will use;
the pair with the least objective 1/2 ||X - Z||^2 + alpha ||C||_1 there is fitted once more to all samples.
No truth and no test data are needed.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from septum.array import Float, as_alpha, as_samples
from septum.baselines.kdrsdl import KDRSDL, NoAtomsLeftError
from septum.baselines.method import synthesise
from septum.coding import sparse_code
from septum.dictionaries.atom import as_positive
from septum.errors import InvalidInputError

_MULTIPLES = (1.0, 10.0, 1e2, 1e3, 1e5)


def tuned_kdrsdl(
    X: ArrayLike,
    coding_alpha: float,
    *,
    alphas: Sequence[float] = (1e-2, 1e-1),
    lams: Sequence[float] | None = None,
    held_out: float = 0.2,
    random_state: Any = 0,
    **settings: Any,
) -> tuple[KDRSDL, list[dict[str, float]]]:
    """The fitted KDRSDL with the best pair of weights, and the record of every pair tried.

    Parameters
    ----------
    X : array (n_samples, d_1, d_2)
    coding_alpha : float, the alpha at which the dictionaries will be used.
    alphas, lams : weights of KDRSDL to try; lams defaults to 1, 10, 100, 1e3 and 1e5 times the authors'.
        The model is not scale-free: X times s asks for alpha and lam divided by s.
    held_out : share of the samples that judge, between 0 and 1.
    settings : passed on to KDRSDL.
    """
    weight = as_alpha(coding_alpha)
    data = as_samples(X).data
    share = as_positive(held_out, "held_out")
    n_judges = round(share * len(data))
    if data.ndim != 3 or not 1 <= n_judges < len(data):
        raise InvalidInputError(
            f"X must be (n_samples, d_1, d_2) with samples left both to learn and to judge; {data.shape} at "
            f"held_out = {held_out} leaves {len(data) - n_judges} and {n_judges}"
        )
    order = check_random_state(random_state).permutation(len(data))
    learning, judges = data[np.sort(order[n_judges:])], data[np.sort(order[:n_judges])]
    default = 1 / np.sqrt(len(data) * max(data.shape[1:]))
    tried = [
        {"alpha": float(alpha), "lam": float(lam)}
        for alpha in alphas
        for lam in (default * np.array(_MULTIPLES) if lams is None else lams)
    ]
    if not tried:
        raise InvalidInputError("alphas and lams must hold at least one weight each")
    for pair in tried:
        pair["objective"] = _judge(KDRSDL(pair["alpha"], pair["lam"], **settings), learning, judges, weight)
    best = min(tried, key=lambda pair: pair["objective"])
    return KDRSDL(best["alpha"], best["lam"], **settings).fit(data), tried


def _judge(model: KDRSDL, learning: Float, judges: Float, alpha: float) -> float:
    """The held-out objective; that of zero codes where the error term leaves no atoms."""
    as_alpha(model.alpha)
    as_positive(model.lam, "lam")
    nothing = float(np.sum(judges**2, dtype=np.float64) / 2)
    try:
        atoms = model.fit(learning).dictionaries_
    except NoAtomsLeftError:
        return nothing
    codes = sparse_code(judges, atoms, alpha).codes
    rest = judges - synthesise(codes, atoms)
    return float(np.sum(rest**2, dtype=np.float64) / 2 + alpha * np.abs(codes.data).sum())
