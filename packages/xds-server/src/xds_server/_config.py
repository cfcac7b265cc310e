"""Every setting of the server, with its unit, its default and its consequence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mesh_lifecycle import check_fields
from xds_server.pushing._push_request import PushRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """How the server gathers changes, and the limits of streams, requests and responses."""

    debounce_quiet_s: float = 0.1
    """A push waits until no change came for this long."""
    debounce_maximum_s: float = 10.0
    """... but never longer than this after the first change."""
    debounce_incremental_maximum_s: float = 0.5
    """The same for `incremental` changes, such as those of endpoints only: they are gathered by
    themselves, so that neither kind keeps the other waiting."""
    concurrent_pushes: int = 100
    """Clients that are written to at once; more keep more responses in memory. A client that does
    not read takes one of these places for a short time only, and none once it is known."""
    concurrent_write_bytes: int = 64 * 1024 * 1024
    """Bytes of responses that are on their way at once to clients that read; a large response waits
    until less is. More keep more in memory, less make a push to clients far away take longer."""
    slow_client_s: float = 1.0
    """A client that takes longer to read a response counts as slow until it reads faster."""
    stalled_client_s: float = 5.0
    """A client that has read nothing of a response for this long is closed if there is no room for
    others, see `max_pending_write_bytes`. Less closes clients that are merely short of CPU."""
    send_timeout_s: float | None = 60.0
    """A client that has read nothing of a response for this long is closed, with a line in the log.
    None: never."""
    max_pending_write_bytes: int = 256 * 1024 * 1024
    """Bytes of responses that may wait for clients altogether, those that do not read included;
    beyond it, the clients are closed that have read nothing for longest, if for
    `stalled_client_s`.
    gRPC has a copy of each response, so that twice as much is in memory."""
    max_pending_write_bytes_per_identity: int = 48 * 1024 * 1024
    """The same for the clients of one identity that was proven, or of one peer (an IPv4 address, an
    IPv6 network of 64 bits, a process or another user) where none was. With as much, its further
    responses wait, and hold up no other client's. Less than `concurrent_write_bytes`, so that
    others always find room; one response more may be begun."""
    order_wait_s: float = 5.0
    """Listeners and routes wait until a client has asked for the endpoints of the clusters they
    may point to, the end of a push for the routes of new listeners, and what is removed stays until
    the client has accepted what no longer refers to it; none of them waits longer than this."""
    drain_time_s: float = 45.0
    """Removed clusters, their endpoints and removed routes stay for this long after a listener has
    changed, as the connections of the old one go on using them. At least the `--drain-time-s`
    of the Envoys served: less means failed requests, more means they are kept for longer."""
    streams_per_second: float | None = None
    """New streams admitted per second; one beyond it waits up to `stream_wait_s`, and is then
    refused with RESOURCE_EXHAUSTED. None: no limit."""
    stream_wait_s: float = 1.0
    requests_per_second: float | None = None
    """Requests taken of one stream per second; a client that sends more is read more slowly.
    None: no limit."""
    first_request_within_s: float = 30.0
    """A stream without a first request by then ends with DEADLINE_EXCEEDED."""
    hold_until_ack_s: float | None = None
    """With a value, a type's next push waits for the ACK of its last, at most this long."""
    max_message_bytes: int = 64 * 1024 * 1024
    """The largest response."""
    max_request_bytes: int = 16 * 1024 * 1024
    """The largest request, also of services that are served beside xDS; a larger one is refused
    with RESOURCE_EXHAUSTED, unread. A delta client that reconnects names all resources it has in
    one request: some 100 bytes each."""
    max_receiving_bytes: int = 128 * 1024 * 1024
    """Bytes of requests over 64 KiB that are being received, wait for their turn or are parsed,
    altogether, also those of services that are served beside xDS. Further ones wait until there is
    room for all of one; one that is larger comes alone. One that has room and sends less than 256
    KiB in five seconds loses its connection if others wait for it."""
    max_receiving_bytes_per_identity: int = 32 * 1024 * 1024
    """The same of one identity that a client certificate proves, or of one peer without one. Its
    further requests wait, and hold up no other's."""
    max_node_bytes: int = 1024 * 1024
    """The largest node a client may send; a larger one is refused with RESOURCE_EXHAUSTED, before
    it is parsed."""
    max_header_bytes: int = 64 * 1024
    """The largest headers of a call, all of them together; a caller's token is one of them."""
    max_subscribed_names: int = 200_000
    """The most names one stream may subscribe to in one type."""
    max_name_length: int = 4096
    """The most characters of one name that a client asks for: generators may keep what they know of
    names by these, and bound their number."""
    max_kept_bytes: int = 1024 * 1024 * 1024
    """The most memory for what clients say, altogether: the names that they subscribe to, the
    versions that they say they have, their nodes. It is estimated, with what is said of a name that
    no other client asks for: 140 000 names of 60 bytes are 70 MiB. Names that streams have in
    common count once. Beyond it, streams of the identity that has most end with
    RESOURCE_EXHAUSTED."""
    max_kept_bytes_per_identity: int = 256 * 1024 * 1024
    """The same of the clients of one identity, or of one peer where none was proven; a stream that
    goes over it ends with RESOURCE_EXHAUSTED, and the others go on."""
    max_kept_bytes_per_stream: int = 128 * 1024 * 1024
    """The same of one stream."""
    max_streams: int = 100_000
    """Concurrent streams of one connection."""
    keepalive_interval_s: float = 30.0
    """Silence after which a connection is pinged."""
    keepalive_timeout_s: float = 10.0
    """A ping unanswered for this long ends the connection."""
    max_connection_age_s: float | None = None
    """Connections older than this are asked to reconnect, which spreads load anew."""
    max_connection_age_grace_s: float = 10.0
    trim_memory_after_s: float | None = None
    """When no client came or went and nothing was pushed for this long, free memory of pushes and
    of clients that have gone is given back to the system (with glibc): `gc.collect()` and
    `malloc_trim`, for the whole process. None: never."""
    stop_grace_s: float = 1.0
    """At the end of serving, calls of other services have this long to finish."""
    reported_types: frozenset[str] = frozenset()
    """Types with which clients report something, and that have no generator: never answered."""
    identifier: str = "xds-server"
    """What responses name as their control plane, unless `control_plane` is set."""
    control_plane: Callable[[PushRequest | None], str] | None = None
    """Returns what the responses of a push name as their control plane (`control_plane.identifier`,
    any text, such as JSON that says why the push happens); None stands for answers to requests.
    Called once a push, not once a client, so its answer must not depend on anything else."""

    def __post_init__(self) -> None:
        check_fields(self)
