"""scikit-learn's own checks, all of them."""

import os
import subprocess
import sys

import pytest
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import estimator_checks_generator

from septum import SeparableDictionaryLearning

ARRAY_API = "check_array_api_input"


def named(check):
    return getattr(check, "func", check).__name__


CHECKS = [check for _, check in estimator_checks_generator(SeparableDictionaryLearning(alpha=1.0))]


@pytest.mark.parametrize("check", [check for check in CHECKS if named(check) != ARRAY_API], ids=named)
def test_check_estimator(check):
    check(SeparableDictionaryLearning(alpha=1.0))


@pytest.mark.parametrize("name", ["check_transformer_get_feature_names_out", "check_set_output_transform"])
def test_checks_beyond_check_estimator(name):
    getattr(estimator_checks, name)("SeparableDictionaryLearning", SeparableDictionaryLearning(alpha=1.0))


def test_array_api_dispatch():
    """SciPy reads its switch when it is imported, so this check needs an interpreter of its own."""
    code = (
        "from sklearn.utils import estimator_checks as checks; from septum import SeparableDictionaryLearning as S\n"
        f"found = [check for _, check in checks.estimator_checks_generator(S(1.0)) if {ARRAY_API!r} in repr(check)]\n"
        "found[0](S(1.0)); print(len(found))"
    )
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, env=environment
    )
    assert (done.returncode, done.stdout.strip()) == (0, "1"), done.stderr
