"""An image before and after, shell by shell: the numbers a reader looks for first.

For every shell (and the b0 volumes) inside the mask: the mean signal, the spread of what was taken away
(root mean square of before minus after), the noise level it should not exceed, and, where the truth is
known, the peak signal-to-noise ratio before and after: 20 log10(peak / rmse), the peak that of the truth in that shell.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from septum.array import Float
from septum.errors import InvalidInputError
from septum.report.record import Cell, Column, Table

_B0 = 50.0


def shell_table(
    before: ArrayLike,
    after: ArrayLike,
    bvals: ArrayLike,
    *,
    mask: ArrayLike | None = None,
    noise: ArrayLike | float | None = None,
    truth: ArrayLike | None = None,
    name: str = "Shell by shell",
) -> Table:
    """A table with one row for the b0 volumes and one for each shell.

    before, after, truth: (x, y, z, n); bvals: (n,); mask: (x, y, z); noise: a number or a map (x, y, z) or (x, y, z, n).
    """
    first, second = np.asarray(before), np.asarray(after)
    b = np.asarray(bvals, dtype=np.float64)
    if first.shape != second.shape or first.ndim != 4 or b.shape != first.shape[3:]:
        raise InvalidInputError(
            f"before {first.shape}, after {second.shape} and {b.size} b-values do not belong together"
        )
    inside = np.ones(first.shape[:3], dtype=bool) if mask is None else np.asarray(mask, dtype=bool)
    columns = [
        Column("Shell"),
        Column("Volumes"),
        Column("Mean signal", digits=1),
        Column("Taken away, RMS", digits=2),
    ]
    if noise is not None:
        columns += [Column("Noise, RMS", digits=2), Column("Taken away / noise", digits=2)]
    if truth is not None:
        columns += [Column("PSNR before", "dB", 2), Column("PSNR after", "dB", 2)]
    rows = [_row(first, second, members, label, inside, noise, truth) for label, members in shells(b)]
    return Table(name, tuple(columns), tuple(rows), "Inside the mask." if mask is not None else "")


def shells(bvals: Float) -> list[tuple[str, list[int]]]:
    """Volumes grouped by b-value: ("b = 0", ...), then each shell; b-values within 5% or 50 s/mm2 are one."""
    groups: list[tuple[str, list[int]]] = []
    b0s = [int(v) for v in np.flatnonzero(bvals <= _B0)]
    if b0s:
        groups.append(("b = 0", b0s))
    order = sorted((v for v in range(len(bvals)) if bvals[v] > _B0), key=lambda v: (bvals[v], v))
    members: list[int] = []
    for v in order:
        if members and bvals[v] - bvals[members[-1]] > max(50.0, 0.05 * bvals[members[-1]]):
            groups.append((_name(bvals, members), members))
            members = []
        members.append(int(v))
    if members:
        groups.append((_name(bvals, members), members))
    return groups


def _name(bvals: Float, members: list[int]) -> str:
    return f"b = {float(np.mean(bvals[members])):.0f}"


def _row(
    before: Any, after: Any, members: list[int], label: str, inside: Any, noise: Any, truth: Any
) -> tuple[Cell, ...]:
    first = before[..., members][inside].astype(np.float64)
    second = after[..., members][inside].astype(np.float64)
    taken = _rms(first - second)
    row: list[Cell] = [label, len(members), _mean(first), taken]
    if noise is not None:
        level = np.asarray(noise, dtype=np.float64)
        if level.ndim == 4:
            level = level[..., members]
        spread = _rms(np.broadcast_to(level, ()) if level.ndim == 0 else level[inside])
        row += [spread, taken / spread if spread else math.nan]
    if truth is not None:
        right = np.asarray(truth)[..., members][inside].astype(np.float64)
        row += [_psnr(first, right), _psnr(second, right)]
    return tuple(row)


def _mean(values: Float) -> float:
    return float(values.mean()) if values.size else math.nan


def _rms(values: Float) -> float:
    return float(np.sqrt(np.mean(np.square(values)))) if np.size(values) else math.nan


def _psnr(values: Float, truth: Float) -> float:
    error = _rms(values - truth)
    peak = float(truth.max(initial=0.0))
    if not peak > 0 or math.isnan(error):
        return math.nan
    return 20.0 * math.log10(peak / error) if error > 0 else math.inf
