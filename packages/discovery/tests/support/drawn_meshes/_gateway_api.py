"""Objects of the Gateway API: a Gateway with listeners of every protocol, routes of every kind."""

from operator import itemgetter

from hypothesis import strategies as st

from drawn_meshes._draws import Draws, Json, document, fields

GROUP = "gateway.networking.k8s.io/v1"
GATEWAY_NAME = "api"
_ROUTES = ("HTTPRoute", "HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute")

_hostnames = st.sampled_from(("x.example.com", "*.example.com", "a.b.example.com", "y.example.org"))
_listeners: tuple[Json, ...] = (
    {"name": "http", "port": 80, "protocol": "HTTP"},
    {"name": "narrow", "port": 80, "protocol": "HTTP", "hostname": "*.b.example.com"},
    {"name": "other", "port": 8080, "protocol": "HTTP", "hostname": "*.example.com"},
    {
        "name": "https",
        "port": 443,
        "protocol": "HTTPS",
        "hostname": "*.example.com",
        "tls": {"certificateRefs": [{"name": "shop"}]},
    },
    {
        "name": "https-x",
        "port": 443,
        "protocol": "HTTPS",
        "hostname": "x.example.com",
        "tls": {
            "certificateRefs": [{"name": "shop"}, {"name": "other"}],
            "options": {
                "gateway.istio.io/tls-terminate-mode": "MUTUAL",
                "gateway.istio.io/tls-cipher-suites": "AES128-SHA, NONE",
            },
        },
    },
    {"name": "pass", "port": 8443, "protocol": "TLS", "tls": {"mode": "Passthrough"}},
    {
        "name": "end",
        "port": 9443,
        "protocol": "TLS",
        "tls": {"mode": "Terminate", "certificateRefs": [{"name": "shop"}]},
    },
    {"name": "tcp", "port": 9000, "protocol": "TCP"},
    {"name": "clash", "port": 9000, "protocol": "HTTP"},
)
_headers = st.lists(
    st.builds(
        lambda name, value: {"name": name, "value": value},
        st.sampled_from(("x-a", "x-b", "Host", "content-length")),
        st.sampled_from(("1", "100%", "%REQ(x)%", "a b", "\u00e9")),
    ),
    max_size=2,
    unique_by=lambda header: header["name"],
)
_modifier = fields(set=_headers, add=_headers, remove=st.just(["x-c", "host"]))
_values = st.lists(
    st.builds(
        lambda name, kind: {"name": name, "type": kind, "value": "[a-z]+"},
        st.sampled_from(("x-a", "X-A", "x-b")),
        st.sampled_from(("Exact", "RegularExpression")),
    ),
    max_size=2,
    unique_by=lambda value: value["name"],
)
_paths = st.sampled_from(
    (
        {"value": "/"},
        {"value": "/a"},
        {"value": "/a/b/"},
        {"type": "Exact", "value": "/a"},
        {"type": "RegularExpression", "value": "/[a-z]+"},
    )
)
_matches = fields(
    path=_paths,
    headers=_values,
    queryParams=_values,
    method=st.sampled_from(("GET", "POST")),
)
_backends = st.sampled_from(
    (
        {"name": "s", "port": 80},
        {"name": "t", "port": 80, "weight": 3},
        {"name": "u", "port": 9000, "weight": 0},
        {"name": "s", "namespace": "a", "port": 80},
        {"name": "gone", "port": 1},
        {
            "group": "networking.istio.io",
            "kind": "Hostname",
            "name": "x.example.com",
            "port": 443,
        },
    )
)
_SERVICES = ("s.b.svc.cluster.local", "t.b.svc.cluster.local", "s.a.svc.cluster.local")
_PORTS = (
    {"number": 80, "name": "http", "protocol": "HTTP"},
    {"number": 443, "name": "tls", "protocol": "TLS"},
    {"number": 9000, "name": "tcp", "protocol": "TCP"},
)
_targets = st.sampled_from(
    (
        {"group": "networking.istio.io", "kind": "ServiceEntry", "name": "s-0"},
        {
            "group": "networking.istio.io",
            "kind": "ServiceEntry",
            "name": "s-0",
            "sectionName": "http",
        },
        {"group": "networking.istio.io", "kind": "ServiceEntry", "name": "x-3"},
        {"group": "", "kind": "Service", "name": "t"},
        {"group": "", "kind": "Service", "name": "gone"},
    )
)
_roots = st.sampled_from(
    (
        {"wellKnownCACertificates": "System"},
        {"caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": "roots"}]},
    )
)
_backend_policies = st.builds(
    lambda targets, roots, names: {
        "targetRefs": targets,
        "validation": {"hostname": "s.example.com", **roots, **names},
    },
    # The same target with and without a section is a mistake.
    st.lists(_targets, min_size=1, max_size=2, unique_by=itemgetter("name")),
    _roots,
    fields(subjectAltNames=st.just([{"type": "URI", "uri": "spiffe://cluster.local/ns/b/sa/s"}])),
)
_replacements = st.sampled_from(("", "/", "/new", "/new/"))


@st.composite
def backend_services(draw: st.DrawFn) -> list[Json]:
    """Draw the services that routes name; one may be missing."""
    missing = draw(st.sampled_from((None, None, None, *_SERVICES)))
    documents = []
    for index, host in enumerate((*_SERVICES, "x.example.com")):
        name, namespace = host.split(".")[:2]
        spec = {
            "hosts": [host],
            "ports": list(_PORTS),
            "resolution": "STATIC",
            "location": "MESH_INTERNAL",
            "endpoints": [{"address": f"10.4.0.{index + 1}"}],
            "addresses": [f"10.9.0.{index + 1}"],
        }
        if host != missing:
            space = namespace if host in _SERVICES else "b"
            documents.append(document("ServiceEntry", f"{name}-{index}", space, spec))
    return documents


def _name_of(listener: Json) -> str:
    return str(listener["name"])


@st.composite
def gateway_api(draw: st.DrawFn) -> list[Json]:
    """Draw a Gateway of namespace b, routes that attach to it or to services, and a grant."""
    listeners = draw(
        st.lists(
            st.sampled_from(_listeners), min_size=1, max_size=5, unique_by=lambda each: each["name"]
        )
    )
    spec = {
        "gatewayClassName": "istio",
        "listeners": listeners,
        "allowedListeners": {"namespaces": {"from": draw(st.sampled_from(("All", "None")))}},
    }
    if draw(st.booleans()):
        mode = draw(st.sampled_from(("AllowValidOnly", "AllowInsecureFallback")))
        roots = [{"group": "", "kind": "ConfigMap", "name": "roots"}]
        validation = {"caCertificateRefs": roots, "mode": mode}
        spec["tls"] = {"frontend": {"default": {"validation": validation}}}
    documents = [document("Gateway", GATEWAY_NAME, "b", spec, group=GROUP)]
    if draw(st.booleans()):
        grant = {
            "from": [{"group": GROUP[:-3], "kind": "HTTPRoute", "namespace": "b"}],
            "to": [{"group": "", "kind": "Service"}],
        }
        documents.append(document("ReferenceGrant", "grant", "a", grant, group=GROUP))
    if draw(st.booleans()):
        further = draw(
            st.lists(st.sampled_from(_listeners), min_size=1, max_size=3, unique_by=_name_of)
        )
        of_set = {"parentRef": {"name": GATEWAY_NAME, "namespace": "b"}, "listeners": further}
        namespace = draw(st.sampled_from(("a", "b")))
        documents.append(document("ListenerSet", "more", namespace, of_set, group=GROUP))
    documents += [
        document("BackendTLSPolicy", f"tls-{index}", "b", spec, group=GROUP)
        for index, spec in enumerate(draw(st.lists(_backend_policies, max_size=2)))
    ]
    for index in range(draw(st.integers(1, 5))):
        kind = draw(
            st.sampled_from(("HTTPRoute", "HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute"))
        )
        group = f"{GROUP}alpha2" if kind == "TCPRoute" else GROUP
        documents.append(document(kind, f"r-{index}", "b", draw(_route(kind)), group=group))
    return documents


@st.composite
def _route(draw: st.DrawFn, kind: str) -> Json:
    parent = draw(
        st.sampled_from(
            (
                {"name": GATEWAY_NAME},
                {"name": GATEWAY_NAME, "port": 443},
                {"kind": "ListenerSet", "name": "more"},
                {"group": "", "kind": "Service", "name": "s"},
                {"group": "", "kind": "Service", "name": "t", "port": 80},
            )
        )
    )
    route: Json = {"parentRefs": [parent]}
    if kind != "TCPRoute" and draw(st.booleans()):
        route["hostnames"] = draw(st.lists(_hostnames, min_size=1, max_size=2, unique=True))
    rules = {"HTTPRoute": _http_rule(), "GRPCRoute": _grpc_rule}.get(kind)
    if rules is None:
        route["rules"] = [{"backendRefs": draw(st.lists(_backends, min_size=1, max_size=2))}]
    else:
        route["rules"] = draw(st.lists(rules, min_size=1, max_size=3))
    return route


@st.composite
def _http_rule(draw: st.DrawFn) -> Json:
    matches = draw(st.lists(_matches, max_size=2))
    rule: Json = {"matches": matches}
    first = matches[0].get("path", {}) if matches else {}
    prefix = len(matches) < 2 and first.get("type", "PathPrefix") == "PathPrefix"
    filters: list[Json] = draw(_header_filters)
    change = draw(st.sampled_from(("", "redirect", "rewrite")))
    if change:
        path = draw(_path_change(prefix=prefix))
        if change == "redirect":
            redirect = {"path": path, **draw(_redirects)}
            filters.append({"type": "RequestRedirect", "requestRedirect": redirect})
        else:
            rewrite = {"path": path, **draw(fields(hostname=st.just("in.example.com")))}
            filters.append({"type": "URLRewrite", "urlRewrite": rewrite})
    filters += draw(_other_filters)
    rule["filters"] = filters
    if change != "redirect":
        rule["backendRefs"] = draw(st.lists(_backends, max_size=3))
    rule.update(draw(_limits))
    return rule


_header_filters = st.lists(
    st.sampled_from(("request", "response")).flatmap(
        lambda side: _modifier.map(
            lambda changes: {
                "type": f"{side.capitalize()}HeaderModifier",
                f"{side}HeaderModifier": changes,
            }
        )
    ),
    max_size=2,
    unique_by=lambda each: str(each["type"]),
)
_redirects = fields(
    scheme=st.sampled_from(("http", "https")),
    hostname=st.just("other.example.com"),
    port=st.sampled_from((80, 443, 8443)),
    statusCode=st.sampled_from((301, 302, 303, 307, 308)),
)
_other_filters = st.lists(
    st.sampled_from(
        (
            {
                "type": "RequestMirror",
                "requestMirror": {"backendRef": {"name": "t", "port": 80}, "percent": 7},
            },
            {
                "type": "CORS",
                "cors": {"allowOrigins": ["https://*.example.com"], "allowMethods": ["*"]},
            },
        )
    ),
    max_size=2,
    unique_by=lambda each: str(each["type"]),
)
_limits = fields(
    timeouts=st.sampled_from(({"request": "0s"}, {"request": "2s", "backendRequest": "1s"})),
    retry=st.sampled_from(
        ({}, {"attempts": 0}, {"codes": [500, 503], "attempts": 3, "backoff": "0ms"})
    ),
)


def _path_change(*, prefix: bool) -> Draws:
    whole = _replacements.map(lambda new: {"type": "ReplaceFullPath", "replaceFullPath": new})
    if not prefix:
        return whole
    return whole | _replacements.map(
        lambda new: {"type": "ReplacePrefixMatch", "replacePrefixMatch": new}
    )


_grpc_rule = st.builds(
    lambda matches, filters, backends: {
        "matches": matches,
        "filters": filters,
        "backendRefs": backends,
    },
    st.lists(
        fields(
            method=st.sampled_from(
                (
                    {"service": "a.B"},
                    {"method": "C"},
                    {"service": "a.B", "method": "C"},
                    {"type": "RegularExpression", "service": "a.*"},
                )
            ),
            headers=_values,
        ),
        max_size=2,
    ),
    _header_filters,
    st.lists(_backends, max_size=2),
)
