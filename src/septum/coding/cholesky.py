"""A small Cholesky solver that steps over dependent columns, for Newton steps on a support.

Duplicated or collinear atoms make the Gram of a support singular. A column whose pivot vanishes against its
diagonal gets no step (its coefficient stays where it is) and the others are solved exactly, so that a solution
always exists; coordinate descent, which needs no inverse, moves the rest.
"""

from numba import njit

from septum.coding.mode import OPTIONS

DEPENDENT = 1e-10  # a pivot below this share of its diagonal entry is taken for zero


@njit(**OPTIONS)
def factorise(H, size, skipped):
    """Turn the upper triangle of H[:size, :size] into U with U^T U = H; say which columns were skipped."""
    for j in range(size):
        skipped[j] = H[j, j]
    for j in range(size):
        if H[j, j] <= DEPENDENT * skipped[j]:
            skipped[j] = 1.0
            for b in range(j, size):
                H[j, b] = 0.0
            continue
        skipped[j] = 0.0
        scale = 1.0 / H[j, j] ** 0.5
        for b in range(j, size):
            H[j, b] *= scale
        pivot = H[j]
        for a in range(j + 1, size):
            weight = pivot[a]
            row = H[a]
            for b in range(a, size):
                row[b] -= weight * pivot[b]


@njit(**OPTIONS)
def solve(H, size, skipped, x):
    """Solve U^T U x = x in place; skipped columns get 0."""
    for a in range(size):
        if skipped[a] > 0.0:
            x[a] = 0.0
            continue
        x[a] /= H[a, a]
        weight = x[a]
        for b in range(a + 1, size):
            x[b] -= weight * H[a, b]
    for step in range(size):
        a = size - 1 - step
        if skipped[a] > 0.0:
            continue
        total = 0.0
        for b in range(a + 1, size):
            total += H[a, b] * x[b]
        x[a] = (x[a] - total) / H[a, a]
