"""Settings of the whole suite: a moderate Hypothesis profile, the same examples on every run in CI."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "septum",
    max_examples=20,
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("septum")
