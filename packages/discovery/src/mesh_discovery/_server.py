"""The control plane, put together: configuration in, xDS and certificates out."""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from prometheus_client import CollectorRegistry

from envoy_config import Proxy
from istio_config.addresses import split_host_port
from istio_config.kinds.mesh_config import whole_seconds
from mesh_ca import Authenticator
from mesh_discovery._config import DiscoveryConfig
from mesh_discovery._metrics import Metrics
from mesh_discovery._version import version
from mesh_discovery.parts._authority import OpenedAuthority, open_authority
from mesh_discovery.parts._configuration import open_configuration
from mesh_discovery.parts._ports import serving_grpc, serving_monitoring, serving_public
from mesh_discovery.push._affected import needs_push
from mesh_discovery.push._config_store import ConfigStore
from mesh_discovery.push._generators import generators
from mesh_discovery.push._push_reasons import control_plane_identifier
from mesh_discovery.serve._admission import ProxyAdmission
from mesh_discovery.serve._caller_authentication import authenticating
from mesh_discovery.serve._debug_pages import DebugPages
from mesh_discovery.serve._free_ports import check_free
from mesh_discovery.serve._serving_certificate import ServingCertificate, serving_certificate
from mesh_discovery.sources._source import ObjectSource
from mesh_lifecycle import Readiness
from mesh_listening.prometheus import PortMetrics
from mesh_protos import type_urls
from xds_server import NullObserver, ServerConfig, StreamObserver, XdsServer

log = logging.getLogger(__name__)

_MAX_NAME_LENGTH = 1024
"""Of a cluster, route or listener: a prefix, a port, a subset and the name of a host."""


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
async def running(
    config: DiscoveryConfig, *, sources: Sequence[ObjectSource] = ()
) -> AsyncIterator[ControlPlane]:
    """Run a control plane until the context is left.

    sources: of objects, beside the files of `config.config_dir`, which come first if it is set. Of
    an object that two of them have, the earlier one's is served.
    Raises `ConfigError` if the first configuration is not good, `CaError` if the CA's directory
    or a key set can't be used, `CannotListenError` if a port can't be had, `SettingsError` if
    there are neither files nor sources.
    """
    check_free((config.http, config.grpc, config.secure_grpc, config.monitoring))
    registry = CollectorRegistry()
    metrics = Metrics(registry, version=version())
    ports = PortMetrics()
    registry.register(ports)
    configuration = await open_configuration(config, sources, metrics=metrics)
    store = configuration.store
    opened = await open_authority(
        config, trust_domain=store.served.current.model.trust_domain, registry=registry
    )
    readiness = Readiness()
    serves = readiness.register("discovery")
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        authenticator = await enter(
            authenticating(config.tokens, opened.authority, revocations=opened.revocations)
        )
        certificate = await enter(_serving_certificate(config, store, opened, metrics))
        server = _xds_server(
            config,
            store,
            opened,
            authenticator,
            observer=configuration.workloads,
            registry=registry,
        )
        refresh = certificate.refresh if certificate is not None else _nothing
        await enter(configuration.following(notify=server.notify, on_served=refresh))
        await enter(opened.rotating(notify=server.notify, certificate=certificate))
        service = await enter(opened.serving(authenticator))
        grpc = await enter(serving_grpc(config, server, certificate, service, ports=ports))
        pages = DebugPages(
            store,
            configuration.sources.objects,
            clients=server.clients,
            domain_suffix=config.domain,
            plaintext_secrets=config.plaintext_secrets,
            believe_plaintext=config.believe_plaintext,
        )
        monitoring = await enter(serving_monitoring(config, registry, pages, ports=ports))
        revocations = opened.revocations
        revocation_list = (lambda: revocations.der) if revocations is not None else None
        http = await enter(serving_public(config, readiness, revocation_list, ports=ports))
        serves.set()
        stack.callback(serves.unset, "stopping")
        plane = ControlPlane(
            http=http,
            monitoring=monitoring,
            grpc=grpc.get("grpc", ""),
            secure_grpc=grpc.get("secure_grpc", ""),
            trust_bundle_pem=opened.root_pem,
            readiness=readiness,
        )
        _log_ready(config, plane, store)
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
    address = store.snapshot.mesh_config.default_config.discovery_address
    if address is not None:
        names.insert(0, split_host_port(address)[0])
    return tuple(dict.fromkeys(name for name in names if name))


def _xds_server(
    config: DiscoveryConfig,
    store: ConfigStore,
    opened: OpenedAuthority,
    authenticator: Authenticator,
    *,
    observer: StreamObserver[Proxy] = NullObserver(),  # noqa: B008  stateless
    registry: CollectorRegistry,
) -> XdsServer[Proxy]:
    server = XdsServer(
        generators(
            store.served,
            bundle_pem=lambda: opened.root_pem,
            plaintext_secrets=config.plaintext_secrets,
        ),
        admit=ProxyAdmission(
            authenticator,
            domain_suffix=config.domain,
            drain_time=lambda: whole_seconds(
                store.snapshot.mesh_config.default_config.drain_duration
            ),
            interception=lambda: store.snapshot.mesh_config.default_config.interception_mode,
            believe_plaintext=config.believe_plaintext,
        ),
        config=ServerConfig(
            debounce_quiet_s=config.debounce_after_s,
            debounce_maximum_s=config.debounce_max_s,
            control_plane=control_plane_identifier,
            max_name_length=_MAX_NAME_LENGTH,
            **config.client_limits._asdict(),
            trim_memory_after_s=10.0,
            # Agents tell what they find, and expect no answer.
            reported_types=frozenset({type_urls.HEALTH_INFORMATION}),
        ),
        build=store.served.build,
        needs_push=partial(needs_push, store.served),
        registry=registry,
        observer=observer,
    )
    server.set_ready()
    return server


def _nothing() -> None:
    pass


@asynccontextmanager
async def _serving_certificate(
    config: DiscoveryConfig, store: ConfigStore, opened: OpenedAuthority, metrics: Metrics
) -> AsyncIterator[ServingCertificate | None]:
    """Keep the certificate of the secure port while the block runs; None if that is off."""
    if config.secure_grpc is None:
        yield None
        return
    kept = serving_certificate(
        opened.authority,
        names=lambda: serving_names(config, store),
        lifetime=config.default_lifetime,
        on_issued=metrics.certificate_expiry.set,
    )
    async with kept as certificate:
        yield certificate


def _log_ready(config: DiscoveryConfig, plane: ControlPlane, store: ConfigStore) -> None:
    if config.grpc is not None and config.believe_plaintext:
        log.warning(
            "callers in plaintext are believed: a caller that reaches this port can read all "
            "configuration",
            extra={"grpc": plane.grpc, "change": "leave out --believe-plaintext"},
        )
    model = store.served.current.model
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
