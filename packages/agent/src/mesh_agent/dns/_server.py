"""Names of the mesh, answered to the workload: settings, the tables that come with configuration,
and what is counted.

Only an agent that answers names loads this module, and the DNS server with it. Names of settings
are Istio's.
"""

import os
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import mesh_dnsproxy
from mesh_agent._errors import ListenError
from mesh_agent.dns._dns_config import NamesConfig
from mesh_dnsproxy import DnsServer
from mesh_lifecycle import Readiness

_DNS_PORT = 53
_RESOLV_CONF = Path("/etc/resolv.conf")
_RESOLV_CONF_OF_BEFORE = Path("/var/lib/istio/resolv.conf")
"""Where Istio's scripts put it on a machine whose own then names the agent."""


def dns_config(config: NamesConfig) -> mesh_dnsproxy.DnsConfig:
    """Make the DNS server's settings; on port 53 it is all that the machine asks, as in Istio."""
    for_the_machine = config.port == _DNS_PORT
    resolv_conf = _RESOLV_CONF
    if for_the_machine and os.geteuid() == 0 and _RESOLV_CONF_OF_BEFORE.exists():
        resolv_conf = _RESOLV_CONF_OF_BEFORE
    return mesh_dnsproxy.DnsConfig(
        listen=tuple(
            mesh_dnsproxy.ListenAddress(host, config.port)
            for host in ((config.host,) if config.host else _every_interface())
        ),
        domain=config.domain,
        namespace=config.namespace,
        resolv_conf=resolv_conf,
        forward_before_table=for_the_machine,
        forward=mesh_dnsproxy.ForwardConfig(parallel=config.parallel),
    )


def _every_interface() -> tuple[str, ...]:
    """The wildcard addresses of the families that this machine has."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
            probe.bind(("::", 0))
    except OSError:
        return ("0.0.0.0",)  # noqa: S104 - what the user asked for
    return ("0.0.0.0", "::")  # noqa: S104


@asynccontextmanager
async def answering_names(config: NamesConfig, readiness: Readiness) -> AsyncIterator[DnsServer]:
    """Answer DNS for as long as the block runs; ready is when there has been a table.

    Raises `ListenError`.
    """
    async with AsyncExitStack() as stack:
        try:
            server = await stack.enter_async_context(
                mesh_dnsproxy.serving(dns_config(config), readiness=readiness)
            )
        except mesh_dnsproxy.DnsProxyError as error:
            raise ListenError(
                f"can't answer DNS: {error}; free it, or set DNS_PROXY_ADDR to another address"
            ) from error
        yield server
