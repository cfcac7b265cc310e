"""The questions of one stream: which request asks something, and which one acknowledges."""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

from xds_server.protocol._request import DeltaRequest, SotwRequest


class Question(NamedTuple):
    """A request that is answered once."""

    type_url: str
    names: frozenset[str]


class Questions:
    """Finds the questions among requests; at most one waits for its answer.

    types: those that are asked, and not watched. nonce_prefix: how the nonces of this stream's
    responses begin. A client may send any other, as one that has no answer yet.
    """

    __slots__ = ("_answered", "_prefix", "_types", "waiting")

    def __init__(self, types: Container[str], *, nonce_prefix: str) -> None:
        self._types = types
        self._prefix = f"{nonce_prefix}-"
        # Hashes, as a client may ask for any number of names.
        self._answered: dict[str, int] = {}
        self.waiting: Question | None = None
        """The question that has no answer yet."""

    def take(self, request: SotwRequest | DeltaRequest) -> bool:
        """Take a request if its type is one that is asked; return whether it is."""
        if request.type_url not in self._types:
            return False
        names = frozenset(request.names if isinstance(request, SotwRequest) else request.subscribe)
        follows_answer = request.nonce.startswith(self._prefix)
        is_same = not names or hash(names) == self._answered.get(request.type_url)
        if request.error is None and not (follows_answer and is_same):
            self.waiting = Question(request.type_url, names)
        return True

    def pop(self) -> Question | None:
        """Return the question that waits, which is to be answered now."""
        question, self.waiting = self.waiting, None
        if question is not None:
            self._answered[question.type_url] = hash(question.names)
        return question
