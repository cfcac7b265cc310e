"""Hypothesis checks the results of examples, not how long this machine took for them."""

from __future__ import annotations

from functools import cache

_PROFILE = "mesh"


@cache
def give_examples_time() -> None:
    """Let no example of Hypothesis fail for being slow; what else is set stays as it is."""
    from hypothesis import HealthCheck, settings

    before = settings()
    settings.register_profile(
        _PROFILE,
        before,
        deadline=None,
        suppress_health_check=[*before.suppress_health_check, HealthCheck.too_slow],
    )
    settings.load_profile(_PROFILE)
