"""FISTA with restart for one sample, in the codes, on the joint Gram: for samples with many nonzero codes.

    c+ = soft(y + (q - G y) / L, alpha / L),   y+ = c+ + beta (c+ - c),   L = product of the Grams' largest eigenvalues

The images G c are kept, and G y follows from them by linearity, so that one product with the Gram serves both the
step and the gap. The momentum restarts when it points uphill (O'Donoghue and Candes' gradient test).
"""

from typing import NamedTuple

import numpy as np

from septum.coding.compiled import compiled
from septum.coding.gap import duality_gap
from septum.coding.mode import F64, dense_image


class Momentum(NamedTuple):
    """Dense codes of one sample: current, previous, extrapolated, with their images under the Gram."""

    codes: F64
    image: F64
    previous: F64
    previous_image: F64
    point: F64
    point_image: F64


@compiled
def make_momentum(length):
    return Momentum(
        np.empty(length),
        np.empty(length),
        np.empty(length),
        np.empty(length),
        np.empty(length),
        np.empty(length),
    )


@compiled
def accelerate(grid, state, signal, alpha, positive, energy, target, limit, first, second):
    """Iterate from `state.codes` until the gap is at most `target`; return the gap and the iterations."""
    codes, image = state.codes, state.image
    size = len(signal)
    dense_image(grid, codes, first, second, image)
    state.point[:] = codes
    state.point_image[:] = image
    threshold = alpha / grid.lipschitz
    t = 1.0
    gap = dense_gap(signal, codes, image, alpha, positive, energy)
    for iteration in range(limit):
        if gap <= target:
            return gap, iteration
        state.previous[:] = codes
        state.previous_image[:] = image
        uphill = 0.0
        for a in range(size):
            pull = state.point[a] + (signal[a] - state.point_image[a]) / grid.lipschitz
            new = 0.0
            if pull > threshold:
                new = pull - threshold
            elif pull < -threshold and not positive:
                new = pull + threshold
            codes[a] = new
            uphill += (state.point[a] - new) * (new - state.previous[a])
        dense_image(grid, codes, first, second, image)
        if uphill > 0.0:
            t = 1.0
        following = 0.5 * (1.0 + (1.0 + 4.0 * t * t) ** 0.5)
        beta = (t - 1.0) / following
        t = following
        for a in range(size):
            state.point[a] = codes[a] + beta * (codes[a] - state.previous[a])
            state.point_image[a] = image[a] + beta * (image[a] - state.previous_image[a])
        gap = dense_gap(signal, codes, image, alpha, positive, energy)
    return gap, limit


@compiled
def dense_gap(signal, codes, image, alpha, positive, energy):
    """The duality gap of dense codes from q = `signal` and G c = `image`."""
    largest = 0.0
    aligned = 0.0
    total = 0.0
    fitted = 0.0
    for a in range(len(signal)):
        g = signal[a] - image[a]
        c = codes[a]
        largest = max(largest, g if positive else abs(g))
        aligned += g * c
        fitted += signal[a] * c
        total += abs(c)
    return duality_gap(largest, aligned, energy - fitted - aligned, total, alpha)
