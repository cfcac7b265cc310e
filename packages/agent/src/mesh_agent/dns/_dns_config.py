"""Whether and where the agent answers the workload's DNS queries, from Istio's settings."""

from datetime import timedelta
from typing import NamedTuple

from istio_settings import NodeIdentity, Settings, is_address

_TIMEOUT = "DNS_FORWARD_TIMEOUT"
_DEFAULT_TIMEOUT = timedelta(seconds=5)
"""Istio's; the server answers a little sooner, so that applications do not give up before."""
_ADDRESS = "DNS_PROXY_ADDR"
_DEFAULT = "localhost:15053"


class NamesConfig(NamedTuple):
    """How the workload's DNS queries are answered.

    host: `localhost` for all loopback addresses there are, empty for every interface.
    domain: the mesh's, below which hosts have short names.
    namespace: the workload's own.
    parallel: all upstream resolvers are asked at once for names that are not the mesh's.
    timeout_s: when such a query is given up; None for the server's own time.
    """

    host: str
    port: int
    domain: str
    namespace: str
    parallel: bool = False
    timeout_s: float | None = None


def names_config(settings: Settings, identity: NodeIdentity) -> NamesConfig | None:
    """Return the settings; None if the agent is not to answer DNS queries."""
    setting = "ISTIO_META_ENABLE_DNS_SERVER" if identity.role == "router" else _CAPTURE
    answers = settings.flag(setting)
    settings.flag(_AUTO_ALLOCATE, default=True)
    host, port = _address(settings)
    parallel = settings.flag("DNS_FORWARD_PARALLEL")
    timeout = settings.positive_duration(_TIMEOUT, _DEFAULT_TIMEOUT)
    if not answers:
        return None
    return NamesConfig(
        host=host,
        port=port,
        domain=identity.domain.partition(".")[2],
        namespace=identity.namespace,
        parallel=parallel,
        timeout_s=None if timeout == _DEFAULT_TIMEOUT else timeout.total_seconds(),
    )


_CAPTURE = "ISTIO_META_DNS_CAPTURE"
_AUTO_ALLOCATE = "ISTIO_META_DNS_AUTO_ALLOCATE"


def _address(settings: Settings) -> tuple[str, int]:
    text = settings.text(_ADDRESS, _DEFAULT)
    host, _, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    bare = host[1:-1] if bracketed else host
    if is_address(bare):
        good = (":" in bare) == bracketed
    else:
        good = host in ("", "localhost") and ":" in text
    if not (good and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        settings.problems.append(
            f"{_ADDRESS} is {text!r}, it must be an IP address (or localhost, or nothing for every "
            f"interface) and a port, as in {_DEFAULT}"
        )
        return "localhost", 15053
    return bare, int(port)
