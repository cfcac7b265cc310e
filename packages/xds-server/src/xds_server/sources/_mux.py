"""One type from several generators, chosen by client."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from xds_server.protocol._watch import Watch
from xds_server.pushing._push_request import PushRequest
from xds_server.sources._generated import Generated
from xds_server.sources._generator import Client, Generator

C = TypeVar("C")


class Mux(Generic[C]):
    """A generator that uses the one `choose` names; without one of that name it has nothing."""

    def __init__(
        self, sources: Mapping[str, Generator[C]], *, choose: Callable[[Client[C], str], str]
    ) -> None:
        self._sources = sources
        self._choose = choose

    def generate(
        self, client: Client[C], watch: Watch, push: PushRequest | None, /
    ) -> Generated | None:
        source = self._sources.get(self._choose(client, watch.type_url))
        return None if source is None else source.generate(client, watch, push)
