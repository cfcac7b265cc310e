"""Parts of a response that the control plane sent: for Envoy to take one by one; pure.

Envoy refuses a response with routes or endpoints as a whole when one resource in it is bad, and
leaves off at that one without naming it. Given in parts, the good ones are in force, and it is
known which one is bad.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from xds_proxy.protocol._dialect import Dialect
from xds_proxy.protocol._resources import Resource, write_response

_ENVOY = "type.googleapis.com/envoy.config."
GIVEN_BY_NAME = frozenset(
    {
        _ENVOY + "route.v3.RouteConfiguration",
        _ENVOY + "endpoint.v3.ClusterLoadAssignment",
        _ENVOY + "core.v3.TypedExtensionConfig",
    }
)
"""The types of which a response may have some resources, and says nothing of the others."""

_PARTS = 8
_PREFIX = "part-of-"


class Group(NamedTuple):
    """Resources that go to Envoy in one response. removed: names, for delta alone.

    is_last_good: they are of an earlier response, and in the place of a refused one.
    """

    resources: tuple[Resource, ...]
    removed: tuple[str, ...] = ()
    is_last_good: bool = False

    @property
    def bodies(self) -> Mapping[str, bytes]:
        """Body by name."""
        return {each.name: each.body for each in self.resources}


class Parts:
    """The parts of one refused response; synchronous, does no I/O.

    version: the response's. generation: of the upstream stream that sent it.
    """

    def __init__(self, *, version: str, generation: int) -> None:
        self.version = version
        self.generation = generation
        self.found: dict[str, str] = {}
        """The bad resources, with the reasons."""
        self.versions: Mapping[str, str] = {}
        """Of all resources of the response."""
        self.digest = b""
        self._waiting: deque[Group] = deque()
        self._renewed: set[str] = set()
        self._begun = False
        self._unanswered = 0

    def begin(self, resources: Iterable[Resource], known: Collection[str] = ()) -> None:
        """The resources are known. known: those of them that were bad before."""
        every = tuple(resources)
        self._begun = True
        self.digest = digest_of(every)
        self.versions = {each.name: each.version or self.version for each in every}
        others = tuple(each for each in every if each.name not in known)
        if len(others) == len(every):
            self._divide(every)
            return
        self._waiting.append(Group(others))
        self._waiting.extend(Group((each,)) for each in every if each.name in known)

    @property
    def finished(self) -> bool:
        """Whether Envoy has answered every part."""
        return self._begun and not self._waiting and not self._unanswered

    def next(self) -> Group | None:
        """Return what Envoy gets next; None if nothing waits."""
        while self._waiting:
            group = self._waiting.popleft()
            left = tuple(each for each in group.resources if each.name not in self._renewed)
            if left:
                self._unanswered += 1
                return group._replace(resources=left)
        return None

    def on_ack(self) -> None:
        """Envoy accepted a part, or can no longer get it."""
        self._unanswered -= 1

    def on_nack(self, group: Group, reason: str) -> Resource | None:
        """Envoy refused a part. Returns the bad resource, or None: smaller parts are next."""
        self._unanswered -= 1
        if len(group.resources) > 1:
            self._divide(group.resources)
            return None
        (bad,) = group.resources
        if group.is_last_good:
            return None
        self.found[bad.name] = reason
        return bad

    def give(self, resource: Resource) -> None:
        """Have Envoy get the last good version of a refused resource."""
        self._waiting.append(Group((resource,), is_last_good=True))

    def renew(self, names: Iterable[str]) -> None:
        """A newer response has resources of these names, so the older ones are not sent again."""
        self._renewed.update(names)

    def _divide(self, resources: Sequence[Resource]) -> None:
        size = max(1, -(-len(resources) // _PARTS))
        for start in range(0, len(resources), size):
            self._waiting.append(Group(tuple(resources[start : start + size])))


def digest_of(resources: Iterable[Resource]) -> bytes:
    """Return a digest of the resources of a response."""
    whole = hashlib.sha256()
    for each in resources:
        whole.update(f"{len(each.name)} {len(each.body)} {each.name}".encode())
        whole.update(each.body)
    return whole.digest()


def write_part(dialect: Dialect, group: Group, *, type_url: str, version: str, nonce: str) -> bytes:
    """Return a part as a response.

    In state of the world its version is none of the control plane's, which would otherwise think
    that Envoy has all of a response. In delta each resource has its own.
    """
    return write_response(
        dialect,
        type_url=type_url,
        version=_PREFIX + version,
        nonce=nonce,
        resources=group.resources,
        removed=group.removed,
    )


def with_last_good(
    resources: Iterable[Resource], bad: Collection[str], good: Mapping[str, Resource]
) -> tuple[Resource, ...]:
    """Return the resources of a response with the last good ones in the place of bad ones.

    A bad one of which there is no good one is left out.
    """
    changed = (good.get(each.name) if each.name in bad else each for each in resources)
    return tuple(each for each in changed if each is not None)
