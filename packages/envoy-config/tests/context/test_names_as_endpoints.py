"""Endpoints that are sent apart from clusters never are names, which Envoy refuses."""

from collections.abc import Callable

import pytest

from documents import entry
from envoy_config.context._context import PushContext
from mesh_model import MeshModel
from proxies import as_json, proxy

PORT = (
    "hosts: [s.b.svc.cluster.local], ports: [{number: 80, name: http, protocol: HTTP}], resolution"
)


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        (f"{PORT}: STATIC, endpoints: [{{address: 10.0.0.1}}]", 1),
        (f"{PORT}: DNS, endpoints: [{{address: 10.0.0.1}}]", 1),
        (f"{PORT}: DNS, endpoints: [{{address: 10.0.0.1}}, {{address: x.example.com}}]", 0),
        (f"{PORT}: DNS", 0),
        (f"{PORT}: NONE", 0),
    ],
)
def test_of_a_service_that_is_looked_up_only_addresses_are_sent(
    spec: str, count: int, model_of: Callable[..., MeshModel]
) -> None:
    context = PushContext(model_of(entry("s", spec, namespace="b")))
    name = "outbound|80||s.b.svc.cluster.local"

    (sent,) = as_json(context.endpoints(proxy(), frozenset({name})))

    assert sent["cluster_name"] == name
    assert sum(len(each["lb_endpoints"]) for each in sent.get("endpoints", ())) == count
