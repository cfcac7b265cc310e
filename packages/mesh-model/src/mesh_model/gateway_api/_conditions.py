"""The conditions in the status of Gateway API objects.

Nothing is written to a cluster: they are shown by the control plane itself.
"""

from collections.abc import Iterator
from typing import NamedTuple


class Condition(NamedTuple):
    """One condition: whether it is met, and why not or why so."""

    type: str
    status: bool
    reason: str
    message: str = ""


class ParentStatus(NamedTuple):
    """How a route stands with one of its parents; number: of the parentRef among them."""

    number: int
    parent: str
    conditions: tuple[Condition, ...]


class ListenerStatus(NamedTuple):
    """How a listener of a Gateway stands."""

    name: str
    attached_routes: int
    supported_kinds: tuple[str, ...]
    conditions: tuple[Condition, ...]


class ObjectStatus(NamedTuple):
    """How an object stands: itself, by parent if it is a route, by listener if it is a Gateway."""

    kind: str
    namespace: str
    name: str
    conditions: tuple[Condition, ...] = ()
    parents: tuple[ParentStatus, ...] = ()
    listeners: tuple[ListenerStatus, ...] = ()


def unmet(conditions: tuple[Condition, ...]) -> Iterator[Condition]:
    """Yield the conditions under which something is not served as configured."""
    return (each for each in conditions if each.status is (each.type == "Conflicted"))
