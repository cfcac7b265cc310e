"""Who was sent which secret, and said what to it.

Pure book-keeping over what is sent and received. A server that only knows "version 7 was
accepted" can't say which certificate an Envoy presents; this can, by its serial number.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from mesh_listening import PeerCredentials
from mesh_sds.secrets._envoy_secret import Label, contents_of
from xds_server import Client, ClientError, DeltaRequest, Response, SotwRequest, type_urls

# A client that says yes or no to nothing does not get to fill our memory.
_MOST_UNANSWERED = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """One state of a secret at one point of its way. at: seconds since the Unix epoch."""

    version: str
    serial: str | None
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One secret on one stream.

    sent: what went out last. accepted: what the subscriber said yes to last, so what it works
    with. refused and refusal: what it said no to since then, and its words.
    """

    name: str
    sent: Delivered | None = None
    accepted: Delivered | None = None
    refused: Delivered | None = None
    refusal: str | None = None

    @property
    def in_sync(self) -> bool:
        """Whether the subscriber works with what it was sent last."""
        return (self.sent and self.sent.version) == (self.accepted and self.accepted.version)


@dataclass(slots=True)
class _Stream:
    client: Client[PeerCredentials | None]
    names: set[str] = field(default_factory=set)
    sent: dict[str, Delivered] = field(default_factory=dict)
    accepted: dict[str, Delivered] = field(default_factory=dict)
    refused: dict[str, tuple[Delivered, str]] = field(default_factory=dict)
    delta: bool = False
    # Responses by their nonce, oldest first: what each held and what it took away.
    unanswered: dict[str, tuple[tuple[Label, ...], frozenset[str]]] = field(default_factory=dict)


class Ledger:
    """The book of one server; a `StreamObserver` of it."""

    def __init__(self, *, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._streams: dict[str, _Stream] = {}
        self._listeners: set[Callable[[str], None]] = set()
        self.refusals = 0
        """Responses refused, by streams that are gone too."""

    def opened(self, client: Client[PeerCredentials | None], /) -> None:
        """Begin a stream's page."""
        self._streams[client.id] = _Stream(client)

    def closed(self, client: Client[PeerCredentials | None], /) -> None:
        """Forget a stream."""
        del self._streams[client.id]
        self._tell(client.id)

    def sent(self, client: Client[PeerCredentials | None], response: Response, /) -> None:
        """Note what went out."""
        stream = self._streams[client.id]
        contents = contents_of(response.data, delta=stream.delta)
        now = self._now()
        for label in contents.secrets:
            stream.sent[label.name] = _delivered(label, now)
        for name in contents.removed:
            stream.sent.pop(name, None)
        stream.unanswered[contents.nonce] = (contents.secrets, contents.removed)
        if len(stream.unanswered) > _MOST_UNANSWERED:
            del stream.unanswered[next(iter(stream.unanswered))]
        self._tell(client.id)

    def received(
        self, client: Client[PeerCredentials | None], request: SotwRequest | DeltaRequest, /
    ) -> None:
        """Note what is asked for, and what was said to what went out."""
        if request.type_url != type_urls.SECRET:
            return
        stream = self._streams[client.id]
        self._note_names(stream, request)
        if request.error is not None:
            self.refusals += 1
        if (answered := _take(stream.unanswered, request.nonce)) is not None:
            _note_answer(stream, *answered, error=request.error, now=self._now())
        self._tell(client.id)

    def _note_names(self, stream: _Stream, request: SotwRequest | DeltaRequest) -> None:
        match request:
            case SotwRequest():
                # Never fewer before it leaves: a request that crossed a response on the wire has
                # no say over names, and one name too many costs nothing here.
                if request.names:
                    stream.names |= request.names
                else:
                    stream.names.clear()
            case DeltaRequest():
                stream.delta = True
                stream.names = (stream.names - request.unsubscribe) | request.subscribe
                for name in request.unsubscribe - request.subscribe:
                    stream.sent.pop(name, None)
                    stream.accepted.pop(name, None)
                    stream.refused.pop(name, None)

    def names(self) -> frozenset[str]:
        """Every name that some stream asks for."""
        return frozenset().union(*(stream.names for stream in self._streams.values()))

    def asks_for(self, client_id: str, names: Collection[str]) -> bool:
        """Whether a stream may want any of these; it may say so of more than it does want."""
        stream = self._streams.get(client_id)
        return stream is not None and not stream.names.isdisjoint(names)

    def owes_answer(self, client_id: str, versions: Mapping[str, str]) -> bool:
        """Whether a stream that wants one of these has said neither yes nor no to it yet."""
        stream = self._streams.get(client_id)
        if stream is None:
            return False
        return any(
            name in stream.names and not _answered(stream, name, version)
            for name, version in versions.items()
        )

    def credentials(self, client_id: str) -> PeerCredentials | None:
        """Return who the kernel says is behind a stream; None if it was not asked."""
        stream = self._streams.get(client_id)
        return None if stream is None else stream.client.context

    def deliveries(self, client_id: str) -> tuple[Delivery, ...]:
        """List the secrets of a stream, by name; those it waits for have nothing sent."""
        stream = self._streams.get(client_id)
        if stream is None:
            return ()
        nothing: tuple[None, None] = (None, None)
        return tuple(
            Delivery(
                name=name,
                sent=stream.sent.get(name),
                accepted=stream.accepted.get(name),
                refused=(no := stream.refused.get(name, nothing))[0],
                refusal=no[1],
            )
            for name in sorted(stream.names | stream.sent.keys())
        )

    @contextmanager
    def telling(self, listener: Callable[[str], None]) -> Iterator[None]:
        """While the context lasts, call `listener` with the id of each stream that moved on."""
        self._listeners.add(listener)
        try:
            yield
        finally:
            self._listeners.discard(listener)

    def _tell(self, client_id: str) -> None:
        for listener in tuple(self._listeners):
            listener(client_id)


def _note_answer(
    stream: _Stream,
    labels: tuple[Label, ...],
    removed: frozenset[str],
    *,
    error: ClientError | None,
    now: float,
) -> None:
    for label in labels:
        delivered = _delivered(label, now)
        if error is None:
            stream.accepted[label.name] = delivered
            stream.refused.pop(label.name, None)
        else:
            stream.refused[label.name] = (delivered, error.message)
    if error is None:
        for name in removed:
            stream.accepted.pop(name, None)
            stream.refused.pop(name, None)


def _take(
    unanswered: dict[str, tuple[tuple[Label, ...], frozenset[str]]], nonce: str
) -> tuple[tuple[Label, ...], frozenset[str]] | None:
    """Take out what `nonce` stands for, and what is older: that will not be answered any more."""
    if nonce not in unanswered:
        return None
    while True:
        oldest = next(iter(unanswered))
        contents = unanswered.pop(oldest)
        if oldest == nonce:
            return contents


def _answered(stream: _Stream, name: str, version: str) -> bool:
    accepted, refused = stream.accepted.get(name), stream.refused.get(name)
    return (accepted is not None and accepted.version == version) or (
        refused is not None and refused[0].version == version
    )


def _delivered(label: Label, at: float) -> Delivered:
    return Delivered(version=label.version, serial=label.serial, at=at)
