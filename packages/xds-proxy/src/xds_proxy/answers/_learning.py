"""Reading what was in the responses that Envoy answered, without holding up the event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Protocol

from mesh_protowire import WireError
from xds_proxy.protocol._dialect import Dialect
from xds_proxy.session._held import Contents, contents_of
from xds_proxy.session._outcomes import Answered
from xds_proxy.session._session import Session

_SMALL_BYTES = 128 * 1024

OnContents = Callable[[Answered, Mapping[str, str]], None]
"""Called with an answered response and the resources in it that were refused, with the reasons."""


class AcceptedResponses(Protocol):
    """Is given the responses that Envoy accepted, such as to save them."""

    def on_acceptance(
        self,
        *,
        node: bytes,
        dialect: Dialect,
        type_url: str,
        response: bytes,
        keep: Callable[[], frozenset[str] | None],
        whole: bool,
        refused_names: frozenset[str],
    ) -> None:
        """Envoy has what is in a response, besides the resources that it refused.

        Called on the event loop, in the order of Envoy's answers of a type: it must be quick. Only
        for the stream that leads.

        node: Envoy's serialised node. response: as the control plane sent it, before any rewriter.
        keep: called later, returns the names of the type's resources that Envoy has use for; None
            for all. whole: the response has all resources of its type.
        refused_names: of resources in the response that Envoy does not have in this version, as the
            text of the refusal says. A response that was refused is given only if it names them,
            and Envoy has the others.
        """


async def names_on_the_way(
    dialect: Dialect, responses: Sequence[tuple[str, bytes | None]]
) -> Mapping[str, AbstractSet[str] | None]:
    """Return the resources in responses, by type URL; None for a type that can't be read.

    responses: the type of each one and its content, None if it is not known any more.
    """
    if sum(len(content or b"") for _, content in responses) > _SMALL_BYTES:
        return await asyncio.to_thread(_names, dialect, responses)
    return _names(dialect, responses)


def _names(
    dialect: Dialect, responses: Sequence[tuple[str, bytes | None]]
) -> Mapping[str, AbstractSet[str] | None]:
    names: dict[str, set[str] | None] = {}
    for type_url, content in responses:
        of_type = names.setdefault(type_url, set())
        try:
            if content is None or of_type is None:
                names[type_url] = None
            else:
                versions, removed = contents_of(dialect, content, "")
                of_type.update(versions, removed)
        except WireError:
            names[type_url] = None
    return names


class Learning:
    """Tells a session what was in answered responses, of each type in order.

    Small responses are read at once. A large one is read in a thread, and those behind it wait.
    """

    def __init__(self, session: Session, on_contents: OnContents) -> None:
        self._session = session
        self._on_contents = on_contents
        self._waiting: deque[Answered] = deque()
        self._some = asyncio.Event()
        self._none = asyncio.Event()
        self._none.set()

    def add(self, answered: Answered) -> None:
        """A response was answered."""
        if self._waiting or answered.sent.size > _SMALL_BYTES:
            self._waiting.append(answered)
            self._none.clear()
            self._some.set()
        else:
            self._learn(answered, self._read(answered))

    async def wait_settled(self) -> None:
        """Wait until every answered response has been read."""
        await self._none.wait()

    async def run(self) -> None:
        """Read large responses; runs until it is cancelled."""
        while True:
            await self._some.wait()
            self._some.clear()
            while self._waiting:
                answered = self._waiting[0]
                contents = await asyncio.to_thread(self._read, answered)
                self._waiting.popleft()
                self._learn(answered, contents)
            self._none.set()

    def _read(self, answered: Answered) -> Contents | None:
        sent = answered.sent
        if sent.response is None:
            return None
        try:
            return contents_of(self._session.dialect, sent.response, sent.version)
        except WireError:
            return None  # Envoy has decided over it; the index lacks what is in it

    def _learn(self, answered: Answered, contents: Contents | None) -> None:
        reasons = {} if contents is None else self._session.learn(answered, contents)
        self._on_contents(answered, reasons)
