"""A mesh, the proxies that it is served to, and what each of them has."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from envoy.config.endpoint.v3.endpoint_pb2 import ClusterLoadAssignment

from envoy_config import Proxy, PushContext
from envoy_config.changes import difference
from istio_config import Snapshot
from mesh_discovery import ConfigLoader
from mesh_discovery.push._affected import needs_push
from mesh_discovery.push._generators import generators
from mesh_discovery.push._served_context import ServedContext
from mesh_model import Facts, MeshModel, build_model
from references import References
from xds_server import Client, Generated, Node, PushRequest, Resource, Watch, type_urls

Resources = Mapping[str, Resource]
SHORT = {
    type_urls.CLUSTER: "CDS",
    type_urls.ENDPOINT: "EDS",
    type_urls.LISTENER: "LDS",
    type_urls.ROUTE: "RDS",
}
_BY_NAME = {type_urls.ENDPOINT: type_urls.CLUSTER, type_urls.ROUTE: type_urls.LISTENER}
"""The types that are asked for by the names in resources of another."""


@dataclass(frozen=True)
class Change:
    """The types that each proxy was sent something of, and those that it had to be."""

    sent: Mapping[Proxy, frozenset[str]]
    smallest: Mapping[Proxy, frozenset[str]]
    push: PushRequest | None
    resources: Mapping[Proxy, frozenset[str]]
    """The names of the resources that each proxy was sent new, changed or gone, with the type."""

    def sent_to(self, proxy: Proxy) -> set[str]:
        """Return the types that a proxy was sent, after they were compared with the smallest."""
        assert self.sent[proxy] == self.smallest[proxy]
        return set(self.sent[proxy])


@dataclass
class _Connected:
    client: Client[Proxy]
    has: dict[str, Resources] = field(default_factory=dict)


class Mesh:
    """Serves models built from documents, as the control plane does between its files and gRPC."""

    strict: ClassVar[bool] = False

    def __init__(self, directory: Path, **documents: str) -> None:
        """directory: an empty one, for the documents: a file of its name for each."""
        self._directory = directory
        self._loader = ConfigLoader(directory)
        self._model = self._built(self._loaded(documents))
        self._served = ServedContext(self._model)
        self._generators = generators(self._served, bundle_pem=lambda: b"")
        self._references = References()
        self._connected: dict[Proxy, _Connected] = {}

    def _built(self, snapshot: Snapshot, before: MeshModel | None = None) -> MeshModel:
        return build_model(Facts(snapshot=snapshot), strict_namespaces=self.strict, before=before)

    @property
    def model(self) -> MeshModel:
        """The model that is served."""
        return self._model

    def connect(self, *proxies: Proxy) -> None:
        """Give proxies all that they ask for."""
        for proxy in proxies:
            node = Node(id=proxy.id)
            client = Client(id=proxy.id, node=node, identities=(), context=proxy)
            self._connected[proxy] = _Connected(client)
            self._send(self._connected[proxy], None)

    def _loaded(self, documents: Mapping[str, str | None]) -> Snapshot:
        for name, text in documents.items():
            file = self._directory / f"{name}.yaml"
            if text is None:
                file.unlink()
            else:
                file.write_text(text)
        load = self._loader.load()
        assert not load.problems, [str(each) for each in load.problems]
        return load.snapshot

    def change(self, **documents: str | None) -> Change:
        """Replace documents, or remove them, push, and compare with what had to be sent."""
        before, snapshot = self._model, self._loaded(documents)
        self._model = self._built(snapshot, before)
        push = difference(before, self._model)
        self._served.pending = self._model
        if push is not None:
            self._served.build(push)
        fresh = PushContext(self._model)
        pushed: dict[Proxy, frozenset[str]] = {}
        smallest: dict[Proxy, frozenset[str]] = {}
        resources: dict[Proxy, frozenset[str]] = {}
        contents: dict[tuple[object, ...], dict[str, Resources]] = {}
        for proxy, connected in self._connected.items():
            had = dict(connected.has)
            sent: frozenset[str] = frozenset()
            if push is not None and needs_push(self._served, connected.client, push):
                sent = self._send(connected, push)
            shape = (fresh.clusters(proxy), fresh.listeners(proxy))
            of = proxy.namespace, proxy.labels, proxy.domain, fresh.scope(proxy).key
            key = (*map(id, shape), *of)
            if key not in contents:
                contents[key] = self._all_of(fresh, proxy)
            wanted = contents[key]
            pushed[proxy] = sent
            resources[proxy] = frozenset(
                f"{SHORT[url]} {name}"
                for url in SHORT
                for name, _ in _versions(had[url]).items() ^ _versions(connected.has[url]).items()
            )
            smallest[proxy] = frozenset(
                SHORT[url] for url in SHORT if _versions(had[url]) != _versions(wanted[url])
            )
            for url in SHORT:
                assert _versions(connected.has[url]) == _versions(wanted[url]), (proxy.id, url)
        return Change(pushed, smallest, push, resources)

    def assignment(self, proxy: Proxy, cluster: str) -> ClusterLoadAssignment:
        """Return the endpoints that a proxy has of a cluster."""
        return ClusterLoadAssignment.FromString(
            self._connected[proxy].has[type_urls.ENDPOINT][cluster].body
        )

    def clusters(self, proxy: Proxy) -> set[str]:
        """Return the names of a proxy's clusters."""
        return set(self._connected[proxy].has[type_urls.CLUSTER])

    def _all_of(self, context: PushContext, proxy: Proxy) -> dict[str, Resources]:
        clusters, listeners = context.clusters(proxy).by_name(), context.listeners(proxy).by_name()
        named = {
            type_urls.ENDPOINT: self._references.named_by(clusters.values()),
            type_urls.ROUTE: self._references.named_by(listeners.values()),
        }
        return {
            type_urls.CLUSTER: clusters,
            type_urls.ENDPOINT: context.endpoints(proxy, named[type_urls.ENDPOINT]).by_name(),
            type_urls.LISTENER: listeners,
            type_urls.ROUTE: context.routes(proxy, named[type_urls.ROUTE]).by_name(),
        }

    def _send(self, connected: _Connected, push: PushRequest | None) -> frozenset[str]:
        """Bring a proxy up to date as the server does; return the types that it was sent."""
        sent: set[str] = set()
        for url in (type_urls.CLUSTER, type_urls.ENDPOINT, type_urls.LISTENER, type_urls.ROUTE):
            had = connected.has.get(url, {})
            if url in _BY_NAME:
                now = self._by_name(connected, url, had, push)
            else:
                generated = self._generate(connected, url, Watch(type_url=url, wildcard=True), push)
                now = had if generated is None else generated.by_name()
            if _versions(now) != _versions(had):
                sent.add(SHORT[url])
            connected.has[url] = now
        return frozenset(sent)

    def _by_name(
        self, connected: _Connected, url: str, had: Resources, push: PushRequest | None
    ) -> Resources:
        names = self._references.named_by(connected.has[_BY_NAME[url]].values())
        now = {name: each for name, each in had.items() if name in names}
        if now and push is not None:
            watch = Watch(type_url=url, names=frozenset(now))
            generated = self._generate(connected, url, watch, push)
            if generated is not None:
                now |= generated.by_name()
        if new := names.difference(now):
            generated = self._generate(connected, url, Watch(type_url=url, names=new), None)
            now |= generated.by_name() if generated is not None else {}
        return now

    def _generate(
        self, connected: _Connected, url: str, watch: Watch, push: PushRequest | None
    ) -> Generated | None:
        return self._generators[url].generate(connected.client, watch, push)


class StrictMesh(Mesh):
    """A mesh in which each namespace governs its own hosts alone."""

    strict = True


def _versions(resources: Resources) -> dict[str, str]:
    return {name: each.version for name, each in resources.items()}
