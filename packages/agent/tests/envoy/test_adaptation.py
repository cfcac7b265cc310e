from collections.abc import Callable

from envoy.config.core.v3 import base_pb2
from envoy.config.listener.v3 import listener_pb2
from google.protobuf import any_pb2
from prometheus_client.parser import text_string_to_metric_families

from mesh_agent import AgentConfig
from mesh_agent.envoy._adaptation import EnvoyAdapter
from mesh_agent.status._relay_metrics import adaptation_metric
from mesh_status_server import render

LISTENER = "type.googleapis.com/envoy.config.listener.v3.Listener"
MANAGER = "envoy.filters.network.http_connection_manager"


def _listener() -> bytes:
    """A listener with a filter of Istio's."""
    listener = listener_pb2.Listener(name="a")
    stats = listener.filter_chains.add().filters.add(name="istio.stats")
    stats.typed_config.type_url = "type.googleapis.com/stats.PluginConfig"
    value = listener.SerializeToString()
    return bytes(any_pb2.Any(type_url=LISTENER, value=value).SerializeToString())


async def test_adaptations_are_reported_in_the_status_and_counted() -> None:
    node = base_pb2.Node(id="a")
    node.extensions.add(name=MANAGER, category="envoy.filters.network", type_urls=["b.Manager"])
    envoy = node.SerializeToString()
    adapter = EnvoyAdapter()
    assert adapter.concerns(envoy, LISTENER)
    first, second = await adapter.rewrite(envoy, LISTENER, [_listener()] * 2)
    assert first == second != _listener()
    (adaptation,) = adapter.describe()
    assert (adaptation["extension"], adaptation["action"], adaptation["times"]) == (
        "istio.stats",
        "removed",
        2,
    )
    assert "istio_requests_total" in str(adaptation["lost"])
    page = render([adaptation_metric(adapter)]).decode()
    (family,) = text_string_to_metric_families(page)
    (sample,) = family.samples
    assert sample.name == "mesh_agent_xds_adaptations_total"
    assert (sample.labels, sample.value) == ({"extension": "istio.stats", "action": "removed"}, 2)


async def test_a_program_that_lists_no_extensions_gets_the_same_bytes() -> None:
    node = base_pb2.Node(id="a", user_agent_name="gRPC Go").SerializeToString()
    adapter, bodies = EnvoyAdapter(), [_listener()]
    assert not adapter.concerns(node, LISTENER)
    assert await adapter.rewrite(node, LISTENER, bodies) is bodies
    assert adapter.describe() == []


def test_it_is_on_by_default(load: Callable[..., AgentConfig]) -> None:
    assert load().adapt_to_envoy
    assert not load({"MESH_AGENT_ADAPT_TO_ENVOY": "false"}).adapt_to_envoy
