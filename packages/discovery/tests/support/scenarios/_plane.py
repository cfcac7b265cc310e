"""A control plane in the process of the test, which reads its configuration when a test says so."""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from prometheus_client import CollectorRegistry

from envoy_config import Proxy, PushContext
from mesh_address_guard import AddressGuard
from mesh_ca import Authority, ClientCertificateAuthenticator
from mesh_configfile import Problem
from mesh_discovery._config import Address, DiscoveryConfig
from mesh_discovery._metrics import Metrics
from mesh_discovery.parts._authority import open_authority, serving_names
from mesh_discovery.parts._xds_server import xds_server
from mesh_discovery.push._config_store import ConfigStore
from mesh_discovery.serve._debug_pages import DebugPages
from mesh_discovery.serve._serving_certificate import serving_certificate
from mesh_discovery.sources._all_sources import Sources
from mesh_discovery.sources.files._file_source import FileSource
from mesh_discovery.sources.files._loader import ConfigLoader
from mesh_discovery.sources.key_sets._key_set_fetcher import KeySetFetcher
from mesh_discovery.sources.registration._registered_workloads import RegisteredWorkloads
from mesh_discovery.sources.registration._workload_observer import WorkloadObserver
from proxies import proxy_of
from xds_server import (
    ClientStatus,
    PlainListener,
    PushRequest,
    TlsListener,
    XdsServer,
    serving,
)


class Refused(AssertionError):
    """An Envoy refused what it was sent."""


@dataclass
class ScenePlane:
    """A control plane over a directory."""

    directory: Path
    store: ConfigStore
    server: XdsServer[Proxy]
    pages: DebugPages
    authority: Authority
    grpc: str
    secure_grpc: str
    _loader: ConfigLoader
    _files: FileSource
    _sources: Sources
    _pushed: bool = False
    _fresh: PushContext | None = None
    warnings: Sequence[Problem] = ()
    """Of what was read last: accepted as it is, and probably not meant."""

    def write(self, documents: dict[str, str | None]) -> None:
        for name, text in documents.items():
            file = self.directory / f"{name}.yaml"
            if text is None:
                file.unlink(missing_ok=True)
            else:
                file.write_text(text)

    def load(self) -> Sequence[Problem]:
        """Read the configuration again, start to push what changed, and return what is wrong."""

        def notify(request: PushRequest) -> None:
            self._pushed = True
            self.server.notify(request)

        self._pushed = False
        loaded = self._loader.load()
        if self._files.take(loaded):
            self.serve(notify)
        self.warnings = loaded.snapshot.warnings
        return loaded.problems

    def serve(self, notify: Callable[[PushRequest], None]) -> None:
        """Serve what the sources know now."""
        self.store.serve(self._sources.facts, notify)
        self._sources.on_model(self.store.served.pending)

    @property
    def context(self) -> PushContext:
        return self.store.served.current

    @property
    def is_built(self) -> bool:
        """Whether the configuration that was read last is served, or no proxy can see it."""
        return not self._pushed or self.store.served.pending is self.context.model

    def fresh_context(self) -> PushContext:
        """Return a context of what was read last, which takes nothing over from one before."""
        model = self.store.served.pending
        if self._fresh is None or self._fresh.model is not model:
            self._fresh = PushContext(model)
        return self._fresh

    def client(self, node_id: str) -> ClientStatus | None:
        """Return the newest stream of a proxy."""
        found = [each for each in self.server.clients() if each.node.id == node_id]
        return max(found, key=lambda each: each.connected_since, default=None)

    def proxy(self, client: ClientStatus) -> Proxy:
        return proxy_of(client.node)


def refusals(clients: Iterable[ClientStatus]) -> list[str]:
    """Return what clients refuse at the moment, with their reasons."""
    return [
        f"{client.node.id} refused {url.rpartition('.')[2]}: {each.nack.message}"
        for client in clients
        for url, each in client.types.items()
        if each.nack is not None
    ]


@asynccontextmanager
async def scene_plane(
    directory: Path, ca_dir: Path, *, strict_namespaces: bool = False
) -> AsyncIterator[ScenePlane]:
    """Serve xDS over a configuration directory, on a free port of 127.0.0.1."""
    config = DiscoveryConfig(
        config_dir=directory,
        mesh_config=None,
        ca_dir=ca_dir,
        tokens=None,
        http=None,
        grpc=Address(host="127.0.0.1", port=0, flag="--grpc-addr"),
        secure_grpc=None,
        monitoring=None,
        debounce_after_s=0.0,
        believe_plaintext=True,
        plaintext_secrets=True,
    )
    registry = CollectorRegistry()
    loader = ConfigLoader(directory)
    workloads = WorkloadObserver(RegisteredWorkloads(grace_s=config.workload_grace_s))
    key_sets = KeySetFetcher(guard=AddressGuard())
    metrics = Metrics(registry, version="0")
    files = FileSource(loader, loader.load(), metrics=metrics)
    sources = Sources(files, workloads, key_sets)
    store = ConfigStore(
        sources.facts,
        metrics=metrics,
        trust_domain=config.trust_domain,
        strict_namespaces=strict_namespaces,
        domain="cluster.local",
        scope_gateways=False,
    )
    opened = await open_authority(
        config, trust_domain=store.served.current.model.trust_domain, registry=registry
    )
    server = xds_server(
        config,
        store,
        ClientCertificateAuthenticator(),
        bundle_pem=lambda: opened.root_pem,
        answerers={},
        observer=workloads,
        registry=registry,
    )
    async with (
        serving_certificate(
            opened.authority,
            names=lambda: serving_names(config, store),
            lifetime=config.default_lifetime,
        ) as certificate,
        serving(server, [PlainListener(), TlsListener(context=certificate.context)]) as bound,
    ):
        plane = ScenePlane(
            directory=directory,
            store=store,
            server=server,
            pages=DebugPages(
                store,
                files,
                clients=server.clients,
                domain_suffix=config.domain,
                believe_plaintext=True,
            ),
            authority=opened.authority,
            grpc=bound.addresses[0],
            secure_grpc=bound.addresses[1],
            _loader=loader,
            _files=files,
            _sources=sources,
        )
        sources.on_model(store.served.pending)
        serve = partial(plane.serve, server.notify)
        async with workloads.following(serve), key_sets.following(serve):
            yield plane
