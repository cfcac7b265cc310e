"""The address of a server: an IP address and port, or a Unix socket."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address
from pathlib import Path

import msgspec

from envoy_supervisor._errors import BootstrapError
from envoy_supervisor._json import JSON
from mesh_lifecycle import check_fields


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """A TCP address. `host` is an IP address (a wildcard for listening on all), never a name."""

    host: str
    port: int

    def __post_init__(self) -> None:
        check_fields(self, error=BootstrapError)
        try:
            ip_address(self.host)
        except ValueError as error:
            raise BootstrapError(
                f"address host {self.host!r} is not an IP address, such as 127.0.0.1"
            ) from error
        if not 0 <= self.port <= 65535:
            raise BootstrapError(f"address port {self.port} is not in 0..65535")

    def __str__(self) -> str:
        if isinstance(ip_address(self.host), IPv6Address):
            return f"[{self.host}]:{self.port}"
        return f"{self.host}:{self.port}"


class UnixAddress(msgspec.Struct, frozen=True, kw_only=True):
    """A Unix socket. Relative paths begin at the working directory, which Envoy shares."""

    path: Path

    def __post_init__(self) -> None:
        check_fields(self, error=BootstrapError)

    def __str__(self) -> str:
        return f"unix:{self.path}"


def envoy_address(address: Address | UnixAddress) -> dict[str, JSON]:
    """Return the address as `envoy.config.core.v3.Address` in JSON."""
    match address:
        case Address(host=host, port=port):
            return {"socket_address": {"address": host, "port_value": port}}
        case UnixAddress(path=path):
            return {"pipe": {"path": str(path)}}
