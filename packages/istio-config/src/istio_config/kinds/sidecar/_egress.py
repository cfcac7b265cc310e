"""Egress listeners: the hosts that a workload reaches, each as `namespace/host`.

The namespace is a name, `.` for the proxy's own, or `*` for any; the host may be a pattern such as
`*.example.com`. An entry that begins with `~` excludes hosts that the other entries select.

Source: Istio's API, networking/v1, and its validation.
"""

from collections.abc import Iterator
from typing import NamedTuple

from istio_config.addresses import UNIX, is_ip, socket_path
from istio_config.kinds.checks import below, is_dns_label, is_wildcard_host
from istio_config.kinds.fields import SpecFields
from istio_config.kinds.sidecar._ports import CaptureMode, SidecarPort, port_mistakes, port_warnings
from mesh_configfile.shapes import Finding

ANY = "*"
OWN = "."
EXCLUDED = "~"


class EgressHost(NamedTuple):
    """One entry of a listener's `hosts`."""

    namespace: str
    """A name or `*`."""
    host: str
    """A host or a pattern, in lower case."""
    is_excluded: bool = False

    @property
    def is_everything(self) -> bool:
        """Whether it selects every host of every namespace."""
        return self == ("*", "*", False)


class EgressListener(SpecFields, frozen=True):
    """Hosts that a workload reaches, by one port or by every port that they have."""

    port: SidecarPort | None = None
    bind: str = ""
    capture_mode: CaptureMode = CaptureMode.DEFAULT
    hosts: tuple[str, ...] = ()


def parse_egress_host(text: str, namespace: str) -> EgressHost:
    """Read a valid entry, for the proxies of a namespace."""
    given, _, host = text.partition("/")
    is_excluded = given.startswith(EXCLUDED)
    given = given.removeprefix(EXCLUDED) or ANY if is_excluded else given
    return EgressHost(namespace if given == OWN else given, host.lower(), is_excluded)


def egress_mistakes(egress: EgressListener) -> Iterator[Finding]:
    """Yield what is wrong with an egress listener; paths start below it."""
    if not egress.hosts:
        yield ("hosts",), "must name at least one host, such as ./* or istio-system/*"
    for index, host in enumerate(egress.hosts):
        if (wrong := _host_mistake(host)) is not None:
            yield ("hosts", index), wrong
    if egress.port is None:
        if egress.bind:
            yield ("bind",), "needs a port beside it"
        if egress.capture_mode is not CaptureMode.DEFAULT:
            yield ("captureMode",), "needs a port beside it"
        return
    yield from below(("port",), port_mistakes(egress.port))
    yield from _bind_mistakes(egress, egress.port)


def _bind_mistakes(egress: EgressListener, port: SidecarPort) -> Iterator[Finding]:
    path = socket_path(egress.bind)
    if path is None:
        if not port.number:
            yield ("port", "number"), f"may be 0 only where bind is {UNIX}/path"
        if egress.bind and not is_ip(egress.bind):
            yield ("bind",), f'"{egress.bind}" is not an IP address or {UNIX}/path'
        return
    if not path.startswith(("/", "@")):
        yield ("bind",), f'"{egress.bind}" must be {UNIX} and an absolute path'
    if port.number:
        yield ("port", "number"), "must be 0 for a Unix socket"
    if egress.capture_mode is CaptureMode.IPTABLES:
        yield ("captureMode",), "IPTABLES redirects nothing to a Unix socket"


def _host_mistake(text: str) -> str | None:
    """Return what is wrong with an entry of `hosts`, or None."""
    namespace, slash, host = text.partition("/")
    if not slash:
        return f'"{text}" has no namespace; write ./{text} for the own one, or */{text} for any'
    if namespace.startswith(EXCLUDED):
        namespace = namespace.removeprefix(EXCLUDED) or ANY
    if namespace not in (ANY, OWN) and not is_dns_label(namespace):
        return (
            f'"{namespace}" is not a namespace; write a name, "." for the own one, or "*" for any'
        )
    if not is_wildcard_host(host) or (host.startswith("*") and host[1:2] not in ("", ".")):
        return f'"{host}" is not a host name; write it like reviews.example.com or *.example.com'
    return None


def egress_warnings(egress: EgressListener) -> Iterator[Finding]:
    """Yield what is probably not meant in an egress listener; paths start below it."""
    seen: set[str] = set()
    for index, host in enumerate(egress.hosts):
        if host in seen:
            yield ("hosts", index), f'"{host}" is there already'
        elif "*/*" in egress.hosts and host != "*/*" and not host.startswith("~"):
            yield ("hosts", index), '"*/*" has every host already'
        seen.add(host)
    if egress.port is None:
        return
    yield from port_warnings(egress.port)
    if egress.port.target_port is not None:
        yield ("port", "targetPort"), "is deprecated and has no effect"
