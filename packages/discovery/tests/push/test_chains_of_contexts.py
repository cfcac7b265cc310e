"""Contexts that are made one of the other give what one that is made of nothing gives."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edited_objects import Edit, kinds
from mesh_discovery import ConfigLoader
from mesh_discovery.model._facts import Facts
from mesh_discovery.model._model import MeshModel, build_model
from mesh_discovery.plan._proxy import Proxy
from mesh_discovery.push.context import _endpoints
from mesh_discovery.push.context._context import PushContext
from proxies import proxy_of
from told import Mesh, References, router, sidecar
from xds_server import Node

Contents = Mapping[str, Mapping[str, bytes]]


def _proxy(kind: str, address: str, namespace: str, mode: str = "", **labels: str) -> Proxy:
    return proxy_of(
        Node(
            id=f"{kind}~{address}~p.{namespace}~{namespace}.svc.cluster.local",
            metadata={"NAMESPACE": namespace, "LABELS": labels, "INTERCEPTION_MODE": mode},
            region="r1",
            zone="z1",
        )
    )


PROXIES = (
    _proxy("sidecar", "10.4.0.1", "a", "REDIRECT"),
    _proxy("sidecar", "10.4.0.2", "a", "REDIRECT", app="web"),
    _proxy("sidecar", "10.4.0.3", "b", "NONE"),
    _proxy("sidecar", "10.4.0.9", "a", "NONE", app="web"),
    _proxy("router", "10.4.3.1", "a", istio="ingressgateway"),
    _proxy("router", "10.4.3.2", "b", istio="ingressgateway"),
)
_KINDS = kinds()
_ANY = st.one_of(*map(st.sampled_from, _KINDS))
_FIRST = st.tuples(
    st.lists(st.sampled_from(_KINDS[0]), min_size=2, max_size=6),
    st.lists(_ANY, max_size=6),
).map(lambda both: [*both[0], *both[1]])
_STEPS = st.tuples(
    _FIRST, st.lists(st.lists(_ANY, min_size=1, max_size=2), min_size=2, max_size=10)
).map(lambda both: [both[0], *both[1]])


@pytest.fixture(autouse=True)
def _endpoints_of_few_clusters_are_edited_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_endpoints, "_FEW", 0)


class Chain:
    """A context, each made of the one before, as of documents that change."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._loader = ConfigLoader(directory)
        self._references = References()
        self.model: MeshModel | None = None
        self.context: PushContext | None = None

    def apply(self, edits: Sequence[Edit]) -> PushContext:
        """Make the next context, after some edits."""
        changed = []
        for name, text in edits:
            file = self._directory / f"{name}.yaml"
            if text is None:
                file.unlink(missing_ok=True)
            else:
                file.write_text(text)
            changed.append((str(self._directory), file.name))
        load = self._loader.load(changed)
        assert not load.problems, [str(each) for each in load.problems]
        self.model = build_model(Facts(snapshot=load.snapshot), before=self.model)
        self.context = PushContext(self.model, before=self.context)
        return self.context

    def fresh(self) -> PushContext:
        """Return a context that is made of the files alone."""
        return PushContext(
            build_model(Facts(snapshot=ConfigLoader(self._directory).load().snapshot))
        )

    def contents(self, context: PushContext, proxy: Proxy) -> Contents:
        """Return all that a proxy is given, by kind and name."""
        clusters, listeners = context.clusters(proxy), context.listeners(proxy)
        found = {
            "clusters": clusters,
            "listeners": listeners,
            "endpoints": context.endpoints(proxy, self._references.of(clusters.resources)),
            "routes": context.routes(proxy, self._references.of(listeners.resources)),
            "names": context.names(proxy),
        }
        return {
            kind: {name: each.body for name, each in made.by_name().items()}
            for kind, made in found.items()
        }


@pytest.mark.slow
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(_STEPS, st.data())
def test_any_chain_of_edits_ends_as_a_context_made_of_nothing(
    tmp_path_factory: pytest.TempPathFactory, steps: list[list[Edit]], data: st.DataObject
) -> None:
    chain = Chain(tmp_path_factory.mktemp("mesh"))
    for step in steps:
        context = chain.apply(step)
        fresh = chain.fresh()
        # Not every proxy asks after every edit.
        for proxy in data.draw(st.sets(st.sampled_from(PROXIES))):
            assert chain.contents(context, proxy) == chain.contents(fresh, proxy)


@pytest.mark.slow
@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(_STEPS)
def test_proxies_that_are_pushed_to_have_what_a_fresh_start_has(
    tmp_path_factory: pytest.TempPathFactory, steps: list[list[Edit]]
) -> None:
    directory = tmp_path_factory.mktemp("mesh")
    mesh = Mesh(directory)
    mesh.connect(
        sidecar("a", address="10.4.0.1"),
        sidecar("a", address="10.4.0.2", labels={"app": "web"}),
        sidecar("b", address="10.4.0.3", mode="NONE"),
        router("a", labels={"istio": "ingressgateway"}),
    )
    for step in steps:
        changes = {
            name: text
            for name, text in step
            if text is not None or (directory / f"{name}.yaml").exists()
        }
        mesh.change(**changes)  # compares what each proxy has with a fresh start
