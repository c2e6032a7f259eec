"""Bad input gets one clear error; awkward but valid input gets the same answer as tidy input.

The same list for every public function that takes samples: `certify`, `global_optimum`, `sparse_code`, and
the estimator's `fit`.
"""

import numpy as np
import pytest
from scipy import sparse

import septum
from septum import InvalidInputError, SeparableDictionaryLearning
from septum.errors import InvalidTypeError

SHAPE = (6, 4, 5)
ALPHA = 0.7


def samples():
    return np.random.default_rng(0).standard_normal(SHAPE)


def atoms():
    rng = np.random.default_rng(1)
    made = [rng.standard_normal((d, r)) for d, r in ((4, 3), (5, 2))]
    return [A / np.linalg.norm(A, axis=0) for A in made]


def codes():
    return np.random.default_rng(2).standard_normal((6, 3, 2))


def certify(X, alpha=ALPHA, mask=None):
    return septum.certify(X, atoms(), codes(), alpha, mask=mask).objective


def global_optimum(X, alpha=ALPHA):
    return septum.global_optimum(X, alpha).value


def sparse_code(X, alpha=ALPHA, mask=None):
    return septum.sparse_code(X, atoms(), alpha, mask=mask, tol=1e-9).codes.toarray()


def fit(X, alpha=ALPHA, mask=None):
    est = SeparableDictionaryLearning(alpha, n_atoms=(3, 2), max_iter=4, random_state=0)
    return est.fit(X, mask=mask).certificate_.objective


CALLS = [certify, global_optimum, sparse_code, fit]
MASKED = [certify, sparse_code, fit]
every = pytest.mark.parametrize("call", CALLS)
masked = pytest.mark.parametrize("call", MASKED)


# --- refused ----------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("X", [3.0, np.zeros(4), [1.0, 2.0]])
def test_wrong_rank(call, X):
    with pytest.raises(InvalidInputError, match="Expected 2D array"):
        call(X)


@pytest.mark.parametrize("call", [certify, sparse_code])
@pytest.mark.parametrize("shape", [(6, 4), (6, 4, 5, 2), (6, 5, 4), (6, 4, 6)])
def test_shapes_that_do_not_fit(call, shape):
    with pytest.raises(InvalidInputError, match="dictionaries"):
        call(np.ones(shape))


def test_the_closed_form_is_for_two_modes():
    with pytest.raises(InvalidInputError, match="one or two modes"):
        global_optimum(np.ones((2, 3, 3, 3)))


@every
@pytest.mark.parametrize("shape", [(0, 4, 5), (6, 0, 5), (6, 4, 0)])
def test_empty(call, shape):
    with pytest.raises(InvalidInputError, match="a minimum of 1 is required"):
        call(np.zeros(shape))


@every
@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_not_finite(call, value, word):
    X = samples()
    X[2, 1, 3] = value
    with pytest.raises(InvalidInputError, match=f"contains {word}.*mask"):
        call(X)


@every
def test_complex(call):
    with pytest.raises(InvalidInputError, match="Complex data not supported"):
        call(samples() + 0j)


@every
@pytest.mark.parametrize("X", [np.full(SHAPE, "a"), np.full(SHAPE, b"a"), np.full(SHAPE, {})])
def test_not_numbers(call, X):
    with pytest.raises((InvalidTypeError, InvalidInputError), match="X must"):
        call(X)


@every
def test_ragged(call):
    with pytest.raises(InvalidInputError, match="X must be an array of numbers"):
        call([[[1.0, 2.0]], [[1.0]]])


@every
def test_sparse_samples(call):
    with pytest.raises(InvalidTypeError, match=r"sparse.*toarray"):
        call(sparse.coo_array(samples()[:, :, 0]))


@every
@pytest.mark.parametrize("alpha", [0, -1, np.nan, np.inf, "1", None, [1.0], True, 1j])
def test_alpha(call, alpha):
    with pytest.raises(InvalidInputError, match="alpha must be"):
        call(samples(), alpha=alpha)


@masked
def test_a_fully_masked_sample(call):
    mask = np.ones(SHAPE, dtype=bool)
    mask[[1, 4]] = False
    with pytest.raises(InvalidInputError, match="every entry of sample 1 and of 1 more"):
        call(samples(), mask=mask)


@masked
@pytest.mark.parametrize("mask", [np.ones((6, 4), dtype=bool), True, np.ones((6, 5, 4), dtype=bool)])
def test_a_mask_of_another_shape(call, mask):
    with pytest.raises(InvalidInputError, match="mask has shape"):
        call(samples(), mask=mask)


@masked
def test_a_mask_of_weights(call):
    with pytest.raises(InvalidInputError, match="mask must be boolean"):
        call(samples(), mask=np.full(SHAPE, 0.5))


@masked
def test_not_finite_where_observed(call):
    X, mask = samples(), np.ones(SHAPE, dtype=bool)
    X[0, 0, 0], X[1, 1, 1], mask[0, 0, 0] = np.nan, np.nan, False
    with pytest.raises(InvalidInputError, match="NaN"):
        call(X, mask=mask)


@pytest.mark.parametrize("n_atoms", [0, (3, 0), (0, 0)])
def test_caps_of_zero(n_atoms):
    with pytest.raises(InvalidInputError, match="n_atoms must be a positive whole number"):
        SeparableDictionaryLearning(ALPHA, n_atoms=n_atoms).fit(samples())


@pytest.mark.parametrize(
    ("dictionaries", "message"),
    [
        ([np.ones((4, 3))], "1 dictionaries were given"),
        ([np.ones((4, 3)), np.ones(5)], r"dictionaries\[1\] must be"),
        ([np.ones((4, 3)), np.full((5, 2), np.nan)], "NaN"),
        (np.ones((4, 3)), "list"),
    ],
)
def test_dictionaries(dictionaries, message):
    with pytest.raises(InvalidInputError, match=message):
        septum.certify(samples(), dictionaries, codes(), ALPHA)
    with pytest.raises(InvalidInputError, match=message):
        septum.sparse_code(samples(), dictionaries, ALPHA)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (np.zeros((6, 2, 3)), "codes have shape"),
        (np.zeros((5, 3, 2)), "codes have shape"),
        (np.full((6, 3, 2), np.nan), "NaN"),
    ],
)
def test_codes(wrong, message):
    with pytest.raises(InvalidInputError, match=message):
        septum.certify(samples(), atoms(), wrong, ALPHA)


# --- accepted ---------------------------------------------------------------------------------------


@masked
def test_not_finite_where_masked(call):
    X, mask = samples(), np.ones(SHAPE, dtype=bool)
    mask[0, 0, :2] = mask[3, 2, 1] = False
    tidy = call(np.where(mask, X, 0.0), mask=mask)
    X[0, 0, 0], X[0, 0, 1], X[3, 2, 1] = np.nan, np.inf, -np.inf
    np.testing.assert_array_equal(call(X, mask=mask), tidy)
    np.testing.assert_array_equal(call(X, mask=mask.astype(np.uint8)), tidy)


@every
def test_integers(call):
    X = np.random.default_rng(0).integers(-3, 4, size=SHAPE)
    expected = call(X.astype(float))
    for kind in (np.int8, np.int64, ">i2"):
        np.testing.assert_array_equal(call(X.astype(kind)), expected)
    np.testing.assert_array_equal(call(X.tolist()), expected)
    np.testing.assert_array_equal(call(X.astype(object)), expected)
    binary = np.abs(X) > 1
    np.testing.assert_array_equal(call(binary), call(binary.astype(float)))


@every
def test_layout(call):
    """Fortran order, strides, read-only memory and foreign byte order change nothing."""
    X = samples()
    expected = call(X)
    padded = np.zeros((12, 4, 15))
    padded[::2, :, ::3] = X
    still = X.copy()
    still.flags.writeable = False
    for form in (np.asfortranarray(X), padded[::2, :, ::3], still, X[::-1][::-1], X.astype(X.dtype.newbyteorder())):
        np.testing.assert_allclose(call(form), expected, rtol=1e-12, atol=1e-12)


@every
@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f2", np.longdouble])
def test_other_floats(call, dtype):
    X = samples().astype(np.float16)
    np.testing.assert_allclose(call(X.astype(dtype)), call(X.astype(float)), rtol=1e-3, atol=1e-4)


@every
@pytest.mark.parametrize("scale", [1e-6, 1e6])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_scales(call, scale, dtype):
    """f(s X, s C; s alpha) = s^2 f(X, C; alpha)."""
    X = samples().astype(dtype)
    got, expected = call((scale * X).astype(dtype), alpha=scale * ALPHA), call(X)
    if call is certify:
        got = septum.certify(scale * X, atoms(), scale * codes(), scale * ALPHA).objective
    power = 1 if call is sparse_code else 2
    tolerance = 1e-6 if dtype == np.float64 and call is not fit else 1e-3
    np.testing.assert_allclose(got / scale**power, expected, rtol=tolerance, atol=tolerance)


@every
def test_no_variance(call):
    for X in (np.zeros(SHAPE), np.full(SHAPE, 2.0)):
        assert np.isfinite(call(X)).all()


@every
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 4, 5), (6, 1, 5), (6, 4, 1)])
def test_shapes_with_ones(call, shape):
    X = np.random.default_rng(0).standard_normal(shape)
    if call in (global_optimum, fit):
        assert np.isfinite(call(X))
        return
    thin = [A[:d] for A, d in zip(atoms(), shape[1:], strict=True)]
    found = septum.sparse_code(X, thin, ALPHA).codes
    assert np.isfinite(septum.certify(X, thin, found, ALPHA).gap)


def test_alpha_so_large_that_zero_is_optimal():
    X = samples()
    alpha = 1.5 * np.linalg.svd(X, compute_uv=False).max()
    zero = 0.5 * np.sum(X**2)
    assert global_optimum(X, alpha) == pytest.approx(zero)
    assert septum.global_optimum(X, alpha).rank == 0
    assert not sparse_code(X, alpha).any()
    certificate = septum.certify(X, atoms(), np.zeros((6, 3, 2)), alpha)
    assert (certificate.verdict, certificate.attainment) == ("optimal", 1.0)
    assert fit(X, alpha) == pytest.approx(zero)


# --- the caller's arrays ----------------------------------------------------------------------------


@masked
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32, ">f8"])
def test_the_callers_arrays_are_never_changed(call, dtype):
    X = (3 * samples()).astype(dtype)
    mask = np.random.default_rng(3).uniform(size=SHAPE) < 0.8
    if X.dtype.kind == "f":
        X[~mask] = np.nan
    before = X.tobytes(), mask.tobytes()
    call(X, mask=mask)
    assert (X.tobytes(), mask.tobytes()) == before


def test_given_dictionaries_and_codes_are_never_changed():
    X, given, C = samples(), [3 * A for A in atoms()], codes()
    sparse_codes = sparse.coo_array(C)
    arrays = [X, *given, C, sparse_codes.data, *sparse_codes.coords]
    before = [array.tobytes() for array in arrays]
    septum.certify(X, given, C, ALPHA)
    septum.certify(X, given, sparse_codes, ALPHA)
    septum.sparse_code(X, given, ALPHA, codes_init=sparse_codes)
    est = SeparableDictionaryLearning(ALPHA, init=given, max_iter=3, random_state=0).fit(X)
    est.partial_fit(X)
    est.transform(X)
    est.score(X)
    septum.global_optimum(X, ALPHA).codes  # noqa: B018
    assert [array.tobytes() for array in arrays] == before


def test_the_estimators_own_arrays_are_never_changed():
    X = samples()
    est = SeparableDictionaryLearning(ALPHA, max_iter=3, random_state=0).fit(X)
    arrays = [*est.dictionaries_, est.codes_.data]
    before = [array.tobytes() for array in arrays]
    est.transform(X)
    est.score(X)
    est.inverse_transform(est.codes_)
    assert [array.tobytes() for array in arrays] == before
