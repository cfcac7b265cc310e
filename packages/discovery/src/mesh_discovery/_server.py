"""The control plane, put together: configuration in, xDS and certificates out."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import grpc
from prometheus_client import CollectorRegistry

from mesh_ca import (
    Authenticator,
    Authority,
    CaError,
    RevocationList,
    RootPolicy,
    StorageError,
    certificate_service,
    is_own_root,
    load_or_create_authority,
    rotating_authority,
)
from mesh_discovery._addresses import split_host_port
from mesh_discovery._config import DiscoveryConfig
from mesh_discovery._metrics import Metrics
from mesh_discovery._version import version
from mesh_discovery.config._first_load import done_or_refused
from mesh_discovery.config._loader import ConfigLoader
from mesh_discovery.config.kinds._mesh_config import mesh_drain_time
from mesh_discovery.plan._proxy import Proxy
from mesh_discovery.push._config_store import ConfigStore
from mesh_discovery.push._following import following_files
from mesh_discovery.push._generators import generators
from mesh_discovery.push._trust_bundle import trust_bundle_changed
from mesh_discovery.serve._admission import Gatekeeper, credentials
from mesh_discovery.serve._callers import authenticating
from mesh_discovery.serve._certificate import ServingCertificate, keeping_certificate
from mesh_discovery.serve._debug import DebugPages
from mesh_discovery.serve._free_ports import CannotListenError, check_free
from mesh_discovery.serve._http import monitoring_app, public_app, serving_http
from mesh_filewatch import ReadTimedOut, run_in_thread
from mesh_lifecycle import Readiness
from mesh_listening.prometheus import PortMetrics
from mesh_protos import type_urls
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

_AUTHORITY_TIMEOUT_S = 10.0
"""For its files, and for making them: another process may be at it."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlane:
    """A running control plane, and where it listens (`host:port`; empty when switched off)."""

    http: str = ""
    grpc: str = ""
    secure_grpc: str = ""
    monitoring: str = ""
    trust_bundle_pem: bytes
    readiness: Readiness = field(repr=False)


async def _authority(config: DiscoveryConfig, *, trust_domain: str) -> tuple[Authority, bool]:
    """The authority, and whether its root was made here; its directory may be on a mount."""

    def load() -> tuple[Authority, bool]:
        authority = load_or_create_authority(
            config.ca_dir, trust_domain=trust_domain, root_lifetime=config.root_lifetime
        )
        return authority, is_own_root(config.ca_dir)

    try:
        return await run_in_thread(load, path=config.ca_dir, timeout_s=_AUTHORITY_TIMEOUT_S)
    except ReadTimedOut as error:
        raise StorageError(f"{config.ca_dir}: {error.strerror}") from error


async def _first(work: Callable[[], T], loader: ConfigLoader) -> T:
    guarded = partial(done_or_refused, work, loader)
    return await run_in_thread(guarded, path=loader.directory / "any", timeout_s=None)


@asynccontextmanager
async def running(config: DiscoveryConfig) -> AsyncIterator[ControlPlane]:
    """Run a control plane until the context is left.

    Raises `ConfigError` if the first configuration is not good, `CaError` if the CA's directory
    or a key set can't be used, `CannotListenError` if a port can't be had.
    """
    check_free((config.http, config.grpc, config.secure_grpc, config.monitoring))
    registry = CollectorRegistry()
    metrics = Metrics(registry, version=version())
    ports = PortMetrics()
    registry.register(ports)
    loader = ConfigLoader(
        config.config_dir,
        mesh_config=config.mesh_config,
        allow_unsupported=config.allow_unsupported,
    )
    seen = await _first(loader.signature, loader)
    first = await _first(loader.load, loader)
    store = ConfigStore(first, metrics=metrics, trust_domain=config.trust_domain)
    metrics.watch_conflicts(lambda: len(store.contexts.current.conflicts))
    authority, own_root = await _authority(
        config, trust_domain=store.contexts.current.model.trust_domain
    )
    # A plugged-in authority's list is the business of who made it.
    revocations = RevocationList(config.ca_dir, authority) if own_root else None
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
        ca = _ca(config, authority, authenticator, revocations, registry)
        bound = await enter(_serving_grpc(config, server, certificate, [ca], ports=ports))
        await enter(
            following_files(
                config,
                loader=loader,
                seen=seen,
                first=first,
                store=store,
                metrics=metrics,
                server=server,
                on_loaded=certificate.refresh,
            )
        )
        pages = DebugPages(store, clients=server.clients, domain_suffix=config.domain)
        monitoring = http = ""
        if config.monitoring is not None:
            app = monitoring_app(registry, pages)
            monitoring = await enter(
                serving_http(app, config.monitoring, limits=config.http_limits, ports=ports)
            )
        if config.http is not None:
            revocation_list = (lambda: revocations.der) if revocations else None
            app = public_app(readiness, revocation_list=revocation_list)
            http = await enter(
                serving_http(app, config.http, limits=config.http_limits, ports=ports)
            )
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
    address = store.snapshot.mesh_config.default_config.get("discoveryAddress")
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
        generators(store.contexts, bundle_pem=lambda: authority.root_pem),
        admit=Gatekeeper(
            authenticator,
            domain_suffix=config.domain,
            drain_time=lambda: mesh_drain_time(store.snapshot.mesh_config.default_config),
        ),
        config=ServerConfig(
            debounce_quiet_s=config.debounce_after_s,
            debounce_maximum_s=config.debounce_max_s,
            identifier="mesh-discovery",
            trim_memory_after_s=10.0,
            # Agents tell what they find, and expect no answer.
            reported_types=frozenset({type_urls.HEALTH_INFORMATION}),
        ),
        build=store.contexts.build,
        needs_push=store.contexts.needs_push,
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
    keeping = rotating_authority(
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


def _nothing_revoked(_sha256: str) -> bool:
    return False


def _ca(
    config: DiscoveryConfig,
    authority: Authority,
    authenticator: Authenticator,
    revocations: RevocationList | None,
    registry: CollectorRegistry,
) -> "grpc.GenericRpcHandler[Any, Any]":
    return certificate_service(
        authority,
        authenticator,
        credentials_of=lambda context: credentials(peer_of(context)),
        default_lifetime=config.default_lifetime,
        max_lifetime=config.max_lifetime,
        self_renewal_limit=config.self_renewal_limit,
        is_key_revoked=_nothing_revoked if revocations is None else revocations.is_key_revoked,
        registry=registry,
    )


@asynccontextmanager
async def _serving_grpc(
    config: DiscoveryConfig,
    server: XdsServer[Proxy],
    certificate: ServingCertificate,
    services: "list[grpc.GenericRpcHandler[Any, Any]]",
    *,
    ports: PortMetrics,
) -> AsyncIterator[dict[str, str]]:
    listeners: dict[str, Listener] = {}
    if config.secure_grpc is not None:
        listeners[config.secure_grpc.flag] = TlsListener(
            host=config.secure_grpc.host,
            port=config.secure_grpc.port,
            context=certificate.context,
            limits=config.grpc_limits,
        )
    if config.grpc is not None:
        listeners[config.grpc.flag] = PlainListener(
            host=config.grpc.host, port=config.grpc.port, limits=config.grpc_limits
        )
    try:
        opened = serving(server, list(listeners.values()), extra_handlers=services)
        async with AsyncExitStack() as stack:
            bound = await stack.enter_async_context(opened)
            stack_of_body = stack.pop_all()
    except ListenError as error:
        flags = " or ".join(listeners)
        raise CannotListenError(f"{flags}: {error}; free the port or give another") from error
    ports.add(*bound.ports)
    async with stack_of_body:
        yield dict(zip(listeners, bound.addresses, strict=True))


def _say_ready(plane: ControlPlane, store: ConfigStore) -> None:
    model = store.contexts.current.model
    log.info(
        "control plane ready",
        extra={
            "http": plane.http,
            "grpc": plane.grpc,
            "secure_grpc": plane.secure_grpc,
            "monitoring": plane.monitoring,
            "services": len(model.services),
            "trust_domain": model.trust_domain,
        },
    )
