"""The adapter: makes a response's resources such that the Envoy can take them, and counts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from mesh_protowire import WireError, type_name
from xds_adapter._adaptation import Action, Adaptation, Change
from xds_adapter._extension_fields import RESOURCES
from xds_adapter._extensions import Extensions, read_extensions
from xds_adapter._private import is_istios_own
from xds_adapter._walk import Walk

log = logging.getLogger("xds_adapter")

_IN_A_THREAD_BYTES = 64 * 1024
_MAX_NODES = 8
_MAX_CHANGES = 256
_LARGEST_RESOURCE_BYTES = 64 * 1024 * 1024


class Adapter:
    """Takes out or translates what an Envoy would refuse, and counts it.

    It is a rewriter of `xds_proxy`. For one event loop; it does no I/O.
    """

    def __init__(self) -> None:
        self._nodes: dict[bytes, Extensions | None] = {}
        self._counts: dict[Change, int] = {}
        self._untouched_reasons: set[str] = set()

    @property
    def adaptations(self) -> tuple[Adaptation, ...]:
        """The kinds of changes applied so far, in the order of the first time."""
        return tuple(Adaptation(*change, count) for change, count in self._counts.items())

    def concerns(self, node: bytes, type_url: str) -> bool:
        """Return whether resources of this type may have to be adapted for this Envoy.

        node: its serialised `envoy.config.core.v3.Node`. It is not concerned if the node does not
        list its extensions with their types, or if it is Istio's own Envoy.
        """
        return type_name(type_url) in RESOURCES and self._extensions(node) is not None

    async def rewrite(self, node: bytes, type_url: str, bodies: Sequence[bytes]) -> Sequence[bytes]:
        """Return the resources for this Envoy; those that need no change as the same objects.

        bodies: serialised `google.protobuf.Any`s. One that is damaged comes back as it is.
        """
        extensions = self._extensions(node)
        if extensions is None or type_name(type_url) not in RESOURCES:
            return bodies
        if sum(map(len, bodies)) > _IN_A_THREAD_BYTES:
            adapted, changes = await asyncio.to_thread(_adapted, extensions, bodies)
        else:
            adapted, changes = _adapted(extensions, bodies)
        for change in changes:
            self._note(change, type_url)
        return adapted

    def _extensions(self, node: bytes) -> Extensions | None:
        if node in self._nodes:
            return self._nodes[node]
        found = read_extensions(node)
        if found is not None and is_istios_own(found):
            found = None
        while len(self._nodes) >= _MAX_NODES:
            del self._nodes[next(iter(self._nodes))]
        self._nodes[node] = found
        return found

    def _note(self, change: Change, type_url: str) -> None:
        count = self._counts.get(change, 0)
        if not count and len(self._counts) >= _MAX_CHANGES:
            return
        self._counts[change] = count + 1
        if count:
            return
        facts = {"extension": change.extension, "type_url": type_url}
        if change.lost:
            facts["lost"] = change.lost
        level = logging.WARNING if change.lost else logging.INFO
        log.log(level, _MESSAGES[change.action], extra=facts)


_MESSAGES = {
    Action.REMOVED: "configuration adapted: an extension that this Envoy lacks was removed",
    Action.TRANSLATED: "configuration adapted: an extension was translated for this Envoy",
    Action.DENIED: "configuration adapted: this Envoy lacks an extension that decides about access",
    Action.LEFT: "configuration not adapted: this Envoy lacks an extension",
}


def _adapted(
    extensions: Extensions, bodies: Sequence[bytes]
) -> tuple[Sequence[bytes], list[Change]]:
    adapted, changes = [], []
    for body in bodies:
        new, of_body = adapt(extensions, body)
        adapted.append(new)
        changes += of_body
    return adapted, changes


def adapt(extensions: Extensions, body: bytes) -> tuple[bytes, list[Change]]:
    """Return a resource for an Envoy with these extensions, and what was changed.

    body: a serialised `google.protobuf.Any`. The same object comes back if nothing was changed, as
    it does if the resource is damaged: Envoy is then the one to say so.
    """
    if len(body) > _LARGEST_RESOURCE_BYTES:
        return body, []
    walk = Walk(extensions)
    try:
        return walk.resource(body), walk.changes
    except WireError:
        return body, []
