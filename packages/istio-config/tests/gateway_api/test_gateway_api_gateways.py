"""The Gateway API's rules for gateways, their classes and grants of references."""

import pytest

from gateway_api_specs import listener, read

GOOD = {
    "GatewayClass": "{controllerName: istio.io/gateway-controller, description: ours}",
    "Gateway": """
gatewayClassName: istio
addresses: [{type: Hostname, value: ingress.istio-system.svc.cluster.local}]
listeners:
- {name: http, port: 80, protocol: HTTP}
- {name: wild, port: 80, protocol: HTTP, hostname: "*.example.com"}
- name: https
  port: 443
  protocol: HTTPS
  hostname: shop.example.com
  tls:
    certificateRefs: [{name: shop, namespace: certs}]
    options: {gateway.istio.io/tls-terminate-mode: MUTUAL}
  allowedRoutes:
    kinds: [{kind: HTTPRoute}]
    namespaces:
      from: Selector
      selector:
        matchLabels: {team: shop}
        matchExpressions: [{key: stage, operator: In, values: [live]}]
- {name: pass, port: 8443, protocol: TLS, tls: {mode: Passthrough}}
- {name: mesh, port: 9443, protocol: TLS,
   tls: {mode: Terminate, options: {gateway.istio.io/tls-terminate-mode: ISTIO_MUTUAL}}}
- {name: tcp, port: 9000, protocol: TCP, allowedRoutes: {namespaces: {from: All}}}
""",
    "ReferenceGrant": "{from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, "
    'namespace: shop}], to: [{group: "", kind: Service, name: cart}]}',
}


GOOD["ListenerSet"] = (
    "{parentRef: {name: gw, namespace: edge}, listeners: [{name: a, port: 80, protocol: HTTP}]}"
)


@pytest.mark.parametrize("kind", GOOD)
def test_a_good_object_is_accepted_without_a_word(kind: str) -> None:
    assert read(kind, GOOD[kind]) == ([], [])


def test_a_gateway_that_allows_sets_needs_a_listener_of_its_own() -> None:
    allowed = "allowedListeners: {namespaces: {from: Same}}"
    found, _ = read("Gateway", f"{{gatewayClassName: istio, {allowed}}}")
    assert found == ["listeners: must have 1 to 64 entries, it has 0"]
    listener = "listeners: [{name: a, port: 80, protocol: HTTP}]"
    assert read("Gateway", f"{{gatewayClassName: istio, {allowed}, {listener}}}") == ([], [])


def gateway_tls(text: str) -> str:
    listeners = "listeners: [{name: a, port: 80, protocol: HTTP}]"
    return f"{{gatewayClassName: istio, {listeners}, tls: {{{text}}}}}"


def https(options: str) -> str:
    tls = f"tls: {{certificateRefs: [{{name: a}}], options: {{{options}}}}}"
    return listener(f"{{name: a, port: 443, protocol: HTTPS, {tls}}}")


_OPTION = "gateway.istio.io/tls-"


@pytest.mark.parametrize(
    "spec",
    [
        https(f"{_OPTION}terminate-mode: OPTIONAL_MUTUAL"),
        https(f"{_OPTION}terminate-mode: ISTIO_SIMPLE"),
        https(f"{_OPTION}cipher-suites: 'AES128-SHA, AES256-SHA'"),
        gateway_tls(
            "frontend: {default: {}, perPort: [{port: 443, tls: {validation: "
            "{caCertificateRefs: [{group: '', kind: ConfigMap, name: roots}]}}}]}"
        ),
    ],
)
def test_options_and_validation_of_clients_are_accepted_without_a_word(spec: str) -> None:
    assert read("Gateway", spec) == ([], [])


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        (https("other: x"), "listeners[0].tls.options.other: has no effect; known: "),
        (
            https(f"{_OPTION}cipher-suites: NONE"),
            f'listeners[0].tls.options.{_OPTION}cipher-suites: the cipher "NONE" is left out',
        ),
        (
            gateway_tls("backend: {clientCertificateRef: {name: a}}"),
            "tls.backend.clientCertificateRef: has no effect, as in Istio",
        ),
        (
            gateway_tls(
                "frontend: {default: {validation: {mode: AllowInsecureFallback, "
                "caCertificateRefs: [{group: '', kind: ConfigMap, name: roots}]}}}"
            ),
            "tls.frontend.default.validation.mode: lets every client in",
        ),
    ],
)
def test_tls_without_effect_or_validation_is_told(spec: str, wanted: str) -> None:
    mistakes, (warning,) = read("Gateway", spec)
    assert mistakes == []
    assert wanted in warning


MISTAKES = [
    (
        "ListenerSet",
        "{parentRef: {name: gw}, listeners: []}",
        "listeners: must have 1 to 64 entries",
    ),
    (
        "ListenerSet",
        (
            "{parentRef: {kind: Service, group: '', name: gw}, "
            "listeners: [{name: a, port: 80, protocol: HTTP}]}"
        ),
        "parentRef.kind: a Service has no listeners; use Gateway of gateway.networking.k8s.io",
    ),
    (
        "ListenerSet",
        "{parentRef: {name: gw, namespace: A}, listeners: [{name: a, port: 80, protocol: HTTP}]}",
        'parentRef.namespace: "A" is not the name of a namespace',
    ),
    (
        "ListenerSet",
        "{parentRef: {name: gw}, listeners: [{name: a, port: 80, protocol: TLS}]}",
        "listeners[0]: a TLS listener needs tls, with the mode Passthrough or Terminate",
    ),
    (
        "Gateway",
        "{gatewayClassName: istio, allowedListeners: {namespaces: {from: Selector}}}",
        "allowedListeners.namespaces: from Selector needs a selector",
    ),
    ("GatewayClass", "{controllerName: ours}", 'controllerName: "ours" is not a domain and a path'),
    ("Gateway", "{gatewayClassName: istio, listeners: []}", "listeners: must have 1 to 64 entries"),
    (
        "Gateway",
        listener("{name: A, port: 80, protocol: HTTP}"),
        'listeners[0].name: "A" is not a name',
    ),
    (
        "Gateway",
        listener("{name: a, port: 80, protocol: HTTP}, {name: a, port: 81, protocol: HTTP}"),
        'listeners[1].name: the name "a" is given twice',
    ),
    (
        "Gateway",
        listener("{name: a, port: 80, protocol: HTTP}, {name: b, port: 80, protocol: HTTP}"),
        "listeners[1]: has the port, the protocol and the hostname of the listener a",
    ),
    (
        "Gateway",
        listener("{name: a, port: 80, protocol: H_T}"),
        'listeners[0].protocol: unknown protocol "H_T"; known: HTTP, HTTPS, TLS, TCP, UDP',
    ),
    (
        "Gateway",
        listener("{name: a, port: 80, protocol: TCP, hostname: a.example}"),
        "listeners[0].hostname: a TCP listener has no hostname",
    ),
    (
        "Gateway",
        listener("{name: a, port: 80, protocol: HTTP, hostname: A.example}"),
        'listeners[0].hostname: "A.example" is not a host name in lower case',
    ),
    (
        "Gateway",
        listener("{name: a, port: 80, protocol: HTTP, hostname: '*'}"),
        'listeners[0].hostname: "*" is not a host name',
    ),
    (
        "Gateway",
        listener("{name: a, port: 443, protocol: TLS}"),
        "listeners[0]: a TLS listener needs tls, with the mode Passthrough or Terminate",
    ),
    (
        "Gateway",
        listener("{name: a, port: 443, protocol: HTTPS, tls: {mode: Passthrough}}"),
        "listeners[0].tls.mode: an HTTPS listener ends TLS itself",
    ),
    (
        "Gateway",
        listener("{name: a, port: 443, protocol: HTTPS, tls: {}}"),
        "listeners[0].tls.certificateRefs: is missing",
    ),
    (
        "Gateway",
        listener("{name: a, port: 443, protocol: TLS, tls: {certificateRefs: [{name: a}]}}"),
        "listeners[0].tls.mode: is missing",
    ),
    (
        "Gateway",
        listener("{name: a, port: 80, protocol: HTTP, tls: {certificateRefs: [{name: a}]}}"),
        "listeners[0].tls: can't stand at a listener of protocol HTTP",
    ),
    (
        "Gateway",
        gateway_tls("frontend: {default: {validation: {caCertificateRefs: []}}}"),
        "tls.frontend.default.validation.caCertificateRefs: must have 1 to 8 entries",
    ),
    (
        "Gateway",
        gateway_tls("frontend: {default: {}, perPort: [{port: 1, tls: {}}, {port: 1, tls: {}}]}"),
        "tls.frontend.perPort[1].port: the port 1 is given twice",
    ),
    (
        "Gateway",
        gateway_tls("backend: {clientCertificateRef: {name: a, kind: 'S S'}}"),
        'tls.backend.clientCertificateRef.kind: "S S" is not a kind',
    ),
    (
        "Gateway",
        listener(
            "{name: a, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: a}], "
            "frontendValidation: {caCertificateRefs: []}}}"
        ),
        "listeners[0].tls.frontendValidation: is not supported here",
    ),
    (
        "Gateway",
        listener(
            "{name: a, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: Selector}}}"
        ),
        "listeners[0].allowedRoutes.namespaces: from Selector needs a selector",
    ),
    (
        "Gateway",
        (
            "{gatewayClassName: istio, listeners: [{name: a, port: 80, protocol: HTTP}], "
            "addresses: [{value: x}, {type: NamedAddress, value: x}]}"
        ),
        'addresses[0].value: "x" is not an IP address',
    ),
    ("ReferenceGrant", "{from: [], to: []}", "from: must have 1 to 16 entries, it has 0"),
    (
        "ReferenceGrant",
        '{from: [{group: "", kind: Service, namespace: A}], to: [{group: "", kind: Secret}]}',
        'from[0].namespace: "A" is not the name of a namespace',
    ),
]


@pytest.mark.parametrize(("kind", "spec", "wanted"), MISTAKES)
def test_a_mistake_is_reported_with_its_field(kind: str, spec: str, wanted: str) -> None:
    mistakes, _ = read(kind, spec)
    assert any(wanted in each for each in mistakes), mistakes


WARNINGS = [
    (
        "GatewayClass",
        "{controllerName: example.com/other}",
        "controllerName: example.com/other is another controller",
    ),
    (
        "Gateway",
        (
            "{gatewayClassName: istio, listeners: [{name: a, port: 80, protocol: HTTP}], "
            "addresses: [{value: 10.0.0.1}], infrastructure: {labels: {a: b}}}"
        ),
        "infrastructure: has no effect",
    ),
    (
        "Gateway",
        (
            "{gatewayClassName: istio, listeners: [{name: a, port: 80, protocol: HTTP}], "
            "defaultScope: All}"
        ),
        "defaultScope: has no effect, as in Istio: routes attach by their parentRefs alone",
    ),
    (
        "Gateway",
        listener("{name: a, port: 15008, protocol: HBONE}"),
        'listeners[0].protocol: "HBONE" is for waypoints and the gateways between networks',
    ),
    (
        "Gateway",
        listener("{name: a, port: 80, protocol: http}"),
        'listeners[0].protocol: "http" is no protocol that is known here: the listener has no',
    ),
]


@pytest.mark.parametrize(("kind", "spec", "wanted"), WARNINGS)
def test_what_has_no_effect_is_reported(kind: str, spec: str, wanted: str) -> None:
    mistakes, warnings = read(kind, spec)
    assert mistakes == []
    assert any(wanted in each for each in warnings), warnings
