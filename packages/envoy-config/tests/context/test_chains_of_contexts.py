"""Contexts that are built one from the other give what one that is built from nothing gives."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edited_objects import Edit, chains
from envoy_config import Proxy, PushContext
from envoy_config.context import _endpoints
from mesh_model import Facts, MeshModel, build_model
from models import EditedFolder
from proxies import proxy_of
from references import References
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


@pytest.fixture(autouse=True)
def _endpoints_of_few_clusters_are_edited_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_endpoints, "_FEW", 0)


class Chain:
    """A context, each built from the one before, as of documents that change."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._folder = EditedFolder(directory)
        self._references = References()
        self.model: MeshModel | None = None
        self.context: PushContext | None = None

    def apply(self, edits: Sequence[Edit]) -> PushContext:
        """Make the next context, after some edits."""
        for name, text in edits:
            file = self._directory / f"{name}.yaml"
            if text is None:
                file.unlink(missing_ok=True)
            else:
                file.write_text(text)
        self.model = build_model(Facts(snapshot=self._folder.load()), before=self.model)
        self.context = PushContext(self.model, before=self.context)
        return self.context

    def fresh(self) -> PushContext:
        """Return a context that is built from the files alone."""
        return PushContext(build_model(Facts(snapshot=EditedFolder(self._directory).load())))

    def contents(self, context: PushContext, proxy: Proxy) -> Contents:
        """Return all that a proxy is given, by kind and name."""
        clusters, listeners = context.clusters(proxy), context.listeners(proxy)
        found = {
            "clusters": clusters,
            "listeners": listeners,
            "endpoints": context.endpoints(proxy, self._references.named_by(clusters.resources)),
            "routes": context.routes(proxy, self._references.named_by(listeners.resources)),
            "names": context.names(proxy),
        }
        return {
            kind: {name: each.body for name, each in resources.by_name().items()}
            for kind, resources in found.items()
        }


@pytest.mark.slow
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(chains(), st.data())
def test_any_chain_of_edits_ends_as_a_context_built_from_nothing(
    tmp_path_factory: pytest.TempPathFactory, steps: list[list[Edit]], data: st.DataObject
) -> None:
    chain = Chain(tmp_path_factory.mktemp("mesh"))
    for step in steps:
        context = chain.apply(step)
        fresh = chain.fresh()
        # Not every proxy asks after every edit.
        for proxy in data.draw(st.sets(st.sampled_from(PROXIES))):
            assert chain.contents(context, proxy) == chain.contents(fresh, proxy)
