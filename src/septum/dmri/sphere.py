"""Evenly spread directions with their neighbours: a subdivided icosahedron.

Level k has 10 * 4^k + 2 vertices, in opposite pairs; level 3 has 642 (8 degrees apart), level 4 has 2562.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Sphere:
    """Unit `vertices` (n, 3) and triangles `faces` (m, 3), counter-clockwise from outside."""

    vertices: NDArray[np.float64]
    faces: NDArray[np.int64]

    def neighbours(self) -> NDArray[np.int64]:
        """The vertices that share an edge with each, (n, 6); the twelve with five have one twice."""
        edges = np.concatenate([self.faces[:, [0, 1]], self.faces[:, [1, 2]], self.faces[:, [2, 0]]])
        edges = edges[np.lexsort((edges[:, 1], edges[:, 0]))]
        counts = np.bincount(edges[:, 0], minlength=len(self.vertices))
        starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
        column = np.minimum(np.arange(6)[None, :], counts[:, None] - 1)
        return edges[starts[:, None] + column, 1]

    def half(self) -> NDArray[np.int64]:
        """One vertex of each opposite pair."""
        x, y, z = np.round(self.vertices, 9).T
        return np.flatnonzero((z > 0) | ((z == 0) & ((y > 0) | ((y == 0) & (x > 0)))))


@lru_cache(maxsize=4)
def icosphere(level: int) -> Sphere:
    """The icosahedron with each triangle cut in four, `level` times."""
    vertices, faces = _icosahedron()
    for _ in range(level):
        edges = np.sort(np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]]), axis=1)
        unique, which = np.unique(edges, axis=0, return_inverse=True)
        middles = vertices[unique].sum(axis=1)
        middles /= np.linalg.norm(middles, axis=1, keepdims=True)
        ab, bc, ca = which.reshape(3, -1) + len(vertices)
        a, b, c = faces.T
        faces = np.concatenate(
            [np.column_stack(t) for t in ((a, ab, ca), (b, bc, ab), (c, ca, bc), (ab, bc, ca))]
        )
        vertices = np.concatenate([vertices, middles])
    return Sphere(vertices, faces)


def _icosahedron() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    golden = (1 + np.sqrt(5)) / 2
    corners = [(0.0, s, t * golden) for s in (-1, 1) for t in (-1, 1)]
    vertices = np.array([np.roll(corner, turn) for turn in range(3) for corner in corners])
    near = np.linalg.norm(vertices[:, None] - vertices[None], axis=-1) < 2.1
    n = len(vertices)
    triples = [
        (a, b, c)
        for a in range(n)
        for b in range(a + 1, n)
        for c in range(b + 1, n)
        if near[a, b] and near[b, c] and near[a, c]
    ]
    faces = np.array(triples)
    outwards = np.linalg.det(vertices[faces]) > 0
    faces[~outwards] = faces[~outwards][:, ::-1]
    return vertices / np.linalg.norm(vertices[0]), faces
