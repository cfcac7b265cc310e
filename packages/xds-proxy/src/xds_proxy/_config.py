"""The relay's configuration: where Envoy connects, and how the control plane is reached."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from mesh_identity import SystemRoots
from mesh_lifecycle import check_fields
from mesh_listening import UNIX_LIMITS, ConnectionLimits
from xds_proxy._errors import ConfigError

_HEADER_NAME = re.compile(r"[0-9a-z_.-]+\Z")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]*\Z")

MAX_STREAMS = 4
"""More than Envoys are ever started on purpose: it bounds what a misbehaving client can cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A host (a name, an IPv4 or a bare IPv6 address) and a port."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read `host:port` or `[IPv6]:port`.

        Raises:
            ConfigError: it is neither.
        """
        host, colon, port = text.rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        bare = host[1:-1] if bracketed else host
        if (
            not colon
            or not bare
            or (":" in bare) != bracketed
            or not port.isascii()
            or not port.isdigit()
        ):
            raise ConfigError(
                f"control plane address {text!r} is not host:port"
                " (for example istiod.istio-system.svc:15012)"
            )
        if not 0 < int(port) < 65536:
            raise ConfigError(f"control plane address {text!r}: port must be between 1 and 65535")
        return cls(host=bare, port=int(port))


def address_fault(text: str) -> str | None:
    """Return why a text is no control plane's address; None if it is one."""
    try:
        Address.parse(text)
    except ConfigError as error:
        return str(error)
    return None


class FurtherAddress(NamedTuple):
    """An address that is used while those before it can't be.

    address: `host:port`; IPv6 in brackets.
    server_name: the name that the certificate there must bear; None: the host of `address`.
    """

    address: str
    server_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamConfig:
    """How to reach the control plane.

    address: `host:port`; IPv6 in brackets. A name is resolved for each connection, and all its
        addresses are tried, the next one a quarter of a second after the one before.
    further_addresses: control planes of the same mesh that are used, in this order, while those
        before can't be reached or do not answer. Roots, token and certificate are the same for all.
    root_certificate: PEM file with the roots that the control plane's certificate must chain to,
        read again for every stream; `SYSTEM` for the operating system's roots; None for plaintext.
    server_name: the name the control plane's certificate must bear; None: the host of `address`.
    server_name_setting: the name of the user's setting for `server_name`, for the error text when
        the certificate has another name.
    token_path: file with the bearer token, read again for every stream; None sends none. Never sent
        in plaintext.
    client_certificate_path, client_key_path: PEM files, chain leaf first, shown to the control
        plane when both exist; read again for every stream. None shows none.
    metadata: further gRPC metadata for every stream; names are lower-cased.
    connect_timeout_s: how long a connection may take: name, addresses and handshake together, for
        each of `address` and `further_addresses`.
    answer_timeout_s: a control plane that has not answered for this long after the first request
        of a stream is given up if there is another; if not, the log says it.
    keepalive_s: how long a connection is quiet before the control plane is asked for a sign of
        life; it has 10 s to give it. Twice as long, and so on, beside one to which that is too
        often.
    """

    address: str
    root_certificate: Path | SystemRoots | None
    further_addresses: tuple[FurtherAddress, ...] = ()
    server_name: str | None = None
    token_path: Path | None = None
    client_certificate_path: Path | None = None
    client_key_path: Path | None = None
    metadata: tuple[tuple[str, str], ...] = ()
    server_name_setting: str = "server_name"
    connect_timeout_s: float = 5.0
    answer_timeout_s: float = 15.0
    keepalive_s: float = 30.0

    def __post_init__(self) -> None:
        check_fields(self, error=ConfigError)

    @property
    def addresses(self) -> tuple[FurtherAddress, ...]:
        """All addresses in the order of preference."""
        return (FurtherAddress(self.address, self.server_name), *self.further_addresses)

    def check(self) -> None:
        """Raise ConfigError for a value that can never work."""
        texts = [each.address for each in self.addresses]
        for text in texts:
            Address.parse(text)
        if len(texts) != len(set(texts)):
            raise ConfigError(f"a control plane address is there twice: {', '.join(texts)}")
        for name, seconds in (
            ("connect_timeout_s", self.connect_timeout_s),
            ("answer_timeout_s", self.answer_timeout_s),
            ("keepalive_s", self.keepalive_s),
        ):
            if seconds <= 0:
                raise ConfigError(f"{name} must be greater than 0, not {seconds}")
        for name, value in self.metadata:
            if not _HEADER_NAME.match(name.lower()):
                raise ConfigError(
                    f"header name {name!r} may hold only letters, digits, '-', '_' and '.'"
                )
            if not _HEADER_VALUE.match(value):
                raise ConfigError(
                    f"the value of header {name!r} may hold only printable ASCII characters"
                )


class OnDisconnect(StrEnum):
    """The fate of Envoy's stream when the one to the control plane ends."""

    RECONNECT = "reconnect"
    """it stays, and the relay opens the next stream for as long as it takes"""
    END = "end"
    """it ends with the same status, as with Istio's agent"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedConfig:
    """Where accepted configuration is saved, for an Envoy that starts without a control plane.

    directory: created with mode 0700; only one relay can have it at a time.
    owner: names and values that must be as they were when it is used, such as the workload's
        identity. The node's id and cluster, and the control plane's address, count besides.
    max_bytes, max_resources: of all types together; more is not saved, which is logged.
    max_age_s: how long after the control plane last answered it is still used.
    start_after_s: how long a control plane may take to answer before an Envoy without
        configuration gets the saved one.
    min_interval_s: the shortest time between two writes.
    """

    directory: Path
    owner: tuple[tuple[str, str], ...] = ()
    max_bytes: int = 64 * 1024 * 1024
    max_resources: int = 100_000
    max_age_s: float = 24 * 3600.0
    start_after_s: float = 5.0
    min_interval_s: float = 10.0

    def __post_init__(self) -> None:
        check_fields(self, error=ConfigError)

    def check(self) -> None:
        """Raise ConfigError for a value that can never work."""
        for name in ("max_bytes", "max_resources", "max_age_s"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} must be greater than 0, not {getattr(self, name)}")
        for name in ("start_after_s", "min_interval_s"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} must not be negative, got {getattr(self, name)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayConfig:
    """The relay's two sides.

    socket_path: where Envoy connects. Its directory is created with mode 0700 if it does not exist.
    on_disconnect: what becomes of Envoy's stream when the one to the control plane ends or cannot
        be opened. With END, Envoy opens the next stream itself, up to 30 s later.
    max_message_bytes: a larger message ends the stream it is on with RESOURCE_EXHAUSTED.
    send_timeout_s: a side that has not read a message for this long does not read. Envoy's
        connection is ended then, as a status could not be sent on it; the upstream stream is ended
        and another one opened. None: never.
    max_pending_write_bytes: the most bytes that may be pending to all Envoys, and as many to the
        control plane; beyond it, streams with a message pending for more than a second end, those
        that have waited longest first. At least `max_message_bytes`.
    max_queued_bytes: the most bytes of one stream's requests that may be queued behind the one
        being sent; with more, the control plane counts as one that does not read. Also the most
        that the subscriptions of one of Envoy's streams may take; with more, that stream ends.
    limits: how many connections the socket accepts, from one process and in all, and how long one
        may be idle.
    max_streams: how many streams are relayed at a time. A gRPC program that takes its configuration
        itself has one for each target that it calls, and one for its server.
    passed_services: the beginnings of the names of gRPC services whose calls pass to the control
        plane besides ADS. Empty passes none. Others are UNIMPLEMENTED: what connects to the socket
        shall not have certificates signed, for example, with the agent's token.
    max_passed_calls: how many such calls pass at a time; each has a connection of its own.
    trim_memory_after_s: when no message of a MiB or more has passed for this long, garbage is
        collected and the C library asked to give its free memory back to the system; that concerns
        the whole process. None: never.
    socket_mode: who may connect; as it stands, the user of this process.
    saved: where accepted configuration is saved, for an Envoy that starts while no control plane
        answers; None if it is not. With `on_disconnect` END no Envoy waits long enough to get it.
    quarantine: of a response that Envoy refuses for one resource, it gets the others; and an Envoy
        without an older version of a refused resource gets the last good one, of `saved`. Only for
        Envoy, not for gRPC programs that take their configuration themselves.
    """

    socket_path: Path
    upstream: UpstreamConfig
    on_disconnect: OnDisconnect = OnDisconnect.RECONNECT
    max_message_bytes: int = 256 * 1024 * 1024
    send_timeout_s: float | None = 60.0
    max_pending_write_bytes: int = 256 * 1024 * 1024
    max_queued_bytes: int = 64 * 1024 * 1024
    limits: ConnectionLimits = UNIX_LIMITS
    max_streams: int = MAX_STREAMS
    socket_mode: int = 0o600
    passed_services: tuple[str, ...] = ("envoy.service.", "opentelemetry.proto.collector.")
    max_passed_calls: int = 32
    trim_memory_after_s: float | None = None
    saved: SavedConfig | None = None
    quarantine: bool = False

    def __post_init__(self) -> None:
        check_fields(self, error=ConfigError)

    def check(self) -> None:
        """Raise ConfigError for a value that can never work."""
        if self.max_message_bytes < 1 or self.max_message_bytes > 2**31 - 1:
            raise ConfigError(
                f"max_message_bytes must be between 1 and 2147483647, not {self.max_message_bytes}"
            )
        if self.send_timeout_s is not None and self.send_timeout_s <= 0:
            raise ConfigError(f"send_timeout_s must be greater than 0, not {self.send_timeout_s}")
        if self.max_pending_write_bytes < self.max_message_bytes:
            raise ConfigError(
                "max_pending_write_bytes must be at least max_message_bytes"
                f" ({self.max_message_bytes}), not {self.max_pending_write_bytes}"
            )
        if self.max_streams < 1:
            raise ConfigError(f"max_streams must be at least 1, not {self.max_streams}")
        if self.saved is not None:
            self.saved.check()
        if self.max_passed_calls < 1:
            raise ConfigError(f"max_passed_calls must be at least 1, not {self.max_passed_calls}")
        if self.max_queued_bytes < 1:
            raise ConfigError(f"max_queued_bytes must be at least 1, not {self.max_queued_bytes}")
        self.upstream.check()
