"""Principal axes of patches."""

import numpy as np

from septum.baselines.tucker import principal_axes


def test_axes_are_the_left_singular_vectors_of_the_unfoldings():
    X = np.random.default_rng(0).standard_normal((6, 4, 5))
    angular, spatial = principal_axes(X)
    for axes, unfolded in ((angular, np.concatenate(X, axis=1)), (spatial, np.concatenate(X, axis=0).T)):
        expected = np.linalg.svd(unfolded, full_matrices=False)[0]
        np.testing.assert_allclose(np.abs(np.sum(axes * expected, axis=0)), 1, atol=1e-10)
        np.testing.assert_allclose(axes.T @ axes, np.eye(len(axes)), atol=1e-12)


def test_the_leading_axes_hold_low_rank_patches():
    rng = np.random.default_rng(1)
    A, B = rng.standard_normal((6, 2)), rng.standard_normal((7, 3))
    X = A @ rng.standard_normal((9, 2, 3)) @ B.T
    left, right = principal_axes(X, (2, 3))
    np.testing.assert_allclose(left @ (left.T @ X @ right) @ right.T, X, atol=1e-10)
