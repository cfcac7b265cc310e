"""The control plane, put together: configuration in, xDS and certificates out."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
from prometheus_client import CollectorRegistry

from mesh_ca import (
    Authenticator,
    Authority,
    CaError,
    RevocationList,
    RootPolicy,
    certificate_service,
    is_own_root,
    keeping_authority,
    load_or_create_authority,
)
from mesh_discovery._addresses import split_host_port
from mesh_discovery._admission import Gatekeeper, credentials
from mesh_discovery._authentication import authenticating
from mesh_discovery._certificate import ServingCertificate, keeping_certificate
from mesh_discovery._config import DiscoveryConfig
from mesh_discovery._debug import DebugPages
from mesh_discovery._following import following_files
from mesh_discovery._generators import generators
from mesh_discovery._http import monitoring_app, public_app, serving_http
from mesh_discovery._loader import ConfigLoader
from mesh_discovery._metrics import Metrics
from mesh_discovery._ports_free import CannotListenError, check_free
from mesh_discovery._proxy import Proxy
from mesh_discovery._store import ConfigStore
from mesh_discovery._trust_bundle import trust_bundle_changed
from mesh_discovery._version import version
from mesh_lifecycle import Readiness
from xds_server import (
    Listener,
    ListenError,
    PlainListener,
    ServerConfig,
    TlsListener,
    XdsServer,
    peer_of,
    serving,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlane:
    """A running control plane, and where it listens (`host:port`; empty when switched off)."""

    http: str = ""
    grpc: str = ""
    secure_grpc: str = ""
    monitoring: str = ""
    trust_bundle_pem: bytes
    readiness: Readiness = field(repr=False)


@asynccontextmanager
async def running(config: DiscoveryConfig) -> AsyncIterator[ControlPlane]:
    """Run a control plane until the context is left.

    Raises `ConfigError` if the first configuration is not good, `CaError` if the CA's directory
    or a key set can't be used, `CannotListenError` if a port can't be had.
    """
    check_free((config.http, config.grpc, config.secure_grpc, config.monitoring))
    registry = CollectorRegistry()
    metrics = Metrics(registry, version=version())
    loader = ConfigLoader(config.config_dir, mesh_config=config.mesh_config)
    seen = loader.signature()
    first = loader.load()
    store = ConfigStore(first, metrics=metrics, trust_domain=config.trust_domain)
    metrics.watch_conflicts(lambda: len(store.state.context.conflicts))
    authority = load_or_create_authority(
        config.ca_dir,
        trust_domain=store.state.context.world.trust_domain,
        root_lifetime=config.root_lifetime,
    )
    # A plugged-in authority's list is the business of who made it.
    revocations = RevocationList(config.ca_dir, authority) if is_own_root(config.ca_dir) else None
    readiness = Readiness()
    serves = readiness.register("discovery")
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        authenticator = await enter(
            authenticating(config.tokens, authority, revocations=revocations)
        )
        server = _xds_server(config, store, authority, authenticator, registry=registry)
        certificate = ServingCertificate(
            authority,
            names=lambda: serving_names(config, store),
            lifetime=config.default_lifetime,
            on_issued=metrics.certificate_expiry.set,
        )
        await enter(
            _keeping_authority(
                config,
                authority,
                revocations,
                on_change=lambda: _tell_of_authority(server, certificate),
                registry=registry,
            )
        )
        if config.secure_grpc is not None:
            await enter(keeping_certificate(certificate))
        ca = _ca(config, authority, authenticator, registry)
        bound = await enter(_serving_grpc(config, server, certificate, [ca]))
        await enter(
            following_files(
                config,
                loader=loader,
                seen=seen,
                first=first,
                store=store,
                metrics=metrics,
                server=server,
                certificate=certificate,
            )
        )
        pages = DebugPages(store, clients=server.clients, domain_suffix=config.domain)
        monitoring = http = ""
        if config.monitoring is not None:
            app = monitoring_app(registry, pages)
            monitoring = await enter(serving_http(app, config.monitoring))
        if config.http is not None:
            revocation_list = (lambda: revocations.der) if revocations else None
            app = public_app(readiness, revocation_list=revocation_list)
            http = await enter(serving_http(app, config.http))
        serves.set()
        stack.callback(serves.unset, "stopping")
        plane = ControlPlane(
            http=http,
            monitoring=monitoring,
            grpc=bound.get("--grpc-addr", ""),
            secure_grpc=bound.get("--secure-grpc-addr", ""),
            trust_bundle_pem=authority.root_pem,
            readiness=readiness,
        )
        _say_ready(plane, store)
        yield plane


def serving_names(config: DiscoveryConfig, store: ConfigStore) -> tuple[str, ...]:
    """Return the names on the secure port's certificate: Istio's, mesh config's and loopback."""
    names = [
        "istiod.istio-system.svc",
        f"istiod.{config.namespace}.svc",
        f"istio-pilot.{config.namespace}.svc",
        "localhost",
        "127.0.0.1",
    ]
    address = store.snapshot.mesh.default_config.get("discoveryAddress")
    if isinstance(address, str):
        names.insert(0, split_host_port(address)[0])
    return tuple(dict.fromkeys(name for name in names if name))


def _xds_server(
    config: DiscoveryConfig,
    store: ConfigStore,
    authority: Authority,
    authenticator: Authenticator,
    *,
    registry: CollectorRegistry,
) -> XdsServer[Proxy]:
    server = XdsServer(
        generators(store.state, bundle_pem=lambda: authority.root_pem),
        admit=Gatekeeper(authenticator, domain_suffix=config.domain),
        config=ServerConfig(
            debounce_quiet_s=config.debounce_after_s,
            debounce_maximum_s=config.debounce_max_s,
            identifier="mesh-discovery",
        ),
        build=store.state.build,
        needs_push=store.state.needs_push,
        registry=registry,
    )
    server.mark_ready()
    return server


@asynccontextmanager
async def _keeping_authority(
    config: DiscoveryConfig,
    authority: Authority,
    revocations: RevocationList | None,
    *,
    on_change: Callable[[], None],
    registry: CollectorRegistry,
) -> AsyncIterator[None]:
    """Replace the root in time while the block runs, or follow who replaces it."""
    keeping = keeping_authority(
        config.ca_dir,
        authority,
        policy=RootPolicy(
            lifetime=config.root_lifetime,
            grace=config.root_grace,
            spread=config.default_lifetime,
            retirement=config.max_lifetime,
        ),
        revocations=revocations,
        check_interval=config.root_check_interval,
        on_change=on_change,
        registry=registry,
    )
    async with keeping as keeper:
        if keeper.problem is not None:
            log.warning("certificate authority goes on with what was read at first")
        yield


def _tell_of_authority(server: XdsServer[Proxy], certificate: ServingCertificate) -> None:
    """Let our own port use what the authority has become, then tell the workloads."""
    try:
        certificate.reissue()
    except CaError as error:
        log.error("serving certificate not renewed", extra={"reason": str(error)})
    server.notify(trust_bundle_changed())


def _ca(
    config: DiscoveryConfig,
    authority: Authority,
    authenticator: Authenticator,
    registry: CollectorRegistry,
) -> "grpc.GenericRpcHandler[Any, Any]":
    return certificate_service(
        authority,
        authenticator,
        credentials_of=lambda context: credentials(peer_of(context)),
        default_lifetime=config.default_lifetime,
        max_lifetime=config.max_lifetime,
        registry=registry,
    )


@asynccontextmanager
async def _serving_grpc(
    config: DiscoveryConfig,
    server: XdsServer[Proxy],
    certificate: ServingCertificate,
    services: "list[grpc.GenericRpcHandler[Any, Any]]",
) -> AsyncIterator[dict[str, str]]:
    listeners: dict[str, Listener] = {}
    if config.secure_grpc is not None:
        listeners[config.secure_grpc.flag] = TlsListener(
            host=config.secure_grpc.host,
            port=config.secure_grpc.port,
            context=certificate.context,
        )
    if config.grpc is not None:
        listeners[config.grpc.flag] = PlainListener(host=config.grpc.host, port=config.grpc.port)
    try:
        opened = serving(server, list(listeners.values()), extra_handlers=services)
        async with AsyncExitStack() as stack:
            bound = await stack.enter_async_context(opened)
            stack_of_body = stack.pop_all()
    except ListenError as error:
        flags = " or ".join(listeners)
        raise CannotListenError(f"{flags}: {error}; free the port or give another") from error
    async with stack_of_body:
        yield dict(zip(listeners, bound.addresses, strict=True))


def _say_ready(plane: ControlPlane, store: ConfigStore) -> None:
    world = store.state.context.world
    log.info(
        "control plane ready",
        extra={
            "http": plane.http,
            "grpc": plane.grpc,
            "secure_grpc": plane.secure_grpc,
            "monitoring": plane.monitoring,
            "services": len(world.services),
            "trust_domain": world.trust_domain,
        },
    )
