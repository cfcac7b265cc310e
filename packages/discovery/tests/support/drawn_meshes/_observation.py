"""Telemetry of every level, and the providers that it names."""

from hypothesis import strategies as st

from drawn_meshes._draws import Draws, Json, document, fields, some_labels

_GRPC = {"service": "s.b.svc.cluster.local", "port": 7000}
_HTTP = {"service": "b/s.b.svc.cluster.local", "port": 80}
_LABELS = {"a": "%REQ(X-A?:PATH)%", "b": {"c": ["%PROTOCOL%", "100"]}, "n": "%DURATION%"}
PROVIDERS: tuple[Json, ...] = (
    {
        "name": "text",
        "envoyFileAccessLog": {"path": "/dev/stderr", "logFormat": {"text": "%PROTOCOL% 100%%"}},
    },
    {
        "name": "json",
        "envoyFileAccessLog": {"logFormat": {"labels": _LABELS}, "omitEmptyValues": True},
    },
    {"name": "als", "envoyHttpAls": {**_GRPC, "additionalRequestHeadersToLog": ["x-a"]}},
    {"name": "tcp-als", "envoyTcpAls": {**_GRPC, "logName": "l"}},
    {"name": "otel-als", "envoyOtelAls": {**_GRPC, "logFormat": {"text": "a", "labels": _LABELS}}},
    {"name": "zipkin", "zipkin": {**_HTTP, "maxTagLength": 9, "enable64bitTraceId": True}},
    {"name": "otel", "opentelemetry": _GRPC},
    {"name": "otel-http", "opentelemetry": {**_HTTP, "http": {"path": "/v1/traces"}}},
    {"name": "datadog", "datadog": _HTTP},
    {"name": "skywalking", "skywalking": {**_GRPC, "accessToken": "t"}},
)
_LOGGERS = ("envoy", "text", "json", "als", "tcp-als", "otel-als", "unknown")
_TRACERS = ("zipkin", "otel", "otel-http", "datadog", "skywalking", "unknown")
_EXPRESSIONS = (
    "response.code >= 400",
    "request.headers['x-a'] == 'b' || !('x-b' in request.headers)",
    "connection.mtls && request.url_path.startsWith('/a')",
)


def _named(names: tuple[str, ...], *, most: int) -> Draws:
    chosen = st.lists(st.sampled_from(names), min_size=1, max_size=most, unique=True)
    return chosen.map(lambda given: [{"name": each} for each in given])


_mode = st.sampled_from(("CLIENT_AND_SERVER", "CLIENT", "SERVER")).map(lambda mode: {"mode": mode})
_logging = fields(
    match=_mode,
    providers=_named(_LOGGERS, most=3),
    disabled=st.booleans(),
    filter=st.sampled_from(_EXPRESSIONS).map(lambda text: {"expression": text}),
)
_tags = st.dictionaries(
    st.sampled_from(("a", "b.c", "%")),
    st.sampled_from(
        (
            {"literal": {"value": "v %"}},
            {"environment": {"name": "HOME", "defaultValue": "d"}},
            {"header": {"name": "x-a", "defaultValue": "d"}},
        )
    ),
    max_size=2,
)
_tracing = fields(
    match=_mode,
    providers=_named(_TRACERS, most=1),
    randomSamplingPercentage=st.sampled_from((0.0, 0.01, 50.0, 100.0)),
    disableSpanReporting=st.booleans(),
    customTags=_tags,
    useRequestIdForTraceSampling=st.booleans(),
    enableIstioTags=st.booleans(),
)


@st.composite
def telemetries(draw: st.DrawFn) -> list[Json]:
    """Draw Telemetry of the mesh, of namespaces and of workloads."""
    documents = []
    for index, namespace in enumerate(("istio-system", "a", "b", "b")):
        if draw(st.booleans()):
            continue
        logs = st.lists(_logging, max_size=2)
        spec: Json = draw(fields(accessLogging=logs, tracing=st.lists(_tracing, max_size=1)))
        if index == 3:
            spec["selector"] = {"matchLabels": draw(some_labels)}
        documents.append(
            document("Telemetry", f"tm-{index}", namespace, spec, group="telemetry.istio.io/v1")
        )
    return documents
