"""A machine without redirection whose workload itself listens where services would be called."""

from collections.abc import Callable
from typing import NamedTuple

import pytest

from documents import Documents
from envoy_config import PushContext
from mesh_findings.reachability._services import places_taken, reached_by_http_proxy
from mesh_model import MeshModel
from proxies import proxy

Build = Callable[..., MeshModel]

MESH_CONFIG = """\
apiVersion: mesh.istio.io/v1alpha1
kind: MeshConfig
metadata: {name: mesh}
spec: {proxyHttpPort: 15007}
"""


class Said(NamedTuple):
    """What the status says of the services that a workload's machine has no listener for."""

    problems: list[str]
    notes: list[str]


@pytest.fixture
def said(model_of: Build) -> Callable[..., Said]:
    """Serve a workload on 10.0.0.1 whose program listens on 127.0.0.1, beside its callers."""

    def said_of(*documents: str) -> Said:
        model = model_of(*documents)
        context = PushContext(model)
        here = proxy("10.0.0.1", APP_ADDRESS="127.0.0.1", OUTBOUND_BIND_ADDRESS="127.0.0.1")
        assert context.listeners(here).resources
        port = model.mesh_config.proxy_http_port
        return Said(
            [each.message for each in places_taken(context.conflicts, model)],
            [each.message for each in reached_by_http_proxy(context.only_by_http_proxy, port)],
        )

    return said_of


@pytest.mark.parametrize("protocol", ["http", "tcp"])
def test_the_service_that_listens_there_itself_is_nothing_to_tell(
    said: Callable[..., Said], yaml: Documents, protocol: str
) -> None:
    assert said(yaml.service("greeter", "10.0.0.1", 8000, 8000, protocol)) == ([], [])


def test_another_service_of_that_port_is_reported_with_what_to_do(
    said: Callable[..., Said], yaml: Documents
) -> None:
    found = said(
        yaml.service("greeter", "10.0.0.1", 8000, 8000),
        yaml.service("other", "10.0.0.2", 8000, 8000),
    )

    assert not found.notes
    (problem,) = found.problems
    assert problem.startswith("the workload of a proxy listens on 127.0.0.1:8000")
    assert "proxyHttpPort" in problem


def test_an_http_service_that_the_http_proxy_reaches_is_a_note(
    said: Callable[..., Said], yaml: Documents
) -> None:
    found = said(
        yaml.service("greeter", "10.0.0.1", 8000, 8000),
        *(yaml.service(name, "10.0.0.2", 8000, 8000) for name in ("other", "third")),
        MESH_CONFIG,
    )

    assert not found.problems
    (note,) = found.notes
    assert note == (
        "where a workload listens on 127.0.0.1:8000 itself, its own calls to "
        "other.default.svc.cluster.local and 1 more go through the HTTP proxy on port 15007"
    )


def test_a_tcp_service_is_not_reached_by_the_http_proxy(
    said: Callable[..., Said], yaml: Documents
) -> None:
    found = said(
        yaml.service("greeter", "10.0.0.1", 8000, 8000),
        yaml.service("other", "10.0.0.2", 8000, 8000, "tcp"),
        MESH_CONFIG,
    )

    assert len(found.problems) == 1
    assert not found.notes


def test_its_own_service_under_a_port_of_another_of_its_listeners_is_reported(
    said: Callable[..., Said], yaml: Documents
) -> None:
    found = said(
        yaml.service("greeter", "10.0.0.1", 80, 8000),
        yaml.service("admin", "10.0.0.1", 8000, 9000),
    )

    assert len(found.problems) == 1
