"""The certificate in words is true: rounded the safe way, and no other dictionary breaks the promise."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from septum import certify, global_optimum
from septum.report import certificate_words
from septum.report.words import at_least, at_most


@given(st.floats(1e-9, 100))
@settings(max_examples=300)
def test_percentages_are_rounded_the_safe_way(percent):
    above, below = float(at_most(percent)[:-1]), float(at_least(percent)[:-1])
    assert above >= percent * (1 - 1e-9)
    assert below <= percent * (1 + 1e-9)
    assert above <= max(1.11 * percent, 1e-4)
    if percent >= 1e-3:
        assert below >= 0.89 * percent


@pytest.mark.parametrize(
    ("percent", "above", "below"),
    [
        (1.3, "1.3%", "1.3%"),
        (1.234, "1.3%", "1.2%"),
        (98.76, "99%", "98.7%"),
        (99.9987, "100%", "99.9987%"),
        (0, "0%", "0%"),
        (100, "100%", "100%"),
    ],
)
def test_percentages(percent, above, below):
    assert at_most(percent) == above
    assert at_least(percent) == below


def trial(seed, alpha=0.6):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(5, 4, 6))
    A, B = rng.normal(size=(4, 3)), rng.normal(size=(6, 3))
    A /= np.linalg.norm(A, axis=0)
    B /= np.linalg.norm(B, axis=0)
    codes = 0.4 * np.einsum("gi,tgv,vj->tij", A, X, B)
    return X, [A, B], codes, alpha


def promised(words):
    return float(re.search(r"more than ([\d.]+)%", words.headline).group(1)) / 100


@pytest.mark.parametrize("seed", range(5))
def test_nothing_beats_the_promise_not_even_the_optimum(seed):
    X, dictionaries, codes, alpha = trial(seed)
    certificate = certify(X, dictionaries, codes, alpha)
    words = certificate_words(certificate, alpha=alpha)
    best = global_optimum(X, alpha)
    floor = certificate.objective * (1 - promised(words))
    assert best.value >= floor
    # The promise is not idle: the optimum comes within the rounding of it, for the bound is exact here.
    assert best.value <= certificate.objective * (1 - 0.9 * promised(words))
    zero = 0.5 * np.sum(X**2)
    share = float(re.search(r"at least ([\d.]+)%", words.details[1]).group(1)) / 100
    assert (zero - certificate.objective) >= share * (zero - best.value) - 1e-9
    assert certificate.verdict in words.details[2]
    below = float(re.search(r"gets below ([\d.]+)\.", words.details[0]).group(1))
    assert below <= certificate.lower_bound * (1 + 1e-12)


def test_the_optimum_itself():
    X, *_, alpha = trial(0)
    best = global_optimum(X, alpha)
    words = certificate_words(certify(X, best.dictionaries, best.codes, alpha))
    assert words.attained > 99.99999
    assert "optimal" in words.details[2]
    assert "improvable" not in words.details[2]


def test_worse_than_nothing_is_said():
    X, dictionaries, codes, alpha = trial(1)
    words = certificate_words(certify(X, dictionaries, -10 * codes, alpha))
    assert "worse than no dictionary" in words.headline
    assert "more than" not in words.headline


def test_what_it_is_about_is_said():
    X, dictionaries, codes, alpha = trial(2)
    words = certificate_words(
        certify(X, dictionaries, codes, alpha), alpha=alpha, n_samples=5, centring="each patch's mean removed"
    )
    assert "the 5 patches it was computed from (each patch's mean removed), at α = 0.6" in words.caution
    assert "without noise" in words.caution


def test_large_scores_are_readable():
    X, dictionaries, codes, alpha = trial(3)
    words = certificate_words(certify(1e5 * X, dictionaries, 1e5 * codes, 1e5 * alpha))
    assert "e+" not in words.details[0]
