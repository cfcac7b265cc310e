"""Listeners have the loggers and tracers of their side, and what mesh config says of them."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from envoy_config.context._context import PushContext
from envoy_config.generate.telemetry._lines import DEFAULT_TEXT, line_format
from envoy_config.plan._proxy import Proxy
from envoy_config.plan.resolved._telemetry import JsonLine, TextLine
from mesh_model import MeshModel
from proxies import as_json, proxy_of
from xds_server import Node

Build = Callable[..., MeshModel]

MESH = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: web, namespace: default}
spec:
  hosts: [web.default.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports:
  - {number: 80, name: http, protocol: HTTP, targetPort: 8080}
  - {number: 90, name: tcp, protocol: TCP, targetPort: 9090}
  endpoints: [{address: 127.93.1.1, serviceAccount: web}]
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: gw, namespace: default}
spec:
  selector: {istio: gw}
  servers: [{port: {number: 8081, name: http, protocol: HTTP}, hosts: ["*"]}]
---
apiVersion: telemetry.istio.io/v1
kind: Telemetry
metadata: {name: all, namespace: istio-system}
spec:
  accessLogging:
  - {match: {mode: CLIENT}, providers: [{name: client}], filter: {expression: "true"}}
  - {match: {mode: SERVER}, providers: [{name: server}]}
---
apiVersion: mesh.istio.io/v1alpha1
kind: MeshConfig
spec:
  extensionProviders:
  - {name: client, envoyFileAccessLog: {path: /client}}
  - {name: server, envoyFileAccessLog: {path: /server}}
  defaultConfig: {tracing: {sampling: 5}}
"""


def proxies() -> Iterator[Proxy]:
    """Yield a bound sidecar, a redirected one, and a gateway."""
    for kind, mode, labels in (
        ("sidecar", "NONE", {}),
        ("sidecar", "REDIRECT", {}),
        ("router", "NONE", {"istio": "gw"}),
    ):
        metadata: dict[str, Any] = {"INTERCEPTION_MODE": mode, "LABELS": labels}
        node_id = f"{kind}~127.93.1.1~w.default~default.svc.cluster.local"
        yield proxy_of(Node(id=node_id, metadata=metadata))


def listeners(model: MeshModel) -> list[dict[str, Any]]:
    context = PushContext(model)
    return [each for proxy in proxies() for each in as_json(context.listeners(proxy))]


def filters(listener: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the settings of the filters that log."""
    chains = [*listener.get("filter_chains", ()), listener.get("default_filter_chain")]
    for chain in filter(None, chains):
        for each in chain["filters"]:
            if "stat_prefix" in each["typed_config"]:
                yield each["typed_config"]


def test_each_listener_and_each_of_its_filters_logs_on_its_side(model_of: Build) -> None:
    found = listeners(model_of(MESH))

    assert len(found) > 6
    for listener in found:
        side = "/server" if listener["traffic_direction"] == "INBOUND" else "/client"
        loggers = [*listener["access_log"]]
        for each in filters(listener):
            loggers += each["access_log"]
            if "http_filters" in each:
                assert each["tracing"]["random_sampling"] == {"value": 5.0}
                assert "provider" not in each["tracing"]
        assert {each["typed_config"]["path"] for each in loggers} == {side}
        (own,) = listener["access_log"]
        flags = {"response_flag_filter": {"flags": ["NR"]}}
        if side == "/server":
            assert own["filter"] == flags
        else:
            assert own["filter"]["and_filter"]["filters"][0] == flags


def test_spans_of_calls_to_upstreams_are_created_at_gateways(model_of: Build) -> None:
    spawning = [
        each["tracing"].get("spawn_upstream_span", False)
        for listener in listeners(model_of(MESH))
        for each in filters(listener)
        if "http_filters" in each
    ]

    assert spawning.count(True) == 1
    assert spawning[-1] is True


def test_listeners_log_nothing_themselves_if_mesh_config_says_so(model_of: Build) -> None:
    found = listeners(model_of(MESH + "  disableEnvoyListenerLog: true\n"))

    assert not any("access_log" in each for each in found)
    assert all("access_log" in each for listener in found for each in filters(listener))


def test_bootstraps_tracers_are_not_used_if_mesh_config_says_so(model_of: Build) -> None:
    found = listeners(model_of(MESH + "  enableTracing: false\n"))

    assert not any("tracing" in each for listener in found for each in filters(listener))


def test_a_mesh_that_says_nothing_neither_logs_nor_traces(model_of: Build) -> None:
    found = listeners(model_of(MESH.split("---\napiVersion: telemetry", maxsplit=1)[0]))

    assert not any("access_log" in each for each in found)
    for listener in found:
        for each in filters(listener):
            assert "tracing" not in each
            assert "access_log" not in each


@pytest.mark.parametrize("encodings", [("TEXT", "JSON"), ("JSON", "TEXT")])
@pytest.mark.parametrize("given", ["", "  accessLogFormat: '{}'\n"])
def test_the_encoding_of_one_mesh_config_is_not_that_of_another(
    model_of: Build, encodings: tuple[str, str], given: str
) -> None:
    fields = {"TEXT": "text_format_source", "JSON": "json_format"}
    for encoding in encodings:
        own = f"  accessLogFile: /dev/stdout\n  accessLogEncoding: {encoding}\n{given}"
        document = MESH.split("---\napiVersion: telemetry", maxsplit=1)[0]
        mesh = f"apiVersion: mesh.istio.io/v1alpha1\nkind: MeshConfig\nspec:\n{own}"

        loggers = [
            logger
            for listener in listeners(model_of(document, mesh))
            for each in filters(listener)
            for logger in each["access_log"]
        ]

        assert loggers
        for logger in loggers:
            assert fields[encoding] in logger["typed_config"]["log_format"]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (TextLine(), DEFAULT_TEXT),
        (TextLine("a"), "a\n"),
        (TextLine("a\n"), "a\n"),
    ],
)
def test_a_line_of_text_ends(line: TextLine, wanted: str) -> None:
    assert line_format(line).text_format_source.inline_string == wanted


def test_the_default_line_has_istios_parts_in_their_order() -> None:
    assert DEFAULT_TEXT.startswith(
        '[%START_TIME%] "%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%" '
        "%RESPONSE_CODE% %RESPONSE_FLAGS% %RESPONSE_CODE_DETAILS% "
    )
    assert DEFAULT_TEXT.endswith(
        "%DOWNSTREAM_REMOTE_ADDRESS% %REQUESTED_SERVER_NAME% %ROUTE_NAME%\n"
    )
    assert set(line_format(JsonLine()).json_format.fields) >= {"start_time", "route_name"}


def test_the_formatter_for_paths_without_queries_is_there_where_it_is_needed() -> None:
    command = "%REQ_WITHOUT_QUERY(:PATH)%"

    assert len(line_format(TextLine(command)).formatters) == 1
    assert len(line_format(JsonLine(f'{{"a": "{command}"}}')).formatters) == 1
    assert len(line_format(TextLine()).formatters) == 0
