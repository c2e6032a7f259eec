"""Volumes in groups: what a voxel's signal is on average, and how it differs between directions.

A group is the b0s or a shell; where a shell is too small, all weighted volumes are one. In every voxel the mean
over each group is taken out, times the root of the group's size, so that means and contrasts are coordinates
in one orthonormal frame and have the same noise. The means carry the anatomy, sharp and high above the noise;
the contrasts carry the fibres, and are what the dictionaries are for.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from septum.array import Float
from septum.dmri.gradient import Gradients

SMALLEST_SHELL = 6


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of the volumes of an image, the b0s first if there are any; without members nothing is centred."""

    members: tuple[NDArray[np.intp], ...]
    n_volumes: int

    @property
    def n_free(self) -> int:
        """Degrees of freedom of a voxel's contrasts."""
        return self.n_volumes - len(self.members)

    @cached_property
    def contrasted(self) -> NDArray[np.intp]:
        """The volumes that have contrasts: those of groups of more than one."""
        if not self.members:
            return np.arange(self.n_volumes)
        return np.sort(np.concatenate([m for m in self.members if len(m) > 1]))

    def means(self, values: Float) -> Float:
        """sqrt(n_g) times the mean over each group: (..., n_groups)."""
        if not self.members:
            return np.zeros((*values.shape[:-1], 0), dtype=values.dtype)
        parts = [values[..., m].sum(axis=-1) / np.float32(np.sqrt(len(m))) for m in self.members]
        return np.stack(parts, axis=-1)

    def contrasts(self, values: Float, means: Float) -> Float:
        """What is left in `contrasted` volumes when the means are taken out: (..., len(contrasted))."""
        out = np.ascontiguousarray(values[..., self.contrasted])
        if self.members:
            out -= self._spread(means)
        return out

    def joined(self, means: Float, contrasts: Float) -> Float:
        """Values with these means and contrasts: (..., n_volumes)."""
        if not self.members:
            return contrasts
        out = np.zeros((*means.shape[:-1], self.n_volumes), dtype=contrasts.dtype)
        out[..., self.contrasted] = contrasts + self._spread(means)
        for g, m in enumerate(self.members):
            if len(m) == 1:
                out[..., m[0]] = means[..., g]
        return out

    def _spread(self, means: Float) -> Float:
        """Each contrasted volume's group mean."""
        which = np.empty(self.n_volumes, dtype=np.intp)
        size = np.empty(self.n_volumes, dtype=np.float32)
        for g, m in enumerate(self.members):
            which[m], size[m] = g, np.sqrt(len(m))
        return means[..., which[self.contrasted]] / size[self.contrasted]


def group(gradients: Gradients, *, centre: bool = True) -> Groups:
    """The b0s and the shells; one group for all weighted volumes where a shell has fewer than six."""
    if not centre:
        return Groups((), len(gradients))
    shells = [shell.volumes for shell in gradients.shells]
    if any(len(s) < SMALLEST_SHELL for s in shells):
        shells = [gradients.weighted]
    members = ([gradients.b0s] if gradients.b0s.size else []) + shells
    return Groups(tuple(members), len(gradients))
