"""A small Cholesky solver that steps over dependent columns, for Newton steps on a support.

Duplicated or collinear atoms make the Gram of a support singular. A column whose pivot vanishes against its
diagonal gets no step (its coefficient stays where it is) and the others are solved exactly, so that a solution
always exists; coordinate descent, which needs no inverse, moves the rest.
"""

from septum.coding.compiled import compiled

DEPENDENT = 1e-10  # a pivot below this share of its diagonal entry is taken for zero


@compiled
def factorise(H, size, skipped):
    """Turn the upper triangle of H[:size, :size] into U with U^T U = H; say which columns were skipped.

    Pivot rows are finished four at a time, so that the rows below are read and written once for four of them.
    """
    for j in range(size):
        skipped[j] = H[j, j]
    for start in range(0, size, 4):
        stop = min(start + 4, size)
        for j in range(start, stop):
            for p in range(start, j):
                weight = H[p, j]
                for b in range(j, size):
                    H[j, b] -= weight * H[p, b]
            scale = 0.0
            if H[j, j] > DEPENDENT * skipped[j]:
                scale = 1.0 / H[j, j] ** 0.5
            skipped[j] = 0.0 if scale > 0.0 else 1.0
            for b in range(j, size):
                H[j, b] *= scale
        if stop - start == 4:
            _subtract_four(H, start, size)


@compiled
def _subtract_four(H, start, size):
    first, second, third, fourth = H[start], H[start + 1], H[start + 2], H[start + 3]
    for a in range(start + 4, size):
        w, x, y, z = first[a], second[a], third[a], fourth[a]
        row = H[a]
        for b in range(a, size):
            row[b] -= w * first[b] + x * second[b] + y * third[b] + z * fourth[b]


@compiled
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
