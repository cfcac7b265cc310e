"""The control plane, put together: configuration in, xDS and certificates out.

Parts start in the order of `running`, and stop in its reverse.
"""

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry

from envoy_config import Proxy
from mesh_discovery._config import DiscoveryConfig
from mesh_discovery._metrics import Metrics
from mesh_discovery._version import version
from mesh_discovery.parts._authority import open_authority
from mesh_discovery.parts._configuration import open_configuration
from mesh_discovery.parts._ports import serving_ports
from mesh_discovery.parts._xds_server import xds_server
from mesh_discovery.push._config_store import ConfigStore
from mesh_discovery.serve._debug_answers import debug_answerers
from mesh_discovery.serve._debug_callers import DebugCallers
from mesh_discovery.serve._debug_pages import DebugPages
from mesh_discovery.serve._free_ports import check_free
from mesh_discovery.sources._source import ObjectSource
from mesh_lifecycle import Readiness
from xds_server import Answerer

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
    configuration = await open_configuration(config, sources, metrics=metrics)
    store = configuration.store
    trust_domain = store.served.current.model.trust_domain
    authority = await open_authority(config, trust_domain=trust_domain, registry=registry)
    readiness = Readiness()
    serves = readiness.register("discovery")
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        authenticator = await enter(authority.authenticating())
        certificate = await enter(authority.serving_certificate(store, metrics=metrics))
        pages = DebugPages(
            store,
            configuration.sources.objects,
            clients=lambda: server.clients(),  # noqa: PLW0108  the server is created below
            domain_suffix=config.domain,
            plaintext_secrets=config.plaintext_secrets,
            believe_plaintext=config.believe_plaintext,
        )
        server = xds_server(
            config,
            store,
            authenticator,
            bundle_pem=lambda: authority.root_pem,
            answerers=_debug_answerers(config, store, pages, trust_domain=trust_domain),
            observer=configuration.workloads,
            registry=registry,
        )
        refresh = certificate.refresh if certificate is not None else None
        await enter(configuration.following(notify=server.notify, on_served=refresh))
        await enter(authority.rotating(notify=server.notify, certificate=certificate))
        signing = await enter(authority.serving(authenticator))
        metrics.watch_proxies(lambda: len(pages.without_service()))
        addresses = await enter(
            serving_ports(
                config,
                server=server,
                signing=signing,
                certificate=certificate,
                pages=pages,
                readiness=readiness,
                revocation_list=authority.revocation_list,
                registry=registry,
            )
        )
        serves.set()
        stack.callback(serves.unset, "stopping")
        plane = ControlPlane(
            http=addresses.http,
            monitoring=addresses.monitoring,
            grpc=addresses.grpc,
            secure_grpc=addresses.secure_grpc,
            trust_bundle_pem=authority.root_pem,
            readiness=readiness,
        )
        _log_ready(config, plane, store)
        yield plane


def _debug_answerers(
    config: DiscoveryConfig, store: ConfigStore, pages: DebugPages, *, trust_domain: str
) -> Mapping[str, Answerer[Proxy]]:
    if not config.has_debug_pages:
        return {}
    own = {config.namespace, *config.debug_namespaces}
    callers = DebugCallers(
        trust_domain=trust_domain,
        admins=lambda: own | {store.snapshot.mesh_config.root_namespace},
    )
    return debug_answerers(pages, callers)


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
