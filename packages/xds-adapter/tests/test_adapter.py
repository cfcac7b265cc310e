"""Resources and the changes that are applied to them."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from envoy.config.core.v3 import base_pb2, extension_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.config.route.v3 import route_components_pb2, route_pb2
from envoy.extensions.filters.http.wasm.v3 import wasm_pb2
from envoy.extensions.filters.network.http_connection_manager.v3 import (
    http_connection_manager_pb2 as manager_pb2,
)
from envoy.service.discovery.v3 import discovery_pb2
from google.protobuf import any_pb2, json_format
from hypothesis import given
from hypothesis import strategies as st

from mesh_protowire import bytes_field
from nodes import ISTIOS_OWN, PLAIN, node
from sidecar import CLUSTER, LISTENER, ROUTES, TYPES, Dictionary, Sidecar, serialised
from xds_adapter import Action, Adapter, Change, Extensions, adapt, read_extensions

HttpFilter = manager_pb2.HttpFilter
AUTHN = "istio.envoy.config.filter.http.authn.v2alpha1.FilterConfig"
RBAC = "envoy.extensions.filters.http.rbac.v3.RBAC"
ECDS = TYPES + "envoy.config.core.v3.TypedExtensionConfig"


def _extensions(*listed: dict[str, dict[str, list[str]]]) -> Extensions:
    found = read_extensions(node(*listed))
    assert found is not None
    return found


EXTENSIONS = _extensions(PLAIN)


def body(type_url: str, value: bytes) -> bytes:
    return any_pb2.Any(type_url=type_url, value=value).SerializeToString()


def value(resource: bytes) -> bytes:
    return any_pb2.Any.FromString(resource).value


def listener_with(filters: list[Dictionary], **manager: object) -> bytes:
    """A listener whose HTTP filters these are."""
    kind = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
    config = {"@type": TYPES + kind, "stat_prefix": "in", "http_filters": filters, **manager}
    chain = {"filters": [{"name": "http", "typed_config": config}]}
    return body(LISTENER, serialised(LISTENER, {"name": "a", "filter_chains": [chain]}))


def manager_of(listener: bytes) -> manager_pb2.HttpConnectionManager:
    found = listener_pb2.Listener.FromString(value(listener))
    manager = manager_pb2.HttpConnectionManager()
    assert found.filter_chains[0].filters[0].typed_config.Unpack(manager)
    return manager


def http_filter(name: str, kind: str = "", **config: object) -> Dictionary:
    typed = {"typed_config": {"@type": TYPES + kind, **config}} if kind else {}
    return {"name": name, **typed}


ROUTER = http_filter("envoy.filters.http.router", "envoy.extensions.filters.http.router.v3.Router")


def kinds(changes: list[Change]) -> list[tuple[str, Action]]:
    return [(each.extension, each.action) for each in changes]


@given(st.binary(max_size=300))
def test_what_is_no_resource_passes_as_it_is(data: bytes) -> None:
    assert adapt(EXTENSIONS, data) == (data, [])
    for type_url in (LISTENER, CLUSTER, ROUTES, ECDS):
        damaged = body(type_url, data)
        new, changes = adapt(EXTENSIONS, damaged)
        # Random bytes may be a message, but name no extension of Istio's.
        assert new is damaged or changes


@given(st.integers(1, 400))
def test_a_resource_that_is_cut_short_passes_as_it_is(missing: int) -> None:
    sidecar = Sidecar(release="1.11", certificates=Path("/certificates"))
    whole = serialised(CLUSTER, sidecar.outbound_clusters()[0])
    cut = body(CLUSTER, whole[:-missing])
    new, _ = adapt(EXTENSIONS, cut)
    try:
        from envoy.config.cluster.v3 import cluster_pb2

        cluster_pb2.Cluster.FromString(whole[:-missing])
    except Exception:  # noqa: BLE001 - protobuf's own refusal
        assert new is cut


def test_a_resource_with_nothing_to_adapt_is_the_same_object() -> None:
    for resource in (
        listener_with([ROUTER]),
        body(ROUTES, b""),
        body("type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment", b"\x0a\x01a"),
        body("type.googleapis.com/of.no.known.Type", b"\xff"),
        b"",
    ):
        assert adapt(EXTENSIONS, resource)[0] is resource


def test_unknown_fields_and_unknown_types_survive() -> None:
    sidecar = Sidecar(release="today", certificates=Path("/certificates"))
    unknown = bytes_field(999, b"of a later release")
    cluster = serialised(CLUSTER, sidecar.outbound_clusters()[0]) + unknown
    new, changes = adapt(EXTENSIONS, body(CLUSTER, cluster))
    assert changes
    assert unknown in new


def test_a_resource_adapted_twice_is_adapted_once() -> None:
    sidecar = Sidecar(release="1.11", certificates=Path("/certificates"))
    for type_url, resource in (
        (LISTENER, sidecar.inbound_listener(port=8080)),
        (CLUSTER, sidecar.outbound_clusters()[0]),
        (ROUTES, sidecar.routes()),
    ):
        once, changes = adapt(EXTENSIONS, body(type_url, serialised(type_url, resource)))
        assert changes
        again, changes = adapt(EXTENSIONS, once)
        assert again is once
        assert not changes


def test_tcp_peer_exchange_is_neither_offered_nor_accepted() -> None:
    sidecar = Sidecar(release="today", certificates=Path("/certificates"))
    for type_url, resource in (
        (CLUSTER, sidecar.outbound_clusters()[1]),
        (LISTENER, sidecar.inbound_listener(port=8080)),
    ):
        new, _ = adapt(EXTENSIONS, body(type_url, serialised(type_url, resource)))
        # What remains are filter chains chosen by what clients offer.
        left = value(new).count(b"istio-peer-exchange")
        assert left == (0 if type_url == CLUSTER else 1)


def test_a_cluster_that_is_not_istios_keeps_what_it_offers() -> None:
    socket = {
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": f"{TYPES}envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
            "common_tls_context": {"alpn_protocols": ["h2"]},
        },
    }
    resource = body(CLUSTER, serialised(CLUSTER, {"name": "a", "transport_socket": socket}))
    assert adapt(EXTENSIONS, resource)[0] is resource


def test_an_old_name_without_a_type_gets_the_type_of_todays_name() -> None:
    sockets = [{"match": {}, "transport_socket": {"name": "raw_buffer"}}]
    cluster: Dictionary = {"name": "a", "transport_socket_matches": sockets}
    new, changes = adapt(EXTENSIONS, body(CLUSTER, serialised(CLUSTER, cluster)))
    assert kinds(changes) == [("raw_buffer", Action.TRANSLATED)]
    assert b"envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer" in new


def test_an_unknown_extension_is_left_for_envoy_to_refuse_and_reported() -> None:
    resource = listener_with([http_filter("mine", AUTHN.replace("authn", "alpn")), ROUTER])
    unknown = resource.replace(b"istio.envoy.config", b"other.envoy.config")
    new, changes = adapt(EXTENSIONS, unknown)
    assert new is unknown
    assert kinds(changes) == [("mine", Action.LEFT)]


def test_an_optional_extension_is_left_without_a_word_as_envoy_skips_it() -> None:
    found = {**http_filter("mine", AUTHN.replace("authn", "alpn")), "is_optional": True}
    unknown = listener_with([found, ROUTER]).replace(b"istio.envoy.config", b"other.envoy.config")
    assert adapt(EXTENSIONS, unknown) == (unknown, [])


# -- what decides about access


def authn(**policy: object) -> Dictionary:
    return http_filter("istio_authn", AUTHN, policy=policy)


def rules_reading(filter_name: str) -> Dictionary:
    metadata = {
        "filter": filter_name,
        "path": [{"key": "no.such.attribute"}],
        "value": {"string_match": {"exact": "a"}},
    }
    policy = {"permissions": [{"any": True}], "principals": [{"metadata": metadata}]}
    rules = {"action": "DENY", "policies": {"a": policy}}
    return http_filter("envoy.filters.http.rbac", RBAC, rules=rules)


PERMISSIVE = {"mtls": {"mode": "PERMISSIVE"}}


@pytest.mark.parametrize(
    ("filters", "action"),
    [
        ([authn(peers=[PERMISSIVE])], Action.REMOVED),
        ([authn()], Action.REMOVED),
        ([authn(peers=[PERMISSIVE]), rules_reading("other")], Action.REMOVED),
        ([authn(peers=[{"mtls": {"mode": "STRICT"}}])], Action.TRANSLATED),
        ([authn(peers=[{"mtls": {}}], peer_is_optional=True)], Action.REMOVED),
        ([authn(peers=[{"jwt": {"issuer": "a"}}])], Action.DENIED),
        ([authn(origins=[{"jwt": {"issuer": "a"}}])], Action.DENIED),
        ([authn(origins=[{"jwt": {"issuer": "a"}}], origin_is_optional=True)], Action.REMOVED),
        ([authn(peers=[PERMISSIVE]), rules_reading("istio_authn")], Action.DENIED),
    ],
)
def test_authentication_is_taken_out_only_where_nothing_depends_on_it(
    filters: list[Dictionary], action: Action
) -> None:
    new, changes = adapt(EXTENSIONS, listener_with([*filters, ROUTER]))
    assert kinds(changes) == [("istio_authn", action)]
    left = manager_of(new).http_filters
    if action is Action.REMOVED:
        assert [each.name for each in left] == [str(each["name"]) for each in filters[1:]] + [
            "envoy.filters.http.router"
        ]
    else:
        assert left[0].name == "istio_authn"
        assert left[0].typed_config.type_url == TYPES + RBAC


def test_authentication_that_cannot_be_replaced_is_left_for_envoy_to_refuse() -> None:
    without = {"envoy.filters.http": {"a": ["envoy.extensions.filters.http.router.v3.Router"]}}
    network = {"envoy.filters.network": PLAIN["envoy.filters.network"]}
    resource = listener_with([authn(), ROUTER])
    new, changes = adapt(_extensions(without, network), resource)
    assert new is resource
    assert kinds(changes) == [("istio_authn", Action.LEFT)]


# -- Wasm plugins of the null VM


@pytest.mark.parametrize(
    ("plugin", "action"),
    [
        ("envoy.wasm.stats", Action.REMOVED),
        ("envoy.wasm.metadata_exchange", Action.TRANSLATED),
        ("envoy.wasm.mine", Action.LEFT),
    ],
)
def test_plugins_of_the_null_vm(plugin: str, action: Action) -> None:
    config = {
        "vm_config": {
            "runtime": "envoy.wasm.runtime.null",
            "code": {"local": {"inline_string": plugin}},
        }
    }
    wasm = http_filter("wasm", "envoy.extensions.filters.http.wasm.v3.Wasm", config=config)
    _, changes = adapt(EXTENSIONS, listener_with([wasm, ROUTER]))
    assert [each.action for each in changes] == [action]
    has_it: dict[str, dict[str, list[str]]] = {"envoy.wasm.null_vms": {plugin: []}}
    resource = listener_with([wasm, ROUTER])
    assert adapt(_extensions(PLAIN, has_it), resource) == (resource, [])


def test_a_module_is_none_of_its_business() -> None:
    config = {"vm_config": {"runtime": "envoy.wasm.runtime.v8"}}
    wasm = http_filter("wasm", "envoy.extensions.filters.http.wasm.v3.Wasm", config=config)
    resource = listener_with([wasm, ROUTER])
    assert adapt(EXTENSIONS, resource) == (resource, [])


# -- configuration that comes by ECDS


def discovered(*types: str) -> Dictionary:
    return {
        "name": "by-ecds",
        "config_discovery": {
            "config_source": {"ads": {}, "resource_api_version": "V3"},
            "type_urls": [TYPES + each for each in types],
        },
    }


WASM = "envoy.extensions.filters.http.wasm.v3.Wasm"


def test_a_discovered_filter_whose_types_envoy_lacks_is_removed() -> None:
    new, changes = adapt(EXTENSIONS, listener_with([discovered("stats.PluginConfig"), ROUTER]))
    assert kinds(changes) == [("istio.stats", Action.REMOVED)]
    assert [each.name for each in manager_of(new).http_filters] == ["envoy.filters.http.router"]


def test_of_a_discovered_filter_the_types_that_envoy_has_stay() -> None:
    resource = listener_with([discovered(WASM, "stats.PluginConfig"), ROUTER])
    new, _ = adapt(EXTENSIONS, resource)
    source = manager_of(new).http_filters[0].config_discovery
    assert list(source.type_urls) == [TYPES + WASM, TYPES + RBAC]
    assert source.config_source.HasField("ads")


def test_an_extension_resource_that_envoy_lacks_becomes_one_that_does_nothing() -> None:
    kind = any_pb2.Any(type_url=f"{TYPES}stats.PluginConfig")
    config = extension_pb2.TypedExtensionConfig(name="a", typed_config=kind)
    new, changes = adapt(EXTENSIONS, body(ECDS, config.SerializeToString()))
    assert kinds(changes) == [("istio.stats", Action.REMOVED)]
    left = extension_pb2.TypedExtensionConfig.FromString(value(new))
    assert (left.name, left.typed_config.type_url) == ("a", TYPES + RBAC)
    plugin = wasm_pb2.Wasm()
    plugin.config.vm_config.runtime = "envoy.wasm.runtime.null"
    plugin.config.vm_config.code.local.inline_string = "envoy.wasm.stats"
    config.typed_config.Pack(plugin)
    new, _ = adapt(EXTENSIONS, body(ECDS, config.SerializeToString()))
    left = extension_pb2.TypedExtensionConfig.FromString(value(new))
    assert left.typed_config.type_url == TYPES + RBAC


# -- routes, tracing, wrapped resources


def test_what_routes_change_of_a_filter_that_is_gone_goes_too() -> None:
    private = any_pb2.Any(type_url=f"{TYPES}stats.PluginConfig")
    routes = route_pb2.RouteConfiguration(name="a")
    host = routes.virtual_hosts.add(name="b", domains=["*"])
    host.typed_per_filter_config["istio.stats"].CopyFrom(private)
    wrapped = route_components_pb2.FilterConfig(config=private)
    host.typed_per_filter_config["wrapped"].Pack(wrapped)
    host.typed_per_filter_config["mine"].type_url = f"{TYPES}mine.PerRoute"
    new, changes = adapt(EXTENSIONS, body(ROUTES, routes.SerializeToString()))
    left = route_pb2.RouteConfiguration.FromString(value(new)).virtual_hosts[0]
    assert set(left.typed_per_filter_config) == {"mine"}
    assert kinds(changes) == [("istio.stats", Action.REMOVED)] * 2


def test_tracing_by_a_tracer_that_envoy_lacks_is_off() -> None:
    manager = manager_of(listener_with([ROUTER]))
    manager.tracing.provider.name = "envoy.tracers.opencensus"
    kind = f"{TYPES}envoy.config.trace.v3.OpenCensusConfig"
    manager.tracing.provider.typed_config.type_url = kind
    listener = listener_pb2.Listener(name="a")
    listener.filter_chains.add().filters.add(name="http").typed_config.Pack(manager)
    new, changes = adapt(EXTENSIONS, body(LISTENER, listener.SerializeToString()))
    assert kinds(changes) == [("tracer opencensus", Action.REMOVED)]
    assert not manager_of(new).HasField("tracing")


def test_a_resource_with_a_time_to_live_is_adapted_inside() -> None:
    inner = any_pb2.Any.FromString(listener_with([http_filter("istio.stats"), ROUTER]))
    wrapper = discovery_pb2.Resource(name="a", resource=inner)
    wrapper.ttl.seconds = 10
    kind = f"{TYPES}envoy.service.discovery.v3.Resource"
    new, changes = adapt(EXTENSIONS, body(kind, wrapper.SerializeToString()))
    assert kinds(changes) == [("istio.stats", Action.REMOVED)]
    left = discovery_pb2.Resource.FromString(value(new))
    assert left.ttl.seconds == 10
    assert len(manager_of(left.resource.SerializeToString()).http_filters) == 1


def test_a_resource_nested_without_end_passes_as_it_is() -> None:
    kind = f"{TYPES}envoy.service.discovery.v3.Resource"
    nested = body(LISTENER, b"")
    for _ in range(300):
        nested = body(kind, bytes_field(2, nested))
    assert adapt(EXTENSIONS, nested) == (nested, [])


# -- the adapter


async def test_istios_own_envoy_gets_the_same_bytes() -> None:
    adapter = Adapter()
    own = node(PLAIN, ISTIOS_OWN)
    sidecar = Sidecar(release="today", certificates=Path("/certificates"))
    bodies = [body(LISTENER, serialised(LISTENER, sidecar.inbound_listener(port=8080)))]
    assert not adapter.concerns(own, LISTENER)
    assert await adapter.rewrite(own, LISTENER, bodies) is bodies


@pytest.mark.parametrize(
    "described",
    [
        b"",
        b"\xff\xff\xff",
        base_pb2.Node(id="a").SerializeToString(),
        node({"envoy.filters.http": {"envoy.router": []}}),
    ],
)
def test_an_envoy_that_does_not_list_its_extensions_is_not_concerned(described: bytes) -> None:
    assert not Adapter().concerns(described, LISTENER)


def test_a_disabled_extension_is_one_that_envoy_lacks() -> None:
    message = base_pb2.Node()
    kind = "stats.PluginConfig"
    message.extensions.add(name="a", category="b", type_urls=[kind], disabled=True)
    message.extensions.add(name="c", category="b", type_urls=["d"])
    found = read_extensions(message.SerializeToString())
    assert found is not None
    assert not found.has(TYPES + kind)
    assert found.has("d")


async def test_each_kind_of_change_is_logged_once_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="xds_adapter")
    adapter, plain = Adapter(), node(PLAIN)
    resource = listener_with([http_filter("istio.stats"), http_filter("envoy.router")])
    large = [resource] * 1000  # in a thread
    for bodies in ([resource], large):
        assert adapter.concerns(plain, LISTENER)
        adapted = await adapter.rewrite(plain, LISTENER, bodies)
        assert len(adapted) == len(bodies)
    adaptations = {(each.extension, each.action): each for each in adapter.adaptations}
    assert set(adaptations) == {
        ("istio.stats", Action.REMOVED),
        ("envoy.router", Action.TRANSLATED),
    }
    stats = adaptations["istio.stats", Action.REMOVED]
    assert stats.times == 1001
    assert "istio_requests_total" in stats.lost
    assert [(each.levelname, getattr(each, "extension", "")) for each in caplog.records] == [
        ("WARNING", "istio.stats"),
        ("INFO", "envoy.router"),
    ]


def test_only_types_that_name_extensions_concern_it() -> None:
    adapter, plain = Adapter(), node(PLAIN)
    assert adapter.concerns(plain, CLUSTER)
    assert not adapter.concerns(plain, TYPES + "envoy.config.endpoint.v3.ClusterLoadAssignment")


def test_json_and_wire_forms_are_the_same_message() -> None:
    """The hand-written resources are what they say: JSON to wire and back."""
    sidecar = Sidecar(release="1.11", certificates=Path("/certificates"))
    listener = listener_pb2.Listener.FromString(
        serialised(LISTENER, sidecar.inbound_listener(port=8080))
    )
    assert json_format.MessageToDict(listener)["name"] == "virtualInbound"
