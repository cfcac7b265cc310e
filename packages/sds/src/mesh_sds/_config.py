"""The configuration of the secret server."""

from dataclasses import dataclass
from pathlib import Path

from mesh_lifecycle import check_fields
from mesh_listening import UNIX_LIMITS, AllowedPeers, ConnectionLimits
from mesh_sds._errors import ConfigError
from mesh_sds.secrets._private_key_provider import PrivateKeyProvider

DEFAULT_SOCKET_NAME = "socket"
"""The name that is ours to serve; any other is set because another process serves it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SdsConfig:
    """The socket of a secret server, its access rules, and its limits.

    socket_path: its directory is created with mode 0700 if it is not there.
    socket_mode: of the socket file; wider than 0600 only makes sense with `allow`.
    allow: admit processes by the credentials that the kernel tells of them (SO_PEERCRED); None:
    admit every process that can open the socket.
    limits: how many connections, of one process and in all, and how long one may do nothing.
    private_key_provider: the accelerator that Envoy uses private keys with; None: Envoy's own code.
    bundle_ack_timeout_s: certificates that change after a trust bundle wait until all subscribers
    of the bundle have answered, at most this long; 0: they are sent after it at once.
    send_timeout_s: a subscriber that has not taken a response for this long loses its connection,
    with a warning in the log; the bytes that wait for all subscribers are bounded as well.
    max_names: the most names that one stream may ask for, in delta over all its requests; a stream
    that asks for more is ended.
    """

    socket_path: Path
    socket_mode: int = 0o600
    allow: AllowedPeers | None = None
    limits: ConnectionLimits = UNIX_LIMITS
    private_key_provider: PrivateKeyProvider | None = None
    bundle_ack_timeout_s: float = 2.0
    send_timeout_s: float = 60.0
    max_names: int = 10_000

    def __post_init__(self) -> None:
        check_fields(self, error=ConfigError)
