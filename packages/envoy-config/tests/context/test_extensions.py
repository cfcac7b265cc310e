"""The modules of extensions as resources, who gets the secrets of registries, and pushes."""

import json
from collections.abc import Callable

import pytest
from envoy.config.core.v3.extension_pb2 import TypedExtensionConfig
from envoy.extensions.filters.http.lua.v3 import lua_pb2
from envoy.extensions.filters.http.wasm.v3 import wasm_pb2 as http_pb2
from envoy.extensions.filters.network.wasm.v3 import wasm_pb2 as network_pb2
from envoy.extensions.wasm.v3.wasm_pb2 import FailurePolicy, PluginConfig
from google.protobuf.wrappers_pb2 import StringValue

from envoy_config.changes import TOUCHES, Part, difference
from envoy_config.context._context import PushContext
from envoy_config.plan._proxy import Proxy, as_stranger
from envoy_config.plan.extensions._extensions import extensions_of, has_pull_secrets
from istio_config.kinds.traffic_extension import MOST_EXTENSIONS
from mesh_model import MeshModel
from proxies import proxy, proxyless

Build = Callable[..., MeshModel]
PREFIX = "extensions.istio.io/trafficextension/"
MARK = "~istio-translated-wasmplugin"
SECRET = "ISTIO_META_WASM_IMAGE_PULL_SECRET"
DOCKER = '{"auths":{"registry.example":{"auth":"bWU6c2VjcmV0"}}}'
PROVEN = ("spiffe://cluster.local/ns/default/sa/web",)
PLUGIN = """\
apiVersion: extensions.istio.io/v1alpha1
kind: WasmPlugin
metadata: {{name: {name}, namespace: {namespace}}}
spec: {{{spec}}}
"""
SCRIPT = "function envoy_on_request(handle) end"
PULLED = "url: registry.example/plugin:v1, imagePullSecret: registry"


def plugin(spec: str, *, name: str = "p", namespace: str = "default") -> str:
    return PLUGIN.format(name=name, namespace=namespace, spec=spec)


def docker(namespace: str = "default", kind: str = "kubernetes.io/dockerconfigjson") -> str:
    data = json.dumps({".dockerconfigjson": DOCKER})
    return (
        f"apiVersion: v1\nkind: Secret\nmetadata: {{name: registry, namespace: {namespace}}}\n"
        f"type: {kind}\nstringData: {data}\n"
    )


def known(account: str = "web", labels: str = "{app: web}") -> str:
    return (
        "apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\n"
        f"metadata: {{name: known, namespace: default}}\n"
        f"spec: {{address: 127.93.1.9, serviceAccount: {account}, labels: {labels}}}\n"
    )


def wasm(
    model: MeshModel,
    *,
    of: Proxy | None = None,
    name: str = f"default.p{MARK}",
    identities: tuple[str, ...] = PROVEN,
    believed: bool = False,
) -> PluginConfig | None:
    """Return the module that a proxy gets by its name."""
    wanted = frozenset({PREFIX + name})
    given = PushContext(model).extensions(of or proxy(), wanted, identities, believed=believed)
    if not given.resources:
        assert given.removed == wanted
        return None
    (resource,) = given.resources
    typed = TypedExtensionConfig.FromString(resource.body)
    assert typed.name == resource.name == PREFIX + name
    kind = network_pb2.Wasm if "network" in typed.typed_config.type_url else http_pb2.Wasm
    found = kind()
    assert typed.typed_config.Unpack(found)
    return found.config


def secret_of(found: PluginConfig | None) -> str | None:
    assert found is not None
    return dict(found.vm_config.environment_variables.key_values).get(SECRET)


def test_a_module_is_said_in_full(model_of: Build) -> None:
    model = model_of(
        plugin(
            "url: 'https://modules.example/a.wasm', sha256: " + "a" * 64 + ", pluginName: root, "
            "pluginConfig: {b: [1, {c: d}], a: true}, failStrategy: FAIL_OPEN, "
            "imagePullPolicy: Always, vmConfig: {env: [{name: A, value: b}, "
            "{name: HOME, valueFrom: HOST}, {name: ISTIO_META_X, value: y}]}"
        )
    )
    found = wasm(model)
    assert found is not None
    assert (found.name, found.root_id) == (f"default.p{MARK}", "root")
    assert found.failure_policy == FailurePolicy.FAIL_OPEN
    given = StringValue()
    assert found.configuration.Unpack(given)
    assert json.loads(given.value) == {"a": True, "b": [1, {"c": "d"}]}
    machine = found.vm_config
    assert machine.runtime == "envoy.wasm.runtime.v8"
    remote = machine.code.remote
    assert (remote.http_uri.uri, remote.sha256) == ("https://modules.example/a.wasm", "a" * 64)
    variables = dict(machine.environment_variables.key_values)
    assert variables.pop("ISTIO_META_WASM_PLUGIN_RESOURCE_VERSION")
    assert variables == {"A": "b", "ISTIO_META_WASM_IMAGE_PULL_POLICY": "Always"}
    assert list(machine.environment_variables.host_env_keys) == ["HOME"]


@pytest.mark.parametrize(
    ("url", "remote", "local"),
    [
        ("registry.example/p:v1", "oci://registry.example/p:v1", ""),
        ("oci://registry.example/p:v1", "oci://registry.example/p:v1", ""),
        ("http://modules.example/p", "http://modules.example/p", ""),
        ("file:///var/lib/p.wasm", "", "/var/lib/p.wasm"),
    ],
)
def test_a_url_without_a_scheme_is_of_an_image(
    url: str, remote: str, local: str, model_of: Build
) -> None:
    found = wasm(model_of(plugin(f"url: '{url}', type: NETWORK")))
    assert found is not None
    code = found.vm_config.code
    assert (code.remote.http_uri.uri, code.local.filename) == (remote, local)
    assert found.failure_policy == FailurePolicy.FAIL_CLOSED


def test_the_version_of_a_module_is_that_of_what_is_fetched_and_given(model_of: Build) -> None:
    def version(spec: str) -> str:
        found = wasm(model_of(plugin(spec)))
        assert found is not None
        return found.vm_config.environment_variables.key_values[
            "ISTIO_META_WASM_PLUGIN_RESOURCE_VERSION"
        ]

    first = version("url: registry.example/p")
    assert first == version("url: registry.example/p, priority: 5, selector: {}")
    assert first != version("url: registry.example/p, pluginConfig: {a: b}")
    assert first != version("url: registry.example/q")


def test_a_registrys_secret_goes_to_proven_workloads_that_the_object_selects(
    model_of: Build,
) -> None:
    for_all = model_of(plugin(PULLED), docker())
    assert secret_of(wasm(for_all)) == DOCKER
    # Nothing is proven, or another namespace, or something that is no account at all.
    for identities in (
        (),
        ("spiffe://cluster.local/ns/other/sa/web",),
        ("spiffe://cluster.local/ns/default",),
    ):
        assert secret_of(wasm(for_all, identities=identities)) == "", identities
    # A caller in plaintext is whom it says where the operator says so; not with other proof.
    assert secret_of(wasm(for_all, identities=(), believed=True)) == DOCKER
    other = ("spiffe://cluster.local/ns/other/sa/web",)
    assert secret_of(wasm(for_all, identities=other, believed=True)) == ""

    spec = PULLED + ", selector: {matchLabels: {app: web}}"
    claims = proxy(LABELS={"app": "web"})
    # The labels of its node are its own word.
    assert secret_of(wasm(model_of(plugin(spec), docker()), of=claims)) == ""
    assert secret_of(wasm(model_of(plugin(spec), docker(), known("else")), of=claims)) == ""
    assert secret_of(wasm(model_of(plugin(spec), docker(), known()), of=claims)) == DOCKER


def test_a_registrys_secret_is_of_the_namespace_of_its_object(model_of: Build) -> None:
    root = plugin(PULLED, namespace="istio-system")
    name = f"istio-system.p{MARK}"
    assert secret_of(wasm(model_of(root, docker("istio-system")), name=name)) == DOCKER
    assert secret_of(wasm(model_of(root, docker()), name=name)) == ""
    elsewhere = plugin("url: registry.example/p, imagePullSecret: istio-system/registry")
    assert secret_of(wasm(model_of(elsewhere, docker("istio-system")))) == ""
    assert secret_of(wasm(model_of(elsewhere, docker()))) == DOCKER
    assert secret_of(wasm(model_of(plugin(PULLED), docker(kind="Opaque")))) == ""


def test_of_other_namespaces_and_to_strangers_and_grpc_programs_there_is_nothing(
    model_of: Build,
) -> None:
    model = model_of(plugin(PULLED), docker(), plugin(PULLED, namespace="other"))
    assert wasm(model, name=f"other.p{MARK}") is None
    assert wasm(model, of=as_stranger(proxy())) is None
    assert wasm(model, of=proxyless()) is None
    assert extensions_of(proxyless(), model) == ()


def test_extensions_of_both_kinds_have_one_order(model_of: Build) -> None:
    script = (
        "apiVersion: extensions.istio.io/v1alpha1\nkind: TrafficExtension\n"
        "metadata: {name: %s, namespace: %s}\n"
        "spec: {%slua: {inlineCode: 'function envoy_on_request(h) end'}}\n"
    )
    model = model_of(
        plugin("url: a.example/p, priority: 3", name="third"),
        plugin("url: a.example/p", name="fifth"),
        plugin("url: a.example/p, priority: -1", name="fourth"),
        script % ("first", "default", "priority: 7, "),
        script % ("second", "istio-system", "priority: 7, "),
        script % ("last", "istio-system", ""),
    )
    names = [each.name.removeprefix(PREFIX) for each in extensions_of(proxy(), model)]
    assert [each.partition(".")[2].removesuffix(MARK) for each in names] == [
        "first",
        "second",
        "third",
        "fourth",
        "fifth",
        "last",
    ]


def test_what_changes_of_a_module_is_pushed_with_its_listeners_and_its_secret_alone(
    model_of: Build,
) -> None:
    def changed(before: list[str], after: list[str]) -> set[tuple[str, str]]:
        request = difference(model_of(*before), model_of(*after))
        assert request is not None
        return {(key.kind, key.name) for key in request.configs_updated}

    assert changed([plugin(PULLED), docker()], [plugin(PULLED + ", phase: AUTHN"), docker()]) == {
        ("WasmPlugin", "p")
    }
    assert ("Secret", "registry") in changed([plugin(PULLED)], [plugin(PULLED), docker()])
    sidecars = TOUCHES["WasmPlugin"].sidecars
    assert sidecars == {Part.LISTENERS, Part.EXTENSIONS}
    assert Part.EXTENSIONS in TOUCHES["Secret"].sidecars
    model = model_of(plugin(PULLED))
    assert has_pull_secrets(proxy(), model, "default")
    assert not has_pull_secrets(proxy(), model, "other")
    assert not has_pull_secrets(proxy(), model_of(plugin("url: a.example/p")), "default")


def traffic_extension(name: str, lua: str = SCRIPT, *, namespace: str = "default") -> str:
    return (
        "apiVersion: extensions.istio.io/v1alpha1\nkind: TrafficExtension\n"
        f"metadata: {{name: {name}, namespace: {namespace}}}\n"
        f"spec: {{lua: {{inlineCode: '{lua}'}}}}\n"
    )


def test_a_script_is_sent_once_however_many_listeners_run_it(model_of: Build) -> None:
    long = SCRIPT + " " * 60_000
    services = (
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\n"
        f"metadata: {{name: s{number}, namespace: default}}\n"
        f"spec: {{hosts: [s{number}.example], addresses: [10.8.1.{number}], resolution: STATIC, "
        f"ports: [{{number: {9000 + number}, name: http, protocol: HTTP}}], "
        f"endpoints: [{{address: 127.93.2.{number}}}]}}\n"
        for number in range(100)
    )
    names = [f"e{number}" for number in range(20)]
    context = PushContext(model_of(*services, *(traffic_extension(each, long) for each in names)))
    listeners = context.listeners(proxy(INTERCEPTION_MODE="REDIRECT")).resources
    filters = sum(each.body.count((PREFIX + "default.e7").encode()) for each in listeners)
    assert filters >= 100
    assert sum(len(each.body) for each in listeners) < 2_000_000
    wanted = frozenset(f"{PREFIX}default.{each}" for each in names)
    sent = context.extensions(proxy(), wanted, (), believed=False).resources
    assert {each.name for each in sent} == wanted
    lua = lua_pb2.Lua()
    config = TypedExtensionConfig.FromString(sent[0].body)
    assert config.typed_config.Unpack(lua)
    assert lua.default_source_code.inline_string == long


def test_of_a_namespace_the_oldest_hundred_act_at_a_proxy(model_of: Build) -> None:
    names = [f"e{number:03}" for number in range(MOST_EXTENSIONS + 5)]
    root = "istio-system"
    own = [traffic_extension(each) for each in names]
    of_root = [traffic_extension(each, namespace=root) for each in names[:7]]
    model = model_of(*own, *of_root, plugin("url: a.example/p", name="e0000"))
    given = [each.name.removeprefix(PREFIX) for each in extensions_of(proxy(), model)]
    expected = [f"default.{each}" for each in names[: MOST_EXTENSIONS - 1]]
    assert [each for each in given if not each.startswith(root)] == [
        expected[0],
        f"default.e0000{MARK}",
        *expected[1:],
    ]
    assert [each for each in given if each.startswith(root)] == [
        f"{root}.{each}" for each in names[:7]
    ]
    beyond = frozenset({f"{PREFIX}default.{names[-1]}"})
    assert PushContext(model).extensions(proxy(), beyond, (), believed=False).removed == beyond
