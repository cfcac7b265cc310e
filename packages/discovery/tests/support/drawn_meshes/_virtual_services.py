"""VirtualServices with every match and action, delegates, and routes of connections."""

from hypothesis import strategies as st

from drawn_meshes._draws import (
    EXTERNAL_HOSTS,
    HOSTS,
    PORT_NUMBERS,
    VERSIONS,
    Json,
    document,
    durations,
    export_to,
    fields,
    filled,
    labels,
    namespaces,
    percents,
    short_hosts,
)

_string = st.sampled_from(({"exact": "/x"}, {"prefix": "/api"}, {"regex": "/v[0-9]+"}))
_value = st.sampled_from(({"exact": "a"}, {"prefix": "b"}, {"regex": "a|b"}, {}))
_header_names = st.sampled_from(("x-user", "Cookie", ":method", "X_y"))
_match = filled(
    uri=_string,
    scheme=st.just({"exact": "http"}),
    method=st.sampled_from(({"exact": "GET"}, {"regex": "GET|PUT"})),
    authority=st.sampled_from(({"exact": "s.b"}, {"prefix": "s"})),
    headers=st.dictionaries(_header_names, _value, min_size=1, max_size=2),
    withoutHeaders=st.dictionaries(_header_names, _value, min_size=1, max_size=2),
    queryParams=st.dictionaries(st.sampled_from(("q", "r")), _value, min_size=1, max_size=2),
    ignoreUriCase=st.booleans(),
    port=st.sampled_from(PORT_NUMBERS),
    sourceLabels=labels,
    sourceNamespace=st.sampled_from(("a", "b")),
    gateways=st.sampled_from((["mesh"], ["b/gw-0"], ["mesh", "b/gw-0"])),
    name=st.just("m"),
)
_texts = st.sampled_from(("v", "%REQ(x-user)%", "100%%", "%DOWNSTREAM_REMOTE_ADDRESS%", "ü"))
_operations = filled(
    set=st.dictionaries(st.sampled_from(("x-a", "X-B")), _texts, min_size=1, max_size=2),
    add=st.dictionaries(st.sampled_from(("x-c", "x-d")), _texts, min_size=1, max_size=2),
    remove=st.just(["x-e", "server"]),
)
_headers = filled(request=_operations, response=_operations)
_destination = fields(
    {"host": short_hosts},
    subset=st.sampled_from(VERSIONS),
    port=st.sampled_from(PORT_NUMBERS).map(lambda number: {"number": number}),
)


@st.composite
def _destinations(draw: st.DrawFn, *, with_headers: bool) -> list[Json]:
    count = draw(st.integers(1, 3))
    destinations: list[Json] = []
    for _ in range(count):
        one: Json = {"destination": draw(_destination)}
        if count > 1:
            one["weight"] = draw(st.integers(1, 100))
        if with_headers and draw(st.integers(0, 3)) == 0:
            one["headers"] = draw(_headers)
        destinations.append(one)
    if count > 2:
        destinations[0]["weight"] = 0
    return destinations


_retries = st.one_of(
    st.just({"attempts": 0}),
    fields(
        {"attempts": st.integers(1, 5)},
        perTryTimeout=durations,
        retryOn=st.sampled_from(("5xx", "503,connect-failure", "retriable-4xx,unavailable,reset")),
        retryRemoteLocalities=st.booleans(),
        retryIgnorePreviousHosts=st.booleans(),
        backoff=durations,
    ),
)
_abort = st.one_of(
    fields({"httpStatus": st.sampled_from((200, 418, 503))}, percentage=percents),
    fields({"grpcStatus": st.sampled_from(("UNAVAILABLE", "OK"))}, percentage=percents),
)
_fault = filled(delay=fields({"fixedDelay": durations}, percentage=percents), abort=_abort)
_cors = filled(
    allowOrigins=st.sampled_from(
        ([{"exact": "https://o"}], [{"prefix": "https://"}, {"regex": ".*\\.o"}])
    ),
    allowMethods=st.just(["GET", "POST"]),
    allowHeaders=st.just(["x-a"]),
    exposeHeaders=st.just(["x-b"]),
    maxAge=st.sampled_from(("10s", "24h")),
    allowCredentials=st.booleans(),
    unmatchedPreflights=st.sampled_from(("FORWARD", "IGNORE", "UNSPECIFIED")),
)
_rewrite = st.sampled_from(
    (
        {"uri": "/y"},
        {"uri": "/"},
        {"authority": "other.example.com"},
        {"uri": "/z", "authority": "other.example.com"},
        {"uriRegexRewrite": {"match": "^/api/(\\d+)$", "rewrite": "/id?n=\\1"}},
    )
)
_redirect = st.one_of(
    filled(
        uri=st.sampled_from(("/new", "/new?x=1")),
        authority=st.just("new.example.com"),
        scheme=st.sampled_from(("http", "https")),
        port=st.just(8443),
        redirectCode=st.sampled_from((301, 302, 303, 307, 308)),
    ).filter(lambda value: value.keys() & {"uri", "authority", "scheme", "port"}),
    st.sampled_from(
        (
            {"authority": "new.example.com", "derivePort": "FROM_REQUEST_PORT"},
            {"uri": "/n", "derivePort": "FROM_PROTOCOL_DEFAULT"},
        )
    ),
)
_direct = fields(
    {"status": st.sampled_from((200, 404, 503))},
    body=st.sampled_from(({"string": "no"}, {"bytes": "bm8="}, {"string": ""})),
)


@st.composite
def http_routes(draw: st.DrawFn, *, delegates: bool) -> Json:
    """Draw a route of requests."""
    route: Json = draw(fields(name=st.sampled_from(("one", "two")), headers=_headers))
    if draw(st.integers(0, 2)):
        route["match"] = draw(st.lists(_match, min_size=1, max_size=3))
    kind = draw(st.integers(0, 7 if delegates else 6))
    if kind == 0:
        route["redirect"] = draw(_redirect)
    elif kind == 1:
        route["directResponse"] = draw(_direct)
    elif kind == 7:
        prefix = draw(st.sampled_from(("/r", "/q")))
        return {
            "match": [{"uri": {"prefix": prefix}}],
            "delegate": {"name": "delegate-0", "namespace": draw(st.sampled_from("ab"))},
        }
    else:
        route["route"] = draw(_destinations(with_headers=True))
        route |= draw(
            fields(
                rewrite=_rewrite,
                timeout=st.one_of(durations, st.just("0s")),
                retries=_retries,
                fault=_fault,
                corsPolicy=_cors,
                mirrors=st.lists(
                    fields({"destination": _destination}, percentage=percents),
                    min_size=1,
                    max_size=2,
                ),
            )
        )
    return route


@st.composite
def virtual_services(draw: st.DrawFn, *, most: int = 4) -> list[Json]:
    """Draw VirtualServices for the mesh and for gateways, and perhaps one to delegate to."""
    documents = [
        draw(_virtual_service(f"vs-{index}")) for index in range(draw(st.integers(0, most)))
    ]
    if draw(st.booleans()):
        routes = draw(st.lists(http_routes(delegates=False), min_size=1, max_size=3))
        space = draw(st.sampled_from("ab"))
        documents.append(document("VirtualService", "delegate-0", space, {"http": routes}))
    return documents


_GATEWAYS: tuple[list[str], ...] = ([], ["mesh"], ["b/gw-0"], ["mesh", "b/gw-0"], ["gw-1"])


@st.composite
def _virtual_service(draw: st.DrawFn, name: str) -> Json:
    gateways = draw(st.sampled_from(_GATEWAYS))
    at_gateway = any(each != "mesh" for each in gateways)
    wide = ("*.b.svc.cluster.local", "*.example.com", *(("*",) if at_gateway else ()))
    hosts = draw(
        st.one_of(
            st.lists(st.sampled_from((*HOSTS, "s", "t.b")), min_size=1, max_size=2, unique=True),
            st.sampled_from(wide).map(lambda host: [host]),
        )
    )
    spec: Json = {"hosts": hosts}
    if gateways:
        spec["gateways"] = gateways
    kinds = draw(
        st.sampled_from((("http",), ("http",), ("tls",), ("tcp",), ("http", "tls", "tcp")))
    )
    if "http" in kinds:
        spec["http"] = draw(st.lists(http_routes(delegates=True), min_size=1, max_size=4))
    if "tls" in kinds:
        names = [each for each in hosts if "." in each and each != "*"] or list(EXTERNAL_HOSTS[:1])
        spec["hosts"] = hosts = list(dict.fromkeys((*hosts, *names))) if hosts != ["*"] else names
        spec["tls"] = draw(st.lists(_tls_route(names), min_size=1, max_size=2))
    if "tcp" in kinds:
        spec["tcp"] = draw(st.lists(_tcp_route(), min_size=1, max_size=2))
    if draw(st.integers(0, 4)) == 0:
        spec["exportTo"] = draw(export_to)
    return document("VirtualService", name, draw(namespaces), spec)


_connection = {
    "port": st.sampled_from(PORT_NUMBERS),
    "destinationSubnets": st.sampled_from((["10.9.0.0/16"], ["10.9.0.1", "10.4.0.0/24"])),
    "sourceLabels": labels,
    "sourceNamespace": st.sampled_from(("a", "b")),
    "gateways": st.sampled_from((["mesh"], ["b/gw-0"])),
}


@st.composite
def _tls_route(draw: st.DrawFn, names: list[str]) -> Json:
    sni = st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True)
    return {
        "match": draw(st.lists(fields({"sniHosts": sni}, **_connection), min_size=1, max_size=2)),
        "route": draw(_destinations(with_headers=False)),
    }


@st.composite
def _tcp_route(draw: st.DrawFn) -> Json:
    route: Json = {"route": draw(_destinations(with_headers=False))}
    if draw(st.booleans()):
        route["match"] = draw(st.lists(filled(**_connection), min_size=1, max_size=2))
    return route
