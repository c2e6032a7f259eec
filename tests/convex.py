"""An independent referee: the convex bound of one sample, solved by a general conic solver (CVXPY, Clarabel).

min_Z sum rho(M o (X - Z)) + alpha ||Z||, with the nuclear norm (n = 2) or the l2 norm (n = 1).
"""

import cvxpy as cp
import numpy as np


def best_objective(x, alpha, mask=None, delta=None, norm=None):
    """The least value of the convex problem for one vector or matrix x."""
    observed = np.ones(x.shape) if mask is None else mask.astype(float)
    Z = cp.Variable(x.shape)
    error = cp.multiply(observed, np.where(observed > 0, x, 0.0) - Z)
    loss = 0.5 * cp.sum_squares(error) if delta is None else 0.5 * cp.sum(cp.huber(error, delta))
    if norm is None:
        norm = cp.normNuc if x.ndim == 2 else cp.norm2
    problem = cp.Problem(cp.Minimize(loss + alpha * norm(Z)))
    problem.solve(solver="CLARABEL")
    return problem.value
