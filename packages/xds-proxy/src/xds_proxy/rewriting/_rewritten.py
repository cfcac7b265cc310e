"""The responses that rewriters have changed, as the control plane sent them.

A rewriter may have got the best of what it had, such as a filter in place of a module that could
not be fetched, and be able to do better later, when the control plane has nothing to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mesh_protowire import string_field
from xds_proxy.protocol._dialect import Dialect, Response
from xds_proxy.protocol._resources import Resource, removed_of, write_response


class Again(NamedTuple):
    """A response that is to be rewritten once more; its nonce is the agent's own."""

    raw: bytes
    peeked: Response


class RewrittenResponses:
    """Of one stream, what can be rewritten again.

    In state of the world that is the newest response of a type, in delta each resource.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._responses: dict[str, Again] = {}
        self._resources: dict[str, dict[str, tuple[Resource, Response]]] = {}
        self._count = 0

    def note(
        self,
        raw: bytes,
        peeked: Response,
        resources: Sequence[Resource],
        changed: Sequence[bool],
    ) -> None:
        """A response was rewritten. changed: for each resource, whether it was."""
        type_url = peeked.type_url
        if not self._dialect.resources_are_wrapped:
            if any(changed):
                self._responses[type_url] = Again(raw, peeked)
            else:
                self._responses.pop(type_url, None)
            return
        known = self._resources.setdefault(type_url, {})
        for resource, has_changed in zip(resources, changed, strict=True):
            if has_changed:
                known[resource.name] = resource, peeked
            elif resource.body:
                known.pop(resource.name, None)
        for name in removed_of(self._dialect, raw):
            known.pop(name, None)
        if not known:
            del self._resources[type_url]

    def again(self, type_url: str, name: str) -> Again | None:
        """Return the response with a resource; None if there is nothing to rewrite."""
        self._count += 1
        nonce = f"rewritten-{self._count}"
        if not self._dialect.resources_are_wrapped:
            if (found := self._responses.get(type_url)) is None:
                return None
            # The last occurrence of a field is the one that counts.
            raw = found.raw + string_field(self._dialect.response_nonce, nonce)
            return Again(raw, _with_nonce(found.peeked, nonce))
        kept = self._resources.get(type_url, {}).get(name)
        if kept is None:
            return None
        resource, peeked = kept
        raw = write_response(
            self._dialect,
            type_url=type_url,
            version=peeked.version,
            nonce=nonce,
            resources=[resource],
        )
        return Again(raw, _with_nonce(peeked, nonce))


def _with_nonce(peeked: Response, nonce: str) -> Response:
    return Response(
        type_url=peeked.type_url,
        version=peeked.version,
        nonce=nonce,
        control_plane=peeked.control_plane,
    )
