"""The relay's configuration: where Envoy connects, and how the control plane is reached."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from mesh_identity import SystemRoots
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


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamConfig:
    """How to reach the control plane.

    address: `host:port`; IPv6 in brackets.
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
    connect_timeout_s: how long Envoy's stream waits for the control plane before it ends
        UNAVAILABLE.
    """

    address: str
    root_certificate: Path | SystemRoots | None
    server_name: str | None = None
    token_path: Path | None = None
    client_certificate_path: Path | None = None
    client_key_path: Path | None = None
    metadata: tuple[tuple[str, str], ...] = ()
    server_name_setting: str = "server_name"
    connect_timeout_s: float = 5.0

    def check(self) -> None:
        """Raise ConfigError for a value that can never work."""
        Address.parse(self.address)
        if self.connect_timeout_s <= 0:
            raise ConfigError(
                f"connect_timeout_s must be greater than 0, not {self.connect_timeout_s}"
            )
        for name, value in self.metadata:
            if not _HEADER_NAME.match(name.lower()):
                raise ConfigError(
                    f"header name {name!r} may hold only letters, digits, '-', '_' and '.'"
                )
            if not _HEADER_VALUE.match(value):
                raise ConfigError(
                    f"the value of header {name!r} may hold only printable ASCII characters"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayConfig:
    """The relay's two sides.

    socket_path: where Envoy connects. Its directory is made with mode 0700 if it does not exist.
    hold_s: how long a stream of Envoy's is held while the control plane cannot be reached and the
        relay tries again, about once a second; then it ends UNAVAILABLE. Envoy alone waits for up
        to 30 s between attempts. Zero ends it at the first failure.
    max_message_bytes: a larger message, from either side, ends the stream with RESOURCE_EXHAUSTED.
    send_timeout_s: a side that has not read a message for this long does not read. Envoy's
        connection is ended then, as a status could not be sent on it; a control plane's stream
        ends UNAVAILABLE. None: never.
    max_pending_write_bytes: the most bytes that may be pending to all Envoys, and as many to the
        control plane; beyond it, streams with a message pending for more than a second end, those
        that have waited longest first. At least `max_message_bytes`.
    max_queued_bytes: the most bytes of one stream's requests that may be queued behind the one
        being sent; with more, the control plane counts as one that does not read.
    limits: how many connections the socket accepts, from one process and in all, and how long one
        may be idle.
    max_streams: how many streams are relayed at a time. A gRPC program that takes its configuration
        itself has one for each target that it calls, and one for its server.
    socket_mode: who may connect; as it stands, the user of this process.
    """

    socket_path: Path
    upstream: UpstreamConfig
    hold_s: float = 30.0
    max_message_bytes: int = 256 * 1024 * 1024
    send_timeout_s: float | None = 60.0
    max_pending_write_bytes: int = 256 * 1024 * 1024
    max_queued_bytes: int = 64 * 1024 * 1024
    limits: ConnectionLimits = UNIX_LIMITS
    max_streams: int = MAX_STREAMS
    socket_mode: int = 0o600

    def check(self) -> None:
        """Raise ConfigError for a value that can never work."""
        if self.max_message_bytes < 1 or self.max_message_bytes > 2**31 - 1:
            raise ConfigError(
                f"max_message_bytes must be between 1 and 2147483647, not {self.max_message_bytes}"
            )
        if self.hold_s < 0:
            raise ConfigError(f"hold_s must not be negative, got {self.hold_s}")
        if self.send_timeout_s is not None and self.send_timeout_s <= 0:
            raise ConfigError(f"send_timeout_s must be greater than 0, not {self.send_timeout_s}")
        if self.max_pending_write_bytes < self.max_message_bytes:
            raise ConfigError(
                "max_pending_write_bytes must be at least max_message_bytes"
                f" ({self.max_message_bytes}), not {self.max_pending_write_bytes}"
            )
        if self.max_streams < 1:
            raise ConfigError(f"max_streams must be at least 1, not {self.max_streams}")
        if self.max_queued_bytes < 1:
            raise ConfigError(f"max_queued_bytes must be at least 1, not {self.max_queued_bytes}")
        self.upstream.check()
