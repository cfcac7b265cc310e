"""AuthorizationPolicies and RequestAuthentications, with values that Envoy might stumble over."""

from hypothesis import strategies as st

from drawn_meshes._draws import Draws, Json, document, fields, filled, some_labels

_SECURITY = "security.istio.io/v1"
AUTHORIZERS = (
    {
        "name": "http",
        "envoyExtAuthzHttp": {
            "service": "s.b.svc.cluster.local",
            "port": 80,
            "pathPrefix": "/check",
            "statusOnError": "503",
            "includeRequestHeadersInCheck": ["x-a", "x-b-*", "*-c"],
            "includeAdditionalHeadersInCheck": {"x-asked": "100"},
            "headersToUpstreamOnAllow": ["x-user"],
            "includeRequestBodyInCheck": {"maxRequestBytes": 8, "allowPartialMessage": True},
        },
    },
    {
        "name": "grpc",
        "envoyExtAuthzGrpc": {"service": "s.b.svc.cluster.local", "port": 7000, "failOpen": True},
    },
)
_ED25519 = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
_KEYS = (
    '{"keys": [{"kty": "oct", "k": "AAAA"}]}',
    f'{{"keys": [{{"kty": "XYZ"}}, {{"kty": "OKP", "crv": "Ed25519", "x": "{_ED25519}"}}]}}',
)


def _some(*values: str) -> Draws:
    return st.lists(st.sampled_from(values), min_size=1, max_size=3, unique=True)


_names = ("a", "a*", "*a", "*", "%a%", "a.b(c)[d]{e}+?$^|\\", "\u00e9\u4e16", "x" * 200, '"', "a b")
_principals = _some(
    "cluster.local/ns/a/sa/b", "old.example/ns/a/*", "*/sa/b", "*", "x/ns/(.+/sa/[b", *_names
)
_spaces = _some("a", "a*", "*", "istio-system", "a.*[(")
_accounts = _some("s", "b/s", "b/s.(+", "a-b")
_domains = _some("cluster.local", "old.example", "*.example", "*", "x(")
_addresses = _some("10.0.0.1", "10.1.2.3/8", "fd00::1", "fd00::/8", "0.0.0.0/0", "::/0")
_tokens = _some("iss/sub", "*", "*/sub", "iss/*", "https://i.example/a*", "*b", "iss", "a/b/c/d")
_source = st.one_of(
    filled(
        principals=_principals,
        notPrincipals=_principals,
        requestPrincipals=_tokens,
        notRequestPrincipals=_tokens,
        namespaces=_spaces,
        notNamespaces=_spaces,
        trustDomains=_domains,
        notTrustDomains=_domains,
        ipBlocks=_addresses,
        notIpBlocks=_addresses,
        remoteIpBlocks=_addresses,
        notRemoteIpBlocks=_addresses,
    ),
    filled(serviceAccounts=_accounts, notServiceAccounts=_accounts, ipBlocks=_addresses),
)
_source_of_custom = filled(ipBlocks=_addresses, notRemoteIpBlocks=_addresses)
_hosts = _some("s.b", "*.example", "s.*", "*", "S.B:80", *_names)
_methods = _some("GET", "P*", "*T", "*", "get")
_paths = _some("/a", "/a*", "*.html", "*", "/{*}/a", "/a/{**}", "/a/{*}/{**}/b.c", "/%41", *_names)
_ports = _some("80", "8080", "9000", "65535")
_operation = filled(
    hosts=_hosts,
    notHosts=_hosts,
    methods=_methods,
    notMethods=_methods,
    paths=_paths,
    notPaths=_paths,
    ports=_ports,
    notPorts=_ports,
)
_OF_ALL = (
    ("source.ip", ("10.0.0.1", "fd00::/8")),
    ("remote.ip", ("10.0.0.0/8",)),
    ("destination.ip", ("10.0.0.1",)),
    ("destination.port", ("80", "9000")),
    ("connection.sni", ("a.example", "*.example", "*")),
    ("request.headers[x-a]", _names),
    ("request.headers[:authority]", ("a", "*")),
    ("experimental.envoy.filters.network.mongo_proxy[db.t]", ("[find]", "a")),
)
_OF_IDENTITIES = (
    ("source.namespace", ("a", "b*")),
    ("source.principal", ("cluster.local/ns/a/sa/b", "*")),
    ("source.serviceAccount", ("a/s",)),
    ("source.trustDomain", ("old.example", "*.x")),
    ("request.auth.principal", ("iss/sub", "*")),
    ("request.auth.audiences", _names),
    ("request.auth.presenter", ("a", "a*")),
    ("request.auth.claims[groups]", _names),
    ("request.auth.claims[a][b.c][d]", ("*", "x")),
)


def _conditions(attributes: tuple[tuple[str, tuple[str, ...]], ...]) -> Draws:
    each = [_condition(key, _some(*values)) for key, values in attributes]
    return st.lists(st.one_of(each), min_size=1, max_size=2)


def _condition(key: str, values: Draws) -> Draws:
    return filled(values=values, notValues=values).map(lambda given: {"key": key, **given})


def _rules(source: Draws, conditions: Draws) -> Draws:
    sources = st.lists(st.fixed_dictionaries({"source": source}), min_size=1, max_size=2)
    operations = st.lists(st.fixed_dictionaries({"operation": _operation}), min_size=1, max_size=2)
    of_callers: dict[str, Draws] = {"from": sources}
    rule = fields({}, to=operations, when=conditions, **of_callers)
    return st.lists(rule, min_size=1, max_size=2)


_of_all = _rules(_source, _conditions((*_OF_ALL, *_OF_IDENTITIES)))
_of_custom = _rules(_source_of_custom, _conditions(_OF_ALL))


@st.composite
def authorization_policies(draw: st.DrawFn) -> list[Json]:
    """Draw policies of each action, of the mesh, of namespaces, workloads and gateways."""
    policies = []
    for index, namespace in enumerate(("istio-system", "a", "b", "b", "b")):
        if draw(st.integers(0, 2)):
            continue
        action = draw(st.sampled_from(("ALLOW", "DENY", "AUDIT", "CUSTOM")))
        spec: Json = {"action": action}
        if action == "CUSTOM":
            spec["provider"] = {"name": draw(st.sampled_from(("http", "grpc", "unknown")))}
            spec["rules"] = draw(_of_custom)
        elif action == "DENY" or draw(st.integers(0, 4)):
            spec["rules"] = draw(_of_all)
        if index == 3:
            spec["selector"] = {"matchLabels": draw(some_labels)}
        elif index == 4:
            spec["targetRefs"] = [
                {"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "api"}
            ]
        found = document("AuthorizationPolicy", f"ap-{index}", namespace, spec, group=_SECURITY)
        if action in ("ALLOW", "DENY") and draw(st.integers(0, 3)) == 0:
            found["metadata"]["annotations"] = {"istio.io/dry-run": "true"}
        policies.append(found)
    return policies


_header = st.sampled_from(("x-token", "authorization", "X-User"))
_jwt_rule = fields(
    {"issuer": st.sampled_from(("https://i.example", "https://j.example/%a", "https://\u00e9"))},
    audiences=_some("a", "b c", "%"),
    jwks=st.sampled_from(_KEYS),
    jwksUri=st.just("https://keys.invalid/keys"),
    fromHeaders=st.lists(
        fields({"name": _header}, prefix=st.sampled_from(("Bearer ", "x%", ""))),
        min_size=1,
        max_size=2,
    ),
    fromParams=_some("token", "a b"),
    fromCookies=_some("token"),
    outputPayloadToHeader=_header,
    forwardOriginalToken=st.booleans(),
    outputClaimToHeaders=st.lists(
        st.fixed_dictionaries({"header": _header, "claim": st.sampled_from(("sub", "a.b", "%"))}),
        min_size=1,
        max_size=2,
    ),
    timeout=st.just("3s"),
    spaceDelimitedClaims=_some("roles", "scope"),
)


@st.composite
def request_authentications(draw: st.DrawFn) -> list[Json]:
    """Draw what the mesh, namespaces and workloads look at of tokens."""
    authentications = []
    for index, namespace in enumerate(("istio-system", "a", "b", "b")):
        if draw(st.integers(0, 2)):
            continue
        spec: Json = {"jwtRules": draw(st.lists(_jwt_rule, min_size=1, max_size=3))}
        if index == 3:
            spec["selector"] = {"matchLabels": draw(some_labels)}
        authentications.append(
            document("RequestAuthentication", f"ra-{index}", namespace, spec, group=_SECURITY)
        )
    return authentications
