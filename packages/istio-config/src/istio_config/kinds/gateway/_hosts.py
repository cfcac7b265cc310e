"""The hosts of a gateway's servers: `host`, `namespace/host`, `./host`, `*/host`."""

from typing import NamedTuple

from istio_config.addresses import is_host_pattern
from istio_config.kinds.checks import is_dns_label


class ServerHost(NamedTuple):
    """A host of a server, and the namespace whose VirtualServices may have it; `*` is any."""

    namespace: str
    host: str

    def __str__(self) -> str:
        """Return `namespace/host`, or the host alone if the namespace is any."""
        return self.host if self.namespace == "*" else f"{self.namespace}/{self.host}"


def parse_server_host(text: str, namespace: str) -> ServerHost:
    """Read a valid host of a gateway in this namespace, in lower case."""
    given, slash, host = text.rpartition("/")
    if not slash:
        given = "*"
    elif given == ".":
        given = namespace
    return ServerHost(given, host.lower())


def wrong_host(text: str) -> str | None:
    """Return what is wrong with a host of a server, if anything."""
    namespace, slash, host = text.rpartition("/")
    if slash and namespace not in ("*", ".") and not is_dns_label(namespace):
        return (
            f'"{namespace}" before the slash is no namespace; write a name, "." for this one or '
            '"*" for all'
        )
    if host == "*" or is_host_pattern(host):
        return None
    if "*" in host.removeprefix("*."):
        return f'"{host}" has a wildcard beside other text; write it like *.example.com'
    return f'"{host}" is not a host name; write it like shop.example.com, *.example.com or *'
