"""Telemetry with real Envoys: which requests are logged, at which side, and where spans go."""

import json
from typing import Any, NamedTuple

import pytest

from planes import eventually
from scenarios import Echo, MeshEnvoy, Scene

SERVICE = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: {name}, namespace: b}}
spec:
  hosts: [{name}.b.svc.cluster.local]
  location: {location}
  resolution: STATIC
  ports: [{{number: {port}, name: {protocol}, protocol: {protocol}, targetPort: {target}}}]
  endpoints: [{{address: {address}, labels: {{app: {name}}}}}]
"""
MESH = """\
apiVersion: mesh.istio.io/v1alpha1
kind: MeshConfig
spec:
  accessLogEncoding: JSON
  extensionProviders:
{providers}
"""
FILES = (
    "  - {name: files, envoyFileAccessLog: {path: /dev/stdout, logFormat: {labels: {p: '%PATH%'}}}}"
)
TELEMETRY = """\
apiVersion: telemetry.istio.io/v1
kind: Telemetry
metadata: {{name: {name}, namespace: {namespace}}}
spec: {{{spec}}}
"""


def service(name: str, echo: Echo | str, *, port: int = 80, protocol: str = "HTTP") -> str:
    address, target = (echo, 8080) if isinstance(echo, str) else (echo.address, echo.port)
    # Without an application of the mesh behind it, a service is outside of it.
    location = "MESH_INTERNAL" if isinstance(echo, str) else "MESH_EXTERNAL"
    return SERVICE.format(
        name=name, location=location, address=address, port=port, protocol=protocol, target=target
    )


def telemetry(spec: str, *, name: str = "t", namespace: str = "istio-system") -> str:
    return TELEMETRY.format(name=name, namespace=namespace, spec=spec)


class Pair(NamedTuple):
    """A client C in namespace a, and a server S in namespace b with its application."""

    client: MeshEnvoy
    server: MeshEnvoy
    application: Echo

    async def apply(self, scene: Scene, **documents: str | None) -> None:
        """Apply documents, and wait until no connection is served as it was before."""
        await scene.apply(mistaken=False, wait=True, **documents)
        for envoy in (self.client, self.server):

            async def draining(envoy: MeshEnvoy = envoy) -> int:
                found = await envoy.stats("listener_manager.total_.*_draining")
                return sum(found.values())

            await eventually(draining, wanted=0, what="the end of listeners as they were")

    async def get(self, path: str) -> int:
        return (await self.client.get(f"http://s.b{path}")).status

    async def fail(self, path: str) -> None:
        self.application.answer(status=500)
        assert await self.get(path) == 500

    async def paths(self) -> tuple[list[str], list[str]]:
        """Return the paths that each has logged."""
        return await _paths(self.client), await _paths(self.server)


async def _paths(envoy: MeshEnvoy) -> list[str]:
    return [str(each.get("path")) for each in await envoy.access_log()]


async def pair(scene: Scene, *providers: str) -> Pair:
    address = scene.network.address()
    await scene.apply(
        service=service("s", address),
        mesh_config=MESH.format(providers="\n".join([FILES, *providers])),
    )
    labels = {"app": "s", "service.istio.io/canonical-name": "shop"}
    server = await scene.sidecar(
        "s", namespace="b", service_account="s", labels=labels, address=address
    )
    application = await scene.echo("application", address=server.app_address)
    return Pair(await scene.sidecar("c", namespace="a"), server, application)


async def test_requests_are_logged_by_the_telemetry_of_the_mesh_the_namespace_and_the_side(
    scene: Scene,
) -> None:
    found = await pair(scene)
    assert await found.get("/silent") == 200
    logged = "providers: [{name: envoy}]"
    failed = f"{logged}, filter: {{expression: 'response.code >= 400'}}"
    await found.apply(scene, mesh=telemetry(f"accessLogging: [{{{failed}}}]"))

    assert await found.get("/good") == 200
    await found.fail("/bad1")
    for envoy in (found.client, found.server):
        await envoy.logged(path="/bad1")
    assert await found.paths() == (["/bad1"], ["/bad1"])

    # A namespace's own says nothing of the filter, and so there is none.
    await found.apply(
        scene,
        own=telemetry("accessLogging: [{disabled: true}]", namespace="b"),
        caller=telemetry(f"accessLogging: [{{{logged}}}]", namespace="a"),
    )
    found.application.answer(status=200)
    assert await found.get("/good2") == 200
    await found.fail("/bad2")
    await found.client.logged(path="/bad2")
    assert await found.paths() == (["/bad1", "/good2", "/bad2"], ["/bad1"])

    sides = f"accessLogging: [{{{logged}, match: {{mode: SERVER}}}}]"
    await found.apply(scene, own=None, caller=None, mesh=telemetry(sides))
    found.application.answer(status=200)
    assert await found.get("/good3") == 200
    await found.server.logged(path="/good3")
    assert await found.paths() == (["/bad1", "/good2", "/bad2"], ["/bad1", "/good3"])


async def test_the_telemetry_of_a_workload_comes_after_that_of_its_namespace(scene: Scene) -> None:
    found = await pair(scene)
    await found.apply(
        scene,
        mesh=telemetry("accessLogging: [{providers: [{name: envoy}]}]"),
        own=telemetry("accessLogging: [{disabled: true}]", namespace="b"),
        workload=telemetry(
            "selector: {matchLabels: {app: s}}, accessLogging: [{providers: [{name: files}]}]",
            name="w",
            namespace="b",
        ),
    )

    assert await found.get("/one") == 200

    await found.client.logged(path="/one")
    assert (await found.server.logged(p="/one")) == {"p": "/one"}


ZIPKIN = "  - {{name: zipkin, zipkin: {{service: zipkin.b.svc.cluster.local, port: {port}}}}}"


async def spans(collector: Echo) -> list[dict[str, Any]]:
    return [
        span
        for each in collector.requests
        if each.path == "/api/v2/spans"
        for span in json.loads(each.body)
    ]


async def test_spans_of_both_sides_reach_the_collector_with_their_tags(scene: Scene) -> None:
    collector = await scene.echo("zipkin", port=9411)
    found = await pair(scene, ZIPKIN.format(port=9411))
    tags = "customTags: {own: {literal: {value: mine}}, x: {header: {name: x-tag}}}"
    tracing = f"providers: [{{name: zipkin}}], randomSamplingPercentage: 100, {tags}"
    # The service of the collector comes with the first that needs it.
    await found.apply(
        scene,
        zipkin=service("zipkin", collector, port=9411),
        mesh=telemetry(f"tracing: [{{{tracing}}}]"),
    )

    answer = await found.client.get("http://s.b/traced", headers={"x-tag": "y"})
    assert answer.status == 200
    assert answer.seen.headers["x-b3-sampled"] == "1"

    async def both() -> list[dict[str, Any]] | None:
        sent = [each for each in await spans(collector) if each["kind"] in ("CLIENT", "SERVER")]
        return sent if len(sent) >= 2 else None

    sent = await eventually(both, what="two spans")
    by_side = {each["kind"]: each for each in sent}
    assert by_side["CLIENT"]["traceId"] == by_side["SERVER"]["traceId"]
    assert len(by_side["CLIENT"]["traceId"]) == 32
    seen = by_side["SERVER"]["tags"]
    assert seen["own"] == "mine"
    assert seen["x"] == "y"
    assert seen["istio.canonical_service"] == "shop"
    assert seen["istio.namespace"] == "b"
    assert seen["istio.canonical_revision"] == "latest"

    before = len(await spans(collector))
    await found.apply(
        scene, mesh=telemetry(f"tracing: [{{{tracing}}}, {{randomSamplingPercentage: 0}}]")
    )
    assert (await found.client.get("http://s.b/untraced")).seen.headers["x-b3-sampled"] == "0"
    await found.apply(
        scene, mesh=telemetry(f"tracing: [{{{tracing}, disableSpanReporting: true}}]")
    )
    assert "x-b3-sampled" not in (await found.client.get("http://s.b/off")).seen.headers
    assert len(await spans(collector)) == before


EVERY_PROVIDER = {
    "zipkin": "zipkin: {SERVICE, headers: [{name: x-a, value: b}], timeout: 1s, maxTagLength: 9}",
    "zipkin-w3c": (
        "zipkin: {SERVICE, traceContextOption: USE_B3_WITH_W3C_PROPAGATION, path: /spans}"
    ),
    "datadog": "datadog: {SERVICE}",
    "skywalking": "skywalking: {SERVICE, accessToken: t}",
    "otel": (
        "opentelemetry: {SERVICE, grpc: {timeout: 1s, initialMetadata: [{name: x-a, value: b}]},"
        " resourceDetectors: {environment: {}, dynatrace: {}}}"
    ),
    "otel-http": (
        "opentelemetry: {SERVICE, http: {path: /v1/traces, timeout: 1s,"
        " headers: [{name: x-a, value: b}]}}"
    ),
    "text": (
        "envoyFileAccessLog: {path: /dev/stderr, omitEmptyValues: true,"
        " logFormat: {text: '%CEL(request.path)% %METADATA(CLUSTER:istio)%"
        " %REQ_WITHOUT_QUERY(:PATH)%'}}"
    ),
    "json": (
        "envoyFileAccessLog: {logFormat: {labels: {a: {b: ['%PROTOCOL%', 1]},"
        " c: '%REQ_WITHOUT_QUERY(:PATH)%'}}}"
    ),
    "requests": (
        "envoyHttpAls: {SERVICE, logName: a, filterStateObjectsToLog: [b],"
        " additionalRequestHeadersToLog: [':path'], additionalResponseHeadersToLog: [x-a],"
        " additionalResponseTrailersToLog: [x-b]}"
    ),
    "connections": "envoyTcpAls: {SERVICE, filterStateObjectsToLog: [b]}",
    "records": (
        "envoyOtelAls: {SERVICE, logFormat: {text: '%PATH%',"
        " labels: {a: '%DURATION%', b: {c: [1, true, '%PROTOCOL%']}}}}"
    ),
}
LOGGERS = ("text", "json", "requests", "connections", "records")
TAGS = (
    "customTags: {a: {literal: {value: b}}, c: {environment: {name: D, defaultValue: e}},"
    " f: {header: {name: g, defaultValue: h}}, i: {formatter: {value: '%CEL(request.path)%'}}}"
)


@pytest.mark.slow
async def test_envoys_take_every_kind_of_provider(scene: Scene) -> None:
    nothing = scene.network.address()
    await scene.apply(collector=service("collector", nothing, port=4317, protocol="GRPC"))
    place = "service: b/collector.b.svc.cluster.local, port: 4317"
    providers = [
        f"  - {{name: {name}, {text.replace('SERVICE', place)}}}"
        for name, text in EVERY_PROVIDER.items()
    ]
    found = await pair(scene, *providers)
    listed = ", ".join(f"{{name: {each}}}" for each in LOGGERS)
    logging = (
        f"accessLogging: [{{providers: [{listed}], filter: {{expression: 'response.code > 0'}}}}]"
    )
    for name in EVERY_PROVIDER:
        if name in LOGGERS:
            continue
        more = f"useRequestIdForTraceSampling: false, {TAGS}"
        tracing = f"tracing: [{{providers: [{{name: {name}}}], {more}}}]"
        await found.apply(scene, mesh=telemetry(f"{tracing}, {logging}"))
        assert await found.get(f"/{name}") == 200
    assert scene.refused() == []


async def test_proxies_trace_nothing_while_the_service_of_the_provider_is_not_there(
    scene: Scene,
) -> None:
    found = await pair(scene, ZIPKIN.format(port=9411))
    sampled = "tracing: [{providers: [{name: zipkin}], randomSamplingPercentage: 100}]"
    await found.apply(scene, mesh=telemetry(sampled))
    assert "x-b3-sampled" not in (await found.client.get("http://s.b/")).seen.headers

    collector = await scene.echo("zipkin", port=9411)
    await found.apply(scene, zipkin=service("zipkin", collector, port=9411))
    assert (await found.client.get("http://s.b/")).seen.headers["x-b3-sampled"] == "1"

    await found.apply(scene, zipkin=None)
    assert "x-b3-sampled" not in (await found.client.get("http://s.b/")).seen.headers
    assert scene.refused() == []
