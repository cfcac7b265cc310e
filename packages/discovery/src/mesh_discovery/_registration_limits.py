"""The bounds of what proxies may register."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationLimits:
    """How many workloads may be registered, and how often new ones.

    As many as are allowed may come at once, as they do after a restart of the control plane; those
    that come and go after that are bounded a second.
    """

    of_identity: int = 1024
    in_all: int = 16384
    of_identity_per_s: float = 1.0
    in_all_per_s: float = 50.0


LIMITS = RegistrationLimits()
