"""Every knob of the server, with its unit, its default and what turning it does."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """How the server batches, bounds and names what it sends."""

    debounce_quiet_s: float = 0.1
    """A push waits until no change came for this long."""
    debounce_maximum_s: float = 10.0
    """... but never longer than this after the first change."""
    concurrent_pushes: int = 100
    """Clients being written to at once; more keeps more responses in memory."""
    slow_client_s: float = 1.0
    """A client that takes longer to read a push gives its place among them to the next one."""
    order_wait_s: float = 5.0
    """Listeners and routes wait until a client has asked for the endpoints of the clusters they
    may point to, and removed clusters stay until it has accepted the routes that no longer do;
    neither waits longer than this."""
    streams_per_second: float | None = None
    """New streams admitted per second; one beyond it waits up to `stream_wait_s`, and is then
    refused with RESOURCE_EXHAUSTED. None: no limit."""
    stream_wait_s: float = 1.0
    requests_per_second: float | None = None
    """Requests taken of one stream per second; a client that sends more is read more slowly.
    None: no limit."""
    first_request_within_s: float = 30.0
    """A stream that has not said who it is by then ends with DEADLINE_EXCEEDED."""
    hold_until_ack_s: float | None = None
    """With a value, a type's next push waits for the ACK of its last, at most this long."""
    max_message_bytes: int = 64 * 1024 * 1024
    """The largest message either way."""
    max_metadata_bytes: int = 1024 * 1024
    """The largest node a client may send."""
    max_subscribed_names: int = 200_000
    """The most names one stream may subscribe to in one type."""
    max_streams: int = 100_000
    """Concurrent streams of one connection."""
    keepalive_interval_s: float = 30.0
    """Silence after which a connection is pinged."""
    keepalive_timeout_s: float = 10.0
    """A ping unanswered for this long ends the connection."""
    max_connection_age_s: float | None = None
    """Connections older than this are asked to reconnect, which spreads load anew."""
    max_connection_age_grace_s: float = 10.0
    trim_memory_after_s: float | None = 10.0
    """When no client came or went and nothing was pushed for this long, what the allocator keeps of
    the memory of pushes and of clients that have gone is given back to the system (with glibc).
    None: never."""
    stop_grace_s: float = 1.0
    """At the end of serving, calls of other services have this long to finish."""
    identifier: str = field(default="xds-server")
    """What responses name as their control plane."""
