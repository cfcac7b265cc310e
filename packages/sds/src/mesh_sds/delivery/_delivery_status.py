"""The delivery status: which secret each stream was sent, and which it accepted or refused.

Pure book-keeping over sent responses and received requests. With the versions alone a server can't
tell which certificate an Envoy presents; the delivery status can, by the serial number.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager

import msgspec
from msgspec.structs import replace

from mesh_listening import PeerCredentials
from mesh_sds.secrets._envoy_secret import SecretResource
from xds_server import (
    Client,
    ClientError,
    DeltaRequest,
    Resource,
    Response,
    SotwRequest,
    type_urls,
)

# The memory for a client that acknowledges nothing is bounded by this.
_MOST_UNANSWERED = 32


class Delivered(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a secret that was sent, accepted or refused.

    version: a hash of the content. serial: of the leaf, hexadecimal; None for a trust bundle. at:
    when it was sent, accepted or refused, in seconds since the Unix epoch.
    """

    version: str
    serial: str | None
    at: float


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """One secret on one stream.

    sent: the version that was sent last. accepted: the version that the subscriber acknowledged
    last, so the one it works with. refused and refusal: the version that it has refused since then,
    and its error message.
    """

    name: str
    sent: Delivered | None = None
    accepted: Delivered | None = None
    refused: Delivered | None = None
    refusal: str | None = None

    @property
    def in_sync(self) -> bool:
        """Return whether the subscriber works with the version that it was sent last."""
        return (self.sent and self.sent.version) == (self.accepted and self.accepted.version)


class _Unanswered(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a response, without its bytes: there may be megabytes of them."""

    secrets: Mapping[str, Delivered]
    removed: frozenset[str]


class _Stream(msgspec.Struct):
    client: Client[PeerCredentials | None]
    names: set[str] = msgspec.field(default_factory=set)
    sent: dict[str, Delivered] = msgspec.field(default_factory=dict)
    accepted: dict[str, Delivered] = msgspec.field(default_factory=dict)
    refused: dict[str, tuple[Delivered, str]] = msgspec.field(default_factory=dict)
    unanswered: dict[str, _Unanswered] = msgspec.field(
        default_factory=dict
    )  # by nonce, oldest first


class DeliveryStatus:
    """The delivery status of all streams of a server; its `ClientObserver`."""

    def __init__(self, *, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._streams: dict[str, _Stream] = {}
        self._listeners: set[Callable[[str], None]] = set()
        self.refusals = 0
        """Responses refused, by streams that are gone too."""

    def on_open(self, client: Client[PeerCredentials | None], /) -> None:
        """Begin with an empty status for a new stream."""
        self._streams[client.id] = _Stream(client)

    def on_close(self, client: Client[PeerCredentials | None], /) -> None:
        """Forget a stream."""
        del self._streams[client.id]
        self._notify(client.id)

    def on_response(self, client: Client[PeerCredentials | None], response: Response, /) -> None:
        """Note a response that was sent."""
        stream = self._streams[client.id]
        now = self._now()
        secrets = {name: _delivered(each, now) for name, each in response.resources.items()}
        stream.sent |= secrets
        for name in response.removed:
            stream.sent.pop(name, None)
        stream.unanswered[response.nonce] = _Unanswered(secrets=secrets, removed=response.removed)
        if len(stream.unanswered) > _MOST_UNANSWERED:
            del stream.unanswered[next(iter(stream.unanswered))]
        self._notify(client.id)

    def on_request(
        self, client: Client[PeerCredentials | None], request: SotwRequest | DeltaRequest, /
    ) -> None:
        """Note the names in a request, and the response that it acknowledges or refuses."""
        if request.type_url != type_urls.SECRET:
            return
        stream = self._streams[client.id]
        _note_names(stream, request)
        if request.error is not None:
            self.refusals += 1
        if (answered := _pop_answered(stream.unanswered, request.nonce)) is not None:
            _note_answer(stream, answered, error=request.error, now=self._now())
        self._notify(client.id)

    def names(self) -> frozenset[str]:
        """Return every name that a stream asks for."""
        return frozenset().union(*(stream.names for stream in self._streams.values()))

    def may_want(self, client_id: str, names: Collection[str]) -> bool:
        """Return whether a stream may ask for any of these names.

        A name that the stream has given up may still count; a name that it asks for always does.
        """
        stream = self._streams.get(client_id)
        return stream is not None and not stream.names.isdisjoint(names)

    def is_unanswered(self, client_id: str, versions: Mapping[str, str]) -> bool:
        """Return whether a stream has yet to accept or refuse one of these versions.

        Versions are by name; names that the stream does not ask for don't count.
        """
        stream = self._streams.get(client_id)
        if stream is None:
            return False
        return any(
            name in stream.names and not _is_answered(stream, name, version)
            for name, version in versions.items()
        )

    def credentials(self, client_id: str) -> PeerCredentials | None:
        """Return the credentials of a stream's process; None if the kernel was not asked."""
        stream = self._streams.get(client_id)
        return None if stream is None else stream.client.context

    def deliveries(self, client_id: str) -> tuple[Delivery, ...]:
        """Return the secrets of a stream, by name; those that it waits for have nothing sent."""
        stream = self._streams.get(client_id)
        if stream is None:
            return ()
        nothing: tuple[None, None] = (None, None)
        return tuple(
            Delivery(
                name=name,
                sent=stream.sent.get(name),
                accepted=stream.accepted.get(name),
                refused=(refusal := stream.refused.get(name, nothing))[0],
                refusal=refusal[1],
            )
            for name in sorted(stream.names | stream.sent.keys())
        )

    @contextmanager
    def listener(self, listener: Callable[[str], None]) -> Iterator[None]:
        """Call `listener` with the id of each stream whose status changed, in this context."""
        self._listeners.add(listener)
        try:
            yield
        finally:
            self._listeners.discard(listener)

    def _notify(self, client_id: str) -> None:
        for listener in tuple(self._listeners):
            listener(client_id)


def _note_names(stream: _Stream, request: SotwRequest | DeltaRequest) -> None:
    match request:
        case SotwRequest():
            # A request that crossed a response on the wire may hold fewer names than the client
            # asks for, so names are only added. A name too many does no harm here.
            if request.names:
                stream.names |= request.names
            else:
                stream.names.clear()
        case DeltaRequest():
            stream.names = (stream.names - request.unsubscribe) | request.subscribe
            for name in request.unsubscribe - request.subscribe:
                stream.sent.pop(name, None)
                stream.accepted.pop(name, None)
                stream.refused.pop(name, None)


def _note_answer(
    stream: _Stream, answered: _Unanswered, *, error: ClientError | None, now: float
) -> None:
    for name, sent in answered.secrets.items():
        delivered = replace(sent, at=now)
        if error is None:
            stream.accepted[name] = delivered
            stream.refused.pop(name, None)
        else:
            stream.refused[name] = (delivered, error.message)
    if error is None:
        for name in answered.removed:
            stream.accepted.pop(name, None)
            stream.refused.pop(name, None)


def _pop_answered(unanswered: dict[str, _Unanswered], nonce: str) -> _Unanswered | None:
    """Remove and return the response of `nonce`, and forget older ones: no answer will come."""
    if nonce not in unanswered:
        return None
    while True:
        oldest = next(iter(unanswered))
        contents = unanswered.pop(oldest)
        if oldest == nonce:
            return contents


def _is_answered(stream: _Stream, name: str, version: str) -> bool:
    accepted, refused = stream.accepted.get(name), stream.refused.get(name)
    return (accepted is not None and accepted.version == version) or (
        refused is not None and refused[0].version == version
    )


def _delivered(resource: Resource, at: float) -> Delivered:
    serial = resource.serial if isinstance(resource, SecretResource) else None
    return Delivered(version=resource.version, serial=serial, at=at)
