"""DestinationRules with every setting of a traffic policy."""

from hypothesis import strategies as st

from drawn_meshes._draws import (
    PORT_NUMBERS,
    VERSIONS,
    Json,
    counts,
    document,
    durations,
    export_to,
    fields,
    filled,
    namespaces,
    seconds,
    short_hosts,
    some_labels,
)

_tcp = filled(
    maxConnections=counts,
    connectTimeout=durations,
    maxConnectionDuration=durations,
    idleTimeout=durations,
    tcpKeepalive=fields(probes=st.integers(1, 9), time=seconds, interval=seconds),
)
_http = filled(
    http1MaxPendingRequests=counts,
    http2MaxRequests=counts,
    maxRequestsPerConnection=counts,
    maxRetries=counts,
    idleTimeout=durations,
    h2UpgradePolicy=st.sampled_from(("DEFAULT", "DO_NOT_UPGRADE", "UPGRADE")),
    maxConcurrentStreams=st.sampled_from((0, 1, 100)),
)
pools = filled(tcp=_tcp, http=st.one_of(_http, st.just({"useClientProtocol": True})))
_outlier = fields(
    consecutiveGatewayErrors=st.sampled_from((0, 1, 5)),
    consecutive5xxErrors=st.sampled_from((0, 1, 5)),
    interval=seconds,
    baseEjectionTime=seconds,
    maxEjectionPercent=st.sampled_from((0, 10, 100)),
    minHealthPercent=st.sampled_from((0, 50, 100)),
)
_outlier = st.one_of(
    _outlier,
    st.just({"splitExternalLocalOriginErrors": True, "consecutiveLocalOriginFailures": 3}),
).filter(bool)
_hash = st.builds(
    lambda key, table: {**key, **table},
    st.sampled_from(
        (
            {"httpHeaderName": "x-user"},
            {"httpCookie": {"name": "user", "ttl": "0s"}},
            {"httpCookie": {"name": "user", "path": "/p", "ttl": "10s"}},
            {"useSourceIp": True},
            {"httpQueryParameterName": "user"},
        )
    ),
    st.sampled_from(
        ({}, {"ringHash": {"minimumRingSize": 64}}, {"maglev": {"tableSize": 251}}, {"maglev": {}})
    ),
)
_locality = st.sampled_from(
    (
        {"enabled": True},
        {"enabled": False},
        {"distribute": [{"from": "r1/*", "to": {"r1/*": 80, "r2/*": 20}}]},
        {"failover": [{"from": "r1", "to": "r2"}]},
        {"failoverPriority": ["version", "tier"]},
    )
)
_balancer = st.one_of(
    st.builds(
        lambda simple, more: {"simple": simple, **more},
        st.sampled_from(("ROUND_ROBIN", "LEAST_REQUEST", "LEAST_CONN", "RANDOM", "UNSPECIFIED")),
        fields(localityLbSetting=_locality),
    ),
    st.just({"simple": "PASSTHROUGH"}),
    st.builds(
        lambda value: {
            "simple": "ROUND_ROBIN",
            "warmup": {"duration": "10s", **value},
        },
        fields(minimumPercent=st.sampled_from((1.0, 50.0)), aggression=st.sampled_from((1.0, 2.5))),
    ),
    _hash.map(lambda value: {"consistentHash": value}),
)
_tls = st.one_of(
    st.just({"mode": "DISABLE"}),
    fields({"mode": st.just("ISTIO_MUTUAL")}, sni=st.just("other.example.com")),
    fields(
        {"mode": st.just("SIMPLE")},
        sni=st.just("x.example.com"),
        subjectAltNames=st.just(["x.example.com", "spiffe://other/a"]),
        caCertificates=st.sampled_from(("/etc/ca.pem", "system")),
    ),
    st.just({"mode": "SIMPLE", "insecureSkipVerify": True}),
    fields(
        {
            "mode": st.just("MUTUAL"),
            "clientCertificate": st.just("/etc/cert.pem"),
            "privateKey": st.just("/etc/key.pem"),
        },
        caCertificates=st.just("/etc/ca.pem"),
    ),
    st.just({"mode": "MUTUAL", "credentialName": "client"}),
)
_settings = {
    "loadBalancer": _balancer,
    "connectionPool": pools,
    "outlierDetection": _outlier,
    "tls": _tls,
}
_by_port = st.builds(
    lambda settings, number: {"port": {"number": number}, **settings},
    filled(**_settings),
    st.sampled_from(PORT_NUMBERS),
)
_policy = st.builds(
    lambda policy, more: {**policy, **more},
    filled(
        **_settings,
        portLevelSettings=st.lists(
            _by_port, min_size=1, max_size=2, unique_by=lambda each: each["port"]["number"]
        ),
        retryBudget=filled(percent=st.just(20.0), minRetryConcurrency=st.just(3)),
    ),
    st.sampled_from(
        (
            {},
            {},
            {"tunnel": {"targetHost": "x.example.com", "targetPort": 443}},
            {"proxyProtocol": {"version": "V2"}},
        )
    ),
)


@st.composite
def destination_rules(draw: st.DrawFn, *, most: int = 4) -> list[Json]:
    """Draw DestinationRules; several may be of one host."""
    return [draw(_rule(f"dr-{index}")) for index in range(draw(st.integers(0, most)))]


@st.composite
def _rule(draw: st.DrawFn, name: str) -> Json:
    wildcards = ("*.b.svc.cluster.local", "*.example.com", "*.example.net")
    spec: Json = {"host": draw(st.one_of(short_hosts, st.sampled_from(wildcards)))}
    if draw(st.booleans()):
        spec["trafficPolicy"] = draw(_policy)
    if draw(st.booleans()):
        names = draw(st.lists(st.sampled_from(VERSIONS), min_size=1, max_size=3, unique=True))
        spec["subsets"] = [draw(_subset(each)) for each in names]
    choice = draw(st.integers(0, 5))
    if choice == 0:
        spec["exportTo"] = draw(export_to)
    elif choice == 1:
        spec["workloadSelector"] = {"matchLabels": draw(some_labels)}
    return document("DestinationRule", name, draw(namespaces), spec)


@st.composite
def _subset(draw: st.DrawFn, name: str) -> Json:
    subset: Json = {"name": name, "labels": {"version": name}}
    if draw(st.booleans()):
        subset["trafficPolicy"] = draw(_policy)
    return subset
