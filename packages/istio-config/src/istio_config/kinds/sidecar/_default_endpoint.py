"""The `defaultEndpoint` of a Sidecar's ingress listener: where the workload itself listens."""

from dataclasses import dataclass

from istio_config.addresses import UNIX, split_host_port

_LOOPBACK = ("127.0.0.1", "::1")
_OF_INSTANCE = ("0.0.0.0", "::")  # noqa: S104 - compared, not bound


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopbackEndpoint:
    """A port of the loopback address."""

    address: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceEndpoint:
    """A port of the address by which other machines know the workload."""

    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketEndpoint:
    """A Unix socket."""

    path: str


DefaultEndpoint = LoopbackEndpoint | InstanceEndpoint | SocketEndpoint


def parse_default_endpoint(text: str) -> DefaultEndpoint | None:
    """Take an endpoint apart; None when it is none."""
    if text.startswith(UNIX):
        path = text.removeprefix(UNIX)
        # Istio's `unix://@name` is an abstract socket.
        return SocketEndpoint(path=path) if path.startswith(("/", "@")) and path[1:] else None
    try:
        address, port = split_host_port(text)
    except ValueError:
        return None
    if not port:
        return None
    if address in _LOOPBACK:
        return LoopbackEndpoint(address=address, port=port)
    return InstanceEndpoint(port=port) if address in _OF_INSTANCE else None
