"""A ProxyConfig is pushed to the agents that it is for, beside the roots, and to no others."""

from collections.abc import Callable, Mapping

import pytest

from envoy_config import Proxy, as_stranger
from envoy_config.changes import difference
from mesh_ca.testing import throwaway_authority
from mesh_discovery.push._affected import needs_push
from mesh_discovery.push._generators import generators
from mesh_discovery.push._proxy_configs import trust_bundle_changed
from mesh_discovery.push._served_context import ServedContext
from mesh_model import MeshModel
from mesh_protos import type_urls
from mesh_protos.proxy_config_pb2 import ProxyConfig
from proxies import proxyless
from pushed_meshes import router, service, sidecar
from xds_server import Client, Node, PushRequest, Watch

Build = Callable[..., MeshModel]
ROOT_PEM = throwaway_authority().root_pem
WATCH = Watch(type_url=type_urls.PROXY_CONFIG, wildcard=True)
WEB = "selector: {matchLabels: {app: web}}, "


def proxy_config(name: str, namespace: str, spec: str) -> str:
    return (
        "apiVersion: networking.istio.io/v1beta1\nkind: ProxyConfig\n"
        f"metadata: {{name: {name}, namespace: {namespace}}}\nspec: {{{spec}}}\n"
    )


class Served:
    """Models that are served one after the other, and who is sent something at each change."""

    def __init__(self, model_of: Build, **proxies: Proxy) -> None:
        self._model_of = model_of
        self._model = model_of(service("web"))
        self._context = ServedContext(self._model)
        self._generators = generators(self._context, bundle_pem=lambda: ROOT_PEM)
        self._clients = {
            name: Client(id=name, node=Node(id=each.id), identities=(), context=each)
            for name, each in proxies.items()
        }
        self.has = {name: self._generated(name, None) for name in self._clients}

    def change(self, *documents: str) -> set[str]:
        """Serve a mesh of documents; return who was sent a proxy config, each another one."""
        old, self._model = self._model, self._model_of(service("web"), *documents)
        push = difference(old, self._model)
        assert push is not None
        self._context.pending = self._model
        self._context.build(push)
        sent = set()
        for name, client in self._clients.items():
            now = self.has[name]
            if needs_push(self._context, client, push):
                now = self._generated(name, push) or now
            assert now == self._generated(name, None), "as it would be after a new start"
            if now != self.has[name]:
                sent.add(name)
            self.has[name] = now
        return sent

    def pushed_types(self, name: str, push: PushRequest) -> set[str]:
        """Return the types that a push has something of, for a client that it is sent to."""
        return {
            url.rpartition(".")[2]
            for url, each in self._generators.items()
            if each.generate(self._clients[name], WATCH, push) is not None
        }

    def _generated(self, name: str, push: PushRequest | None) -> bytes | None:
        generated = self._generators[WATCH.type_url].generate(self._clients[name], WATCH, push)
        if generated is None:
            return None
        (resource,) = generated.resources
        return resource.body

    def settings(self, name: str) -> tuple[int | None, Mapping[str, str]]:
        body = self.has[name]
        assert body is not None
        config = ProxyConfig.FromString(body)
        assert list(config.ca_certificates_pem) == [ROOT_PEM.decode()]
        concurrency = config.concurrency.value if config.HasField("concurrency") else None
        return concurrency, dict(config.proxy_metadata)


@pytest.fixture
def served(model_of: Build) -> Served:
    return Served(
        model_of,
        web=sidecar(labels={"app": "web"}),
        other=sidecar(),
        gateway=router(labels={"app": "web"}),
        grpc=proxyless(namespace="a", LABELS={"app": "web"}),
        elsewhere=sidecar("b", labels={"app": "web"}),
        stranger=as_stranger(sidecar(labels={"app": "web"}, mode="NONE")),
    )


OF_A = {"web", "other", "gateway", "grpc"}
OF_WEB = {"web", "gateway", "grpc"}


def test_each_level_is_sent_to_those_that_it_is_for(served: Served) -> None:
    mesh = proxy_config("mesh", "istio-system", "concurrency: 1, environmentVariables: {A: m}")
    namespace = proxy_config("all", "a", "environmentVariables: {A: n, B: n}")
    web = proxy_config("web", "a", f"{WEB}concurrency: 0, environmentVariables: {{B: w}}")

    assert served.change(mesh) == {*OF_A, "elsewhere"}
    assert served.change(mesh, namespace) == OF_A
    assert served.change(mesh, namespace, web) == OF_WEB
    assert {name: served.settings(name) for name in served.has} == {
        **dict.fromkeys(OF_WEB, (0, {"A": "n", "B": "w"})),
        "other": (1, {"A": "n", "B": "n"}),
        "elsewhere": (1, {"A": "m"}),
        "stranger": (None, {}),
    }
    assert served.change(mesh, namespace) == OF_WEB
    assert served.change(namespace) == {*OF_A, "elsewhere"}
    assert served.change() == OF_A


def test_one_that_has_no_effect_beside_an_older_one_is_sent_to_no_one(served: Served) -> None:
    # Of those that come together the first by name counts as the oldest.
    first = proxy_config("first", "a", "concurrency: 1")
    second = proxy_config("second", "a", "concurrency: 2")
    assert served.change(first) == OF_A
    assert served.change(first, second) == set()
    assert served.change(second) == OF_A
    assert served.settings("web") == (2, {})


def test_the_image_and_what_others_have_is_sent_to_no_one(served: Served) -> None:
    assert served.change(proxy_config("i", "a", "image: {imageType: debug}")) == set()
    assert served.change(proxy_config("i", "elsewhere", "concurrency: 1")) == set()


def test_nothing_else_is_pushed_with_it(served: Served, model_of: Build) -> None:
    before = model_of(service("web"))
    change = difference(before, model_of(service("web"), proxy_config("p", "a", "concurrency: 1")))
    assert change is not None
    for name in ("web", "grpc", "gateway"):
        for push in (change, trust_bundle_changed()):
            assert served.pushed_types(name, push) == {"ProxyConfig"}
