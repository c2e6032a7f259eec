"""The identity, as a matrix and as an operator."""

import numpy as np
import pytest

from septum.dictionaries import identity
from septum.errors import InvalidInputError


def test_matrix_and_operator_are_the_identity():
    np.testing.assert_array_equal(identity((2, 3)), np.eye(6))
    operator = identity((40, 50), operator=True)
    x = np.random.default_rng(0).standard_normal((2000, 3))
    np.testing.assert_array_equal(operator @ x, x)
    np.testing.assert_array_equal(operator.rmatmat(x), x)


def test_bad_input_is_named():
    with pytest.raises(InvalidInputError):
        identity(-1)
