"""Sidecars, PeerAuthentications and the mesh config."""

from hypothesis import strategies as st

from drawn_meshes._access import AUTHORIZERS
from drawn_meshes._draws import Json, document, durations, fields, filled, labels, some_labels
from drawn_meshes._observation import PROVIDERS

_modes = st.sampled_from(("UNSET", "DISABLE", "PERMISSIVE", "STRICT"))


@st.composite
def peer_authentications(draw: st.DrawFn) -> list[Json]:
    """Draw policies of the mesh, of namespaces and of workloads."""
    documents = []
    for index, namespace in enumerate(("istio-system", "a", "b", "b")):
        if not draw(st.booleans()):
            continue
        spec: Json = {"mtls": {"mode": draw(_modes)}}
        if index == 3:
            spec["selector"] = {"matchLabels": draw(some_labels)}
            if draw(st.booleans()):
                port = draw(st.sampled_from(("8080", "80", "9000")))
                spec["portLevelMtls"] = {port: {"mode": draw(_modes)}}
        documents.append(
            document(
                "PeerAuthentication", f"p-{index}", namespace, spec, group="security.istio.io/v1"
            )
        )
    return documents


_egress_hosts = st.lists(
    st.sampled_from(
        (
            "./*",
            "*/*.example.com",
            "b/*",
            "a/s.a.svc.cluster.local",
            "~/*",
            "~b/t.b.svc.cluster.local",
        )
    ),
    min_size=1,
    max_size=3,
    unique=True,
)
_egress_port = st.sampled_from(
    (
        {"number": 80, "name": "http", "protocol": "HTTP"},
        {"number": 9000, "name": "tcp", "protocol": "TCP"},
        {"number": 3128, "name": "proxy", "protocol": "HTTP_PROXY"},
        {"number": 9999, "name": "https", "protocol": "HTTPS"},
    )
)
_ingress = fields(
    {
        "port": st.sampled_from(
            (
                {"number": 9080, "name": "http", "protocol": "HTTP"},
                {"number": 9081, "name": "tcp", "protocol": "TCP"},
            )
        )
    },
    defaultEndpoint=st.sampled_from(("127.0.0.1:8080", "0.0.0.0:8080", "unix:///run/app.sock")),
    captureMode=st.sampled_from(("DEFAULT", "IPTABLES", "NONE")),
    connectionPool=st.just({"tcp": {"maxConnections": 5}}),
)


_pools = filled(
    tcp=st.just({"maxConnections": 3}),
    http=st.sampled_from(({"http2MaxRequests": 3}, {"useClientProtocol": True})),
)
_egress_socket = st.fixed_dictionaries(
    {
        "port": st.sampled_from(
            ({"number": 0, "protocol": "HTTP"}, {"number": 0, "protocol": "TCP"})
        ),
        "bind": st.just("unix:///run/out.sock"),
        "hosts": _egress_hosts,
    }
)
_sidecar_settings = fields(inboundConnectionPool=_pools)


@st.composite
def sidecars(draw: st.DrawFn) -> list[Json]:
    """Draw Sidecars of namespaces and of workloads."""
    documents = []
    for index, namespace in enumerate(("istio-system", "a", "b", "b")):
        if draw(st.integers(0, 2)):
            continue
        egress: list[Json] = draw(
            st.lists(
                fields(
                    {"port": _egress_port, "hosts": _egress_hosts},
                    bind=st.just("127.0.0.9"),
                    captureMode=st.sampled_from(("DEFAULT", "IPTABLES", "NONE")),
                ),
                max_size=2,
                unique_by=lambda each: each["port"]["number"],
            )
        )
        if draw(st.booleans()):
            egress.append(draw(_egress_socket))
        egress.append({"hosts": draw(_egress_hosts)})
        spec: Json = {"egress": egress, **draw(_sidecar_settings)}
        if draw(st.booleans()):
            mode = draw(st.sampled_from(("REGISTRY_ONLY", "ALLOW_ANY")))
            spec["outboundTrafficPolicy"] = {"mode": mode}
            if mode == "ALLOW_ANY" and draw(st.booleans()):
                proxy = {"host": "s.a.svc.cluster.local", "port": {"number": 80}}
                spec["outboundTrafficPolicy"]["egressProxy"] = proxy
        if index == 3:
            spec["workloadSelector"] = {"labels": draw(some_labels)}
            if draw(st.booleans()):
                spec["ingress"] = draw(
                    st.lists(
                        _ingress,
                        min_size=1,
                        max_size=2,
                        unique_by=lambda each: each["port"]["number"],
                    )
                )
        documents.append(document("Sidecar", f"sidecar-{index}", namespace, spec))
    return documents


_proxy_headers = fields(
    forwardedClientCert=st.sampled_from(("SANITIZE", "APPEND_FORWARD", "FORWARD_ONLY")),
    setCurrentClientCertDetails=st.just({"cert": True, "uri": False}),
    requestId=st.just({"disabled": True}),
    server=st.sampled_from(({"disabled": True}, {"value": "shop"})),
    attemptCount=st.just({"disabled": True}),
    envoyDebugHeaders=st.just({"disabled": True}),
    preserveHttp1HeaderCase=st.booleans(),
    xForwardedHost=st.just({"enabled": True}),
    xForwardedPort=st.just({"enabled": True}),
)
_connection_settings = fields(
    profile=st.just("EDGE"),
    httpIdleTimeout=durations,
    httpMaxConnectionDuration=durations,
    httpMaxStreamDuration=durations,
    httpStreamIdleTimeout=durations,
    httpRequestTimeout=durations,
    httpRequestHeadersTimeout=durations,
    httpDrainTimeout=durations,
    httpMaxConcurrentStreams=st.just(7),
    http2InitialStreamWindowSize=st.just(65535),
    http2InitialConnectionWindowSize=st.just(2**31 - 1),
    httpHeadersWithUnderscoresAction=st.sampled_from(("ALLOW", "REJECT_REQUEST", "DROP_HEADER")),
    httpPathWithEscapedSlashesAction=st.sampled_from(("KEEP_UNCHANGED", "REJECT_REQUEST")),
    listenerPerConnectionBufferLimitBytes=st.just(0),
)
_mesh_config = fields(
    accessLogFile=st.just("/dev/stdout"),
    accessLogEncoding=st.sampled_from(("TEXT", "JSON")),
    enableAutoMtls=st.booleans(),
    connectTimeout=durations,
    protocolDetectionTimeout=st.sampled_from(("0s", "0.1s", "5s")),
    outboundTrafficPolicy=st.sampled_from(
        [{"mode": each} for each in ("REGISTRY_ONLY", "ALLOW_ANY", "ALLOW_ANY_DYNAMIC_DNS")]
    ),
    proxyHttpPort=st.just(15002),
    h2UpgradePolicy=st.sampled_from(("UPGRADE", "DO_NOT_UPGRADE")),
    tcpKeepalive=fields(probes=st.just(3), time=st.just("10s"), interval=st.just("5s")),
    inboundTrafficPolicy=st.sampled_from(({"mode": "PASSTHROUGH"}, {"mode": "LOCALHOST"})),
    pathNormalization=st.sampled_from(
        ("NONE", "BASE", "MERGE_SLASHES", "DECODE_AND_MERGE_SLASHES", "DEFAULT")
    ).map(lambda value: {"normalization": value}),
    localityLbSetting=st.sampled_from(
        ({"enabled": False}, {"enabled": True, "failover": [{"from": "r1", "to": "r2"}]})
    ),
    defaultHttpRetryPolicy=st.just({"attempts": 1, "retryOn": "5xx"}),
    meshMTLS=st.just({"minProtocolVersion": "TLSV1_3"}),
    tlsDefaults=st.just({"minProtocolVersion": "TLSV1_2"}),
    verifyCertificateAtClient=st.booleans(),
    trustDomainAliases=st.just(["old.example"]),
    defaultInboundHttpRetryPolicy=st.just({"attempts": 3, "retryOn": "connect-failure"}),
    defaultTrafficPolicy=fields(
        connectionPool=_pools, outlierDetection=st.just({"consecutive5xxErrors": 3})
    ),
    inboundClusterStatName=st.just("in_%SERVICE%_%SERVICE_PORT_NAME%"),
    outboundClusterStatName=st.just("out_%SERVICE_FQDN%_%SUBSET_NAME%_%TARGET_PORT%"),
    extensionProviders=st.just([*AUTHORIZERS, *PROVIDERS]),
    defaultProviders=st.sampled_from(
        ({"accessLogging": ["json"]}, {"tracing": ["zipkin"], "accessLogging": ["envoy", "als"]})
    ),
    enableTracing=st.booleans(),
    disableEnvoyListenerLog=st.booleans(),
    defaultConfig=fields(proxyHeaders=_proxy_headers, connectionSettings=_connection_settings),
)


@st.composite
def mesh_configs(draw: st.DrawFn) -> list[Json]:
    """Draw the mesh config, or none."""
    if draw(st.booleans()):
        return []
    spec = draw(_mesh_config)
    if "defaultProviders" in spec:
        spec["extensionProviders"] = [*AUTHORIZERS, *PROVIDERS]
    return [{"apiVersion": "mesh.istio.io/v1alpha1", "kind": "MeshConfig", "spec": spec}]


proxy_labels = labels
