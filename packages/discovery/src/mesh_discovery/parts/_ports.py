"""The ports of a control plane: xDS and certificates over gRPC, and two over HTTP."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client import CollectorRegistry

from envoy_config import Proxy
from mesh_discovery._config import DiscoveryConfig
from mesh_discovery.serve._debug_pages import DebugPages
from mesh_discovery.serve._free_ports import CannotListenError
from mesh_discovery.serve._http import monitoring_app, public_app, serving_http
from mesh_discovery.serve._serving_certificate import ServingCertificate
from mesh_lifecycle import Readiness
from mesh_listening.prometheus import PortMetrics
from xds_server import Listener, ListenError, PlainListener, TlsListener, XdsServer, serving

if TYPE_CHECKING:
    from mesh_discovery.parts._authority import CertificateService


class Addresses(NamedTuple):
    """Where each port listens, `host:port`; empty if it is switched off."""

    http: str
    grpc: str
    secure_grpc: str
    monitoring: str


@asynccontextmanager
async def serving_ports(
    config: DiscoveryConfig,
    *,
    server: XdsServer[Proxy],
    signing: "CertificateService",
    certificate: ServingCertificate | None,
    pages: DebugPages,
    readiness: Readiness,
    revocation_list: Callable[[], bytes] | None,
    registry: CollectorRegistry,
) -> AsyncIterator[Addresses]:
    """Serve on all ports while the block runs; raises `CannotListenError`.

    The port with readiness is opened last: a caller that finds it ready finds the others, too.
    """
    ports = PortMetrics()
    registry.register(ports)
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        grpc = await enter(_serving_grpc(config, server, certificate, signing, ports=ports))
        monitoring = await enter(_serving_monitoring(config, registry, pages, ports=ports))
        http = await enter(_serving_public(config, readiness, revocation_list, ports=ports))
        yield Addresses(
            http=http,
            grpc=grpc.get("grpc", ""),
            secure_grpc=grpc.get("secure_grpc", ""),
            monitoring=monitoring,
        )


@asynccontextmanager
async def _serving_grpc(
    config: DiscoveryConfig,
    server: XdsServer[Proxy],
    certificate: ServingCertificate | None,
    service: "CertificateService",
    *,
    ports: PortMetrics,
) -> AsyncIterator[dict[str, str]]:
    """Serve xDS and certificates while the block runs; gives addresses by `grpc`, `secure_grpc`.

    Raises `CannotListenError`.
    """
    listeners: dict[str, Listener] = {}
    if config.secure_grpc is not None and certificate is not None:
        listeners["secure_grpc"] = TlsListener(
            host=config.secure_grpc.host,
            port=config.secure_grpc.port,
            context=certificate.context,
            limits=config.grpc_limits,
        )
    if config.grpc is not None:
        listeners["grpc"] = PlainListener(
            host=config.grpc.host, port=config.grpc.port, limits=config.grpc_limits
        )
    try:
        handlers = [service] if config.signs_certificates else []
        opened = serving(server, list(listeners.values()), extra_handlers=handlers)
        async with AsyncExitStack() as stack:
            bound = await stack.enter_async_context(opened)
            stack_of_body = stack.pop_all()
    except ListenError as error:
        given = (config.secure_grpc, config.grpc)
        flags = " or ".join(each.flag for each in given if each is not None)
        raise CannotListenError(f"{flags}: {error}; free the port or give another") from error
    ports.add(*bound.ports)
    async with stack_of_body:
        yield dict(zip(listeners, bound.addresses, strict=True))


@asynccontextmanager
async def _serving_monitoring(
    config: DiscoveryConfig, registry: CollectorRegistry, pages: DebugPages, *, ports: PortMetrics
) -> AsyncIterator[str]:
    """Serve metrics and debug pages while the block runs; gives the address, "" if switched off."""
    if config.monitoring is None:
        yield ""
        return
    app = monitoring_app(registry, pages, with_debug=config.has_debug_pages)
    served = serving_http(app, config.monitoring, limits=config.http_limits, ports=ports)
    async with served as address:
        yield address


@asynccontextmanager
async def _serving_public(
    config: DiscoveryConfig,
    readiness: Readiness,
    revocation_list: Callable[[], bytes] | None,
    *,
    ports: PortMetrics,
) -> AsyncIterator[str]:
    """Serve readiness and the revocation list while the block runs; gives the address, or ""."""
    if config.http is None:
        yield ""
        return
    app = public_app(readiness, revocation_list=revocation_list)
    async with serving_http(app, config.http, limits=config.http_limits, ports=ports) as address:
        yield address
