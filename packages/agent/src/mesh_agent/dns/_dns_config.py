"""Whether and where the agent answers the workload's DNS queries, from Istio's settings."""

from typing import NamedTuple

from mesh_agent.config._node import NodeIdentity
from mesh_agent.config._proxy_config import ProxyConfig
from mesh_agent.config._settings import Settings, is_address

_ADDRESS = "DNS_PROXY_ADDR"
_DEFAULT = "localhost:15053"


class NamesConfig(NamedTuple):
    """How names are answered.

    host, port: where, `localhost` for all loopback addresses there are, empty for every interface.
    domain: the mesh's,
    below which hosts have short names. namespace: the workload's own. parallel: all upstreams
    are asked at once for names that are not the mesh's.
    """

    host: str
    port: int
    domain: str
    namespace: str
    parallel: bool = False


def names_config(
    settings: Settings, proxy: ProxyConfig, identity: NodeIdentity
) -> NamesConfig | None:
    """Read the settings; None if names are not answered."""
    setting = "ISTIO_META_ENABLE_DNS_SERVER" if identity.role == "router" else _CAPTURE
    # What goes to the control plane as metadata is what counts here, wherever it is set.
    answers = settings.flag(setting, fallback=proxy.proxy_metadata)
    settings.flag(_AUTO_ALLOCATE, default=True, fallback=proxy.proxy_metadata)
    host, port = _address(settings)
    parallel = settings.flag("DNS_FORWARD_PARALLEL")
    if not answers:
        return None
    return NamesConfig(
        host=host,
        port=port,
        domain=identity.domain.partition(".")[2],
        namespace=identity.namespace,
        parallel=parallel,
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
