"""The patches that proxies are served without, each reported once in the log."""

import logging
from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from envoy_config.patch._failures import Failure
from envoy_config.plan.policies._patches import Patch

log = logging.getLogger(__name__)


class FailedPatches:
    """Remembers failures for as long as their patches are there."""

    def __init__(self) -> None:
        self._found: dict[Patch, Failure] = {}
        self._logged: set[tuple[Patch, str]] = set()

    def note(self, resource: str, applied: Iterable[Patch], failures: Iterable[Failure]) -> None:
        """Take note of how patches went at a resource."""
        failed = {each.patch: each for each in failures}
        for patch in applied:
            known = self._found.get(patch)
            if known is not None and known.resource == resource and patch not in failed:
                del self._found[patch]
        for patch, failure in failed.items():
            self._found.setdefault(patch, failure)
            if (patch, failure.reason) not in self._logged:
                self._logged.add((patch, failure.reason))
                log.error(
                    "patch of an EnvoyFilter is left out",
                    extra={"patch": str(patch), "resource": resource, "reason": failure.reason},
                )

    def keep(self, live: AbstractSet[Patch]) -> None:
        """Forget the failures of all other patches."""
        self._found = {patch: each for patch, each in self._found.items() if patch in live}
        self._logged = {each for each in self._logged if each[0] in live}

    @property
    def all(self) -> tuple[Failure, ...]:
        """One failure of each patch that has some."""
        return tuple(self._found.values())
