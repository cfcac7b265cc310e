"""A patch that could not be applied, and why; `_resources` decides which are."""

from dataclasses import dataclass

from envoy_config.plan.policies._patches import Patch


class PatchError(Exception):
    """A patch does not fit what it is for; the message completes the sentence `the value ...`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A patch that a resource was left without."""

    patch: Patch
    resource: str
    """The name of the resource."""
    reason: str
