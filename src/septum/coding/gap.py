"""The duality gap of one sample's lasso, in float64 and without cancellation (section 4.2's dual, one dictionary).

For codes C, residual R = X - Z and correlations B = R x_1 A_1^T ... x_n A_n^T, the point s R is dual feasible when
s max|B| <= alpha (s max B <= alpha for non-negative codes), and

    gap(s) = 1/2 (1 - s)^2 ||R||^2 + sum |c| (alpha - s sign(c) b)  >=  P(C) - min P,

each term of which is non-negative. The best s >= 0 is min(alpha / max|B|, 1 + <B, C> / ||R||^2).
"""

from septum.coding.compiled import compiled


@compiled
def dual_scale(largest, aligned, energy, alpha):
    """s from max|B|, <B, C> and ||R||^2."""
    best = 1.0
    if energy > 0.0:
        best = 1.0 + aligned / energy
    if largest > 0.0 and alpha / largest < best:
        best = alpha / largest
    return max(best, 0.0)


@compiled
def duality_gap(largest, aligned, energy, total, alpha):
    """The gap from max|B|, <B, C>, ||R||^2 and ||C||_1."""
    energy = max(energy, 0.0)
    scale = dual_scale(largest, aligned, energy, alpha)
    return max(0.5 * (1.0 - scale) ** 2 * energy + (alpha * total - scale * aligned), 0.0)
