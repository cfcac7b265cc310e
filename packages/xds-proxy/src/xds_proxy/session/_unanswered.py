"""The responses that Envoy has not answered yet, of all types of one stream."""

from __future__ import annotations

from collections import deque

from xds_proxy.protocol._dialect import Response

_MOST_OF_A_TYPE = 256
_MOST_TYPES = 2048
_OLDER_BYTES = 8 * 1024 * 1024


class Sent:
    """A response that went to Envoy.

    generation: of the upstream stream that it came from; 0 for none. Negative for what Envoy got
        besides: resources of a response of that stream, such as a part of one that it refused.
    nonce: the control plane's. shown: the one that Envoy got.
    response: as the control plane sent it; None once it is not worth its memory.
    """

    __slots__ = ("generation", "nonce", "response", "shown", "size", "type_url", "version")

    def __init__(self, response: bytes, peeked: Response, *, generation: int, shown: str) -> None:
        self.type_url = peeked.type_url
        self.version = peeked.version
        self.nonce = peeked.nonce
        self.shown = shown
        self.generation = generation
        self.response: bytes | None = response
        self.size = len(response)


class Unanswered:
    """First in, first out for each type, as Envoy answers in order.

    A client that reads and never answers costs little: of a type 256 responses are known, and the
    content of those that newer ones have followed is kept up to 8 MiB, and of all up to `most`.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._types: dict[str, deque[Sent]] = {}
        self._with_content: dict[Sent, None] = {}
        self._bytes = 0

    @property
    def content_bytes(self) -> int:
        """The bytes of responses that are kept."""
        return self._bytes

    def of_type(self, type_url: str) -> deque[Sent]:
        """Return those of a type, the oldest first."""
        return self._types.get(type_url) or deque()

    def all(self) -> list[Sent]:
        """Return those of all types."""
        return [sent for of_type in self._types.values() for sent in of_type]

    def add(self, sent: Sent) -> None:
        """A response goes to Envoy."""
        of_type = self._types.get(sent.type_url)
        if of_type is None:
            if len(self._types) >= _MOST_TYPES:
                return  # Envoy asks for fewer, and answers nothing that it has not asked for
            of_type = self._types[sent.type_url] = deque()
        of_type.append(sent)
        if len(of_type) > _MOST_OF_A_TYPE:
            self._drop_content(of_type.popleft())
        self._with_content[sent] = None
        self._bytes += sent.size
        if self._bytes > _OLDER_BYTES:
            self._limit_content()

    def on_answer(self, type_url: str, nonce: str) -> list[Sent]:
        """Return the responses that a request with this nonce answers; its own is the last.

        Of several responses in a row, state of the world allows to answer the last one alone.
        """
        of_type = self._types.get(type_url)
        if not of_type:
            return []
        if of_type[0].shown != nonce and not any(sent.shown == nonce for sent in of_type):
            return []
        found = []
        while True:
            sent = of_type.popleft()
            found.append(sent)
            if self._with_content.pop(sent, sent) is None:
                self._bytes -= sent.size
            if sent.shown == nonce:
                return found

    def _limit_content(self) -> None:
        for sent in tuple(self._with_content):
            newest = self._types[sent.type_url][-1] is sent
            if self._bytes <= (self._most_bytes if newest else _OLDER_BYTES):
                if newest:
                    continue
                return
            self._drop_content(sent)

    def _drop_content(self, sent: Sent) -> None:
        if self._with_content.pop(sent, sent) is None:
            self._bytes -= sent.size
            sent.response = None
