"""Curvelets: adjoint pairs, unit atoms, and reconstruction at every shape and precision."""

import numpy as np
import pytest

from septum.dictionaries import CurveletOperator, curvelet
from septum.errors import InvalidInputError

SHAPES = [(12, 12), (11, 13), (8, 8), (3, 5), (50, 50), (32, 24), (6, 5, 4)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("scales", [2, 3])
def test_images_are_reconstructed_from_their_canonical_coefficients(shape, scales):
    image = np.random.default_rng(0).standard_normal(shape)
    double = CurveletOperator(shape, scales=scales)
    np.testing.assert_allclose(double @ double.analysis(image), image.ravel(), atol=1e-12)
    single = CurveletOperator(shape, scales=scales, dtype=np.float32)
    found = single @ single.analysis(image.astype(np.float32))
    assert found.dtype == np.float32
    assert np.abs(found - image.ravel()).max() <= 1e-6 * np.abs(image).max()


@pytest.mark.parametrize("shape", [(12, 12), (11, 13), (6, 5, 4)])
def test_the_frame_before_scaling_keeps_the_energy(shape):
    operator = CurveletOperator(shape)
    image = np.random.default_rng(1).standard_normal(operator.shape[0])
    frame = operator.norms * operator.rmatvec(image)
    np.testing.assert_allclose(np.sum(frame**2), np.sum(image**2), rtol=1e-12)


@pytest.mark.parametrize("shape", [(12, 12), (11, 13)])
def test_atoms_have_unit_norm_and_matvec_is_the_adjoint_of_rmatvec(shape):
    operator = CurveletOperator(shape)
    dense = operator @ np.eye(operator.shape[1])
    norms = np.linalg.norm(dense, axis=0)
    alive = operator.norms > 1e-8 * operator.norms.max()
    np.testing.assert_allclose(norms[alive], 1, atol=1e-10)
    np.testing.assert_array_equal(norms[~alive], 0)
    np.testing.assert_allclose(operator.rmatmat(np.eye(operator.shape[0])), dense.T, atol=1e-12)


def test_the_matrix_holds_the_operators_atoms():
    matrix = curvelet((12, 12))
    operator = curvelet((12, 12), operator=True)
    assert isinstance(matrix, np.ndarray)
    np.testing.assert_allclose(matrix, operator @ np.eye(operator.shape[1]), atol=1e-12)
    assert np.linalg.matrix_rank(matrix) == 144


def test_large_images_give_an_operator_and_small_ones_a_matrix():
    assert isinstance(curvelet((33, 33)), CurveletOperator)
    assert isinstance(curvelet((16, 16)), np.ndarray)
    assert curvelet((8, 8), dtype=np.float32).dtype == np.float32


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        (12, {}),
        ((12,), {}),
        ((0, 12), {}),
        ((12, 12), {"scales": 1}),
        ((12, 12), {"wedges": 4}),
        ((12, 12), {"wedges": 9}),
        ((12, 12), {"dtype": np.int32}),
        ((12, 12), {"wedges": 12, "scales": 4}),
    ],
)
def test_bad_input_is_named(shape, options):
    with pytest.raises(InvalidInputError):
        curvelet(shape, **options)
