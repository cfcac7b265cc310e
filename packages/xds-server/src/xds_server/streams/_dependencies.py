"""The parts of a server that its connections use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import msgspec

from mesh_lifecycle import Clock
from xds_server._config import ServerConfig
from xds_server._errors import BadRequest
from xds_server.monitoring._observer import StreamObserver
from xds_server.pushing._write_room import WriteRoom
from xds_server.sources._answerer import Answerer
from xds_server.sources._generator import Generator
from xds_server.streams._kept_bytes import KeptBytes
from xds_server.streams._unserved import UnservedTypes
from xds_server.streams._work_share import WorkShare
from xds_server.streams.logs._stream_log import RefusalLog
from xds_server.streams.pushes._push_description import PushDescriptions

if TYPE_CHECKING:
    from xds_server.monitoring._metrics import Metrics

C = TypeVar("C")
K_contra = TypeVar("K_contra", contravariant=True)


class IsBehind(Protocol[K_contra]):
    """Tells whether there may be something newer than a connection was sent."""

    def __call__(self, connection: K_contra, /, *, pushing: bool) -> bool:
        """Return it; `pushing`: the connection has begun with the last push it was given."""
        ...


class OnRefusal(Protocol):
    """Called for a stream that ends for what its client asked."""

    def __call__(self, bad: BadRequest, peer: str, /, *, client: str | None = None) -> None:
        """Count and log it; peer: as `holder_of` names it."""
        ...


class Dependencies(msgspec.Struct, Generic[C], frozen=True, kw_only=True):
    """The parts of a server that its connections use."""

    generators: Mapping[str, Generator[C]]
    answerers: Mapping[str, Answerer[C]]
    config: ServerConfig
    clock: Clock
    metrics: Metrics
    version: Callable[[], str]
    observer: StreamObserver[C]
    write_room: WriteRoom
    descriptions: PushDescriptions
    unserved: UnservedTypes
    refusals: RefusalLog
    kept: KeptBytes
    on_refusal: OnRefusal
    work_share: WorkShare
