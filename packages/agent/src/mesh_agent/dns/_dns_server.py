"""Runs the DNS server that answers the workload's queries, if the agent is to answer them.

Few agents do: `mesh_dnsproxy` is only loaded when it is used.
"""

import os
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mesh_agent._errors import ListenError
from mesh_agent.dns._dns_config import NamesConfig
from mesh_agent.readiness._dns import register_dns
from mesh_lifecycle import Readiness

if TYPE_CHECKING:
    from mesh_dnsproxy import DnsConfig, DnsServer, ForwardConfig

_DNS_PORT = 53
_RESOLV_CONF = Path("/etc/resolv.conf")
_FORMER_RESOLV_CONF = Path("/var/lib/istio/resolv.conf")
"""Where Istio's scripts keep the machine's resolv.conf once the new one names the agent."""


@asynccontextmanager
async def dns_server(
    config: NamesConfig | None, readiness: Readiness
) -> "AsyncIterator[DnsServer | None]":
    """Answer the workload's DNS queries while the block runs; without a config, yields None."""
    if config is None:
        yield None
        return
    async with answering_names(config, readiness) as server:
        yield server


def dns_config(config: NamesConfig) -> "DnsConfig":
    """Return the DNS server's settings; on port 53 it answers the whole machine, as in Istio."""
    import mesh_dnsproxy

    for_the_machine = config.port == _DNS_PORT
    resolv_conf = _RESOLV_CONF
    if for_the_machine and os.geteuid() == 0 and _FORMER_RESOLV_CONF.exists():
        resolv_conf = _FORMER_RESOLV_CONF
    return mesh_dnsproxy.DnsConfig(
        listen=tuple(
            mesh_dnsproxy.ListenAddress(host, config.port)
            for host in ((config.host,) if config.host else _every_interface())
        ),
        domain=config.domain,
        namespace=config.namespace,
        resolv_conf=resolv_conf,
        forward_before_table=for_the_machine,
        forward=_forward_config(config),
    )


def _forward_config(config: NamesConfig) -> "ForwardConfig":
    import mesh_dnsproxy

    forward = mesh_dnsproxy.ForwardConfig(parallel=config.parallel)
    if config.timeout_s is None:
        return forward
    return forward._replace(
        total_timeout_s=config.timeout_s, timeout_s=min(forward.timeout_s, config.timeout_s)
    )


def _every_interface() -> tuple[str, ...]:
    """Return the wildcard addresses of IPv4 and, where the machine has it, IPv6."""
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
            probe.bind(("::", 0))
    except OSError:
        return ("0.0.0.0",)  # noqa: S104 - what the user asked for
    return ("0.0.0.0", "::")  # noqa: S104


@asynccontextmanager
async def answering_names(config: NamesConfig, readiness: Readiness) -> "AsyncIterator[DnsServer]":
    """Answer DNS queries while the block runs; `readiness` waits for the first name table.

    Raises `ListenError`.
    """
    import mesh_dnsproxy

    async with AsyncExitStack() as stack:
        try:
            server = await stack.enter_async_context(
                mesh_dnsproxy.serving(dns_config(config), readiness=register_dns(readiness))
            )
        except mesh_dnsproxy.DnsProxyError as error:
            raise ListenError(
                f"can't answer DNS: {error}; free it, or set DNS_PROXY_ADDR to another address"
            ) from error
        yield server
