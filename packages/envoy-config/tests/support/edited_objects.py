"""Objects of a small mesh that are edited: each by its name, in all that it may become.

They concern one another as much as so few can: hosts that several rules are about, in namespaces
that see more or less of each other, for proxies of two namespaces and labels.
"""

from collections.abc import Iterator
from itertools import product

from hypothesis import strategies as st

from documents import document

Edit = tuple[str, str | None]
"""The name of an object's file, and the object; None: it is removed."""
_FULL = "{}.svc.cluster.local"
_HOSTS = tuple(map(_FULL.format, ("s.a", "t.a", "s.b")))
_EXPORTS = ("", "exportTo: [.], ", "exportTo: [b], ", 'exportTo: ["*"], ')
_PORTS = (
    "{number: 80, name: http, protocol: HTTP}",
    (
        "{number: 80, name: http, protocol: HTTP, targetPort: 8080}, "
        "{number: 9000, name: tcp, protocol: TCP}"
    ),
    "{number: 80, name: any}, {number: 443, name: tls, protocol: TLS}",
)
_ENDPOINTS = (
    "",
    "{address: 10.4.0.1, labels: {version: v1}, locality: r1/z1}",
    (
        "{address: 10.4.0.2, labels: {version: v1}, locality: r1/z2}, "
        "{address: 10.4.0.9, labels: {version: v2}, locality: r2/z1, weight: 3}"
    ),
    "{address: 10.4.0.3, network: far}",
)
_POLICIES = (
    "trafficPolicy: {tls: {mode: SIMPLE}}",
    "trafficPolicy: {loadBalancer: {consistentHash: {httpHeaderName: x}}}",
    "trafficPolicy: {outlierDetection: {consecutive5xxErrors: 3}}",
    "subsets: [{name: v1, labels: {version: v1}}]",
    (
        "subsets: [{name: v1, labels: {version: v1}}, {name: v2, labels: {version: v2}, "
        "trafficPolicy: {connectionPool: {tcp: {maxConnections: 3}}}}]"
    ),
    (
        "trafficPolicy: {loadBalancer: {localityLbSetting: {failoverPriority: [app]}}, "
        "outlierDetection: {}}"
    ),
)
_RULE_HOSTS = ("s", *_HOSTS, '"*.b.svc.cluster.local"', '"*"')
_MATCHES = (
    "",
    "match: [{sourceLabels: {app: web}}], ",
    "match: [{uri: {prefix: /x}}], timeout: 1s, ",
    "match: [{sourceNamespace: b}], ",
)
_GATEWAYS = ("", "gateways: [a/g], ", "gateways: [mesh, a/g], ")
_TARGETS = tuple(
    f"{{destination: {{host: {host}{subset}, port: {{number: 80}}}}}}"
    for host in ("s", *_HOSTS, "gone")
    for subset in ("", ", subset: v1")
)
_SERVERS = (
    '{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*"]}',
    '{port: {number: 80, name: http, protocol: HTTP}, hosts: ["a/s.a.svc.cluster.local"]}',
    (
        '{port: {number: 15443, name: tls, protocol: TLS}, hosts: ["*.local"], '
        "tls: {mode: AUTO_PASSTHROUGH}}"
    ),
    (
        '{port: {number: 443, name: tls, protocol: TLS}, hosts: ["*"], tls: {mode: PASSTHROUGH}}, '
        '{port: {number: 15443, name: more, protocol: TLS}, hosts: ["*.b.svc.cluster.local"], '
        "tls: {mode: AUTO_PASSTHROUGH}}"
    ),
)
_EGRESS = (
    '[{hosts: ["*/*"]}]',
    '[{hosts: ["./*"]}]',
    '[{hosts: ["a/s.a.svc.cluster.local", "b/*"]}]',
    '[{port: {number: 80, protocol: HTTP, name: http}, hosts: ["a/*"]}, {hosts: ["b/*"]}]',
    '[{hosts: ["~/*"]}]',
)


def services() -> Iterator[Edit]:
    """Yield the services, in their variants."""
    for (name, place), ports, ends, export in product(
        enumerate(("s.a", "t.a", "s.b", "wild")), _PORTS, _ENDPOINTS, _EXPORTS
    ):
        host = '"*.example.com"' if place == "wild" else _FULL.format(place)
        location = "MESH_EXTERNAL" if place == "wild" else "MESH_INTERNAL"
        resolution = "NONE" if place == "wild" else "STATIC"
        listed = "" if place == "wild" else f", endpoints: [{ends}]"
        spec = (
            f"{{hosts: [{host}], {export}addresses: [10.3.0.{name + 1}], location: {location}, "
            f"resolution: {resolution}, ports: [{ports}]{listed}}}"
        )
        namespace = "b" if place == "s.b" else "a"
        yield f"service-{name}", document("ServiceEntry", f"e{name}", spec, namespace=namespace)


def destination_rules() -> Iterator[Edit]:
    """Yield the DestinationRules, in their variants."""
    selectors = "", "workloadSelector: {matchLabels: {app: web}}, "
    for number, namespace in enumerate(("a", "a", "b", "istio-system")):
        for host, policy, export, selector in product(_RULE_HOSTS, _POLICIES, _EXPORTS, selectors):
            if selector and export:
                continue
            spec = f"{{host: {host}, {export}{selector}{policy}}}"
            text = document("DestinationRule", f"r{number}", spec, namespace=namespace)
            yield f"rule-{number}", text


def virtual_services() -> Iterator[Edit]:
    """Yield the VirtualServices, in their variants; some have delegates, and some are ones."""
    for number, namespace in enumerate(("a", "a", "b")):
        for host, target, match, gateways, export in product(
            (*_HOSTS, '"*.a.svc.cluster.local"'), _TARGETS, _MATCHES, _GATEWAYS, _EXPORTS
        ):
            spec = f"{{hosts: [{host}], {gateways}{export}http: [{{{match}route: [{target}]}}]}}"
            text = document("VirtualService", f"v{number}", spec, namespace=namespace)
            yield f"routes-{number}", text
        for host, gateways, delegate in product(_HOSTS, _GATEWAYS, ("d0", "d1, namespace: b")):
            spec = f"{{hosts: [{host}], {gateways}http: [{{delegate: {{name: {delegate}}}}}]}}"
            text = document("VirtualService", f"v{number}", spec, namespace=namespace)
            yield f"routes-{number}", text
    for number, target, match, export in product((0, 1), _TARGETS, _MATCHES, _EXPORTS):
        spec = f"{{{export}http: [{{{match}route: [{target}]}}]}}"
        text = document("VirtualService", f"d{number}", spec, namespace="ab"[number])
        yield f"delegate-{number}", text
    for host, target, gateways in product(_HOSTS, _HOSTS, _GATEWAYS):
        for kind, match in (("tcp", "{port: 9000}"), ("tls", f"{{sniHosts: [{host}]}}")):
            spec = (
                f"{{hosts: [{host}], {gateways}{kind}: [{{match: [{match}], "
                f"route: [{{destination: {{host: {target}, port: {{number: 9000}}}}}}]}}]}}"
            )
            yield "connections", document("VirtualService", "c", spec)


def others() -> Iterator[Edit]:
    """Yield Gateways, Sidecars, policies and settings of the mesh."""
    for servers, name in product(_SERVERS, "gh"):
        spec = f"{{selector: {{istio: ingressgateway}}, servers: [{servers}]}}"
        yield f"gateway-{name}", document("Gateway", name, spec)
    selectors = "", "workloadSelector: {labels: {app: web}}, "
    policies = "", "outboundTrafficPolicy: {mode: REGISTRY_ONLY}, "
    places = ("a", selectors[1]), ("a", ""), ("b", ""), ("istio-system", "")
    for (number, (namespace, selector)), policy, egress in product(
        enumerate(places), policies, _EGRESS
    ):
        spec = f"{{{selector}{policy}egress: {egress}}}"
        yield f"sidecar-{number}", document("Sidecar", f"s{number}", spec, namespace=namespace)
    for mode, namespace in product(("STRICT", "DISABLE"), ("a", "istio-system")):
        text = document(
            "PeerAuthentication", "default", f"{{mtls: {{mode: {mode}}}}}", namespace=namespace
        ).replace("networking.istio.io", "security.istio.io")
        yield f"peers-{namespace}", text
    for policy in ("{mode: REGISTRY_ONLY}", "{mode: ALLOW_ANY}"):
        yield (
            "mesh",
            (
                "apiVersion: mesh.istio.io/v1alpha1\nkind: MeshConfig\n"
                f"spec: {{outboundTrafficPolicy: {policy}}}\n"
            ),
        )


def kinds() -> list[list[Edit]]:
    """Return the edits of each kind: to each variant of each object, and that it is removed."""
    found = (services(), destination_rules(), virtual_services(), others())
    listed = [list(each) for each in found]
    return [
        [*each, *((name, None) for name in sorted({name for name, _ in each}))] for each in listed
    ]


def chains() -> st.SearchStrategy[list[list[Edit]]]:
    """Return chains of edits: what the mesh is at first, and then an object or two at a time."""
    listed = kinds()
    each = st.one_of(*map(st.sampled_from, listed))
    first = st.tuples(
        st.lists(st.sampled_from(listed[0]), min_size=2, max_size=6), st.lists(each, max_size=6)
    ).map(lambda both: [*both[0], *both[1]])
    then = st.lists(st.lists(each, min_size=1, max_size=2), min_size=2, max_size=10)
    return st.tuples(first, then).map(lambda both: [both[0], *both[1]])
