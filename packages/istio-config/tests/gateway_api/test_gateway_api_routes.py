"""The Gateway API's rules for its routes."""

import pytest

from gateway_api_specs import filters, path, read, rule
from istio_config._objects import read_object
from mesh_configfile import read_documents

GOOD = {
    "HTTPRoute": """
parentRefs:
- {name: gw, sectionName: http}
- {name: gw, namespace: infra, port: 443}
- {group: "", kind: Service, name: cart}
hostnames: [shop.example.com, "*.example.org"]
rules:
- name: all-of-it
  matches:
  - path: {type: Exact, value: /cart}
    method: POST
    headers: [{name: x-user, value: "[a-z]+", type: RegularExpression}]
    queryParams: [{name: page, value: "1"}]
  - path: {type: RegularExpression, value: "/v[0-9]+"}
  filters:
  - type: RequestHeaderModifier
    requestHeaderModifier: {set: [{name: a, value: b}], add: [{name: c, value: d}], remove: [e]}
  - type: ResponseHeaderModifier
    responseHeaderModifier: {remove: [server]}
  - type: RequestMirror
    requestMirror: {backendRef: {name: log, port: 80}, fraction: {numerator: 1, denominator: 3}}
  - type: RequestMirror
    requestMirror: {backendRef: {name: log, port: 81}, percent: 5}
  - type: CORS
    cors: {allowOrigins: ["https://*.example.com"], allowMethods: ["*"], maxAge: 60}
  - type: URLRewrite
    urlRewrite: {hostname: cart.internal, path: {type: ReplaceFullPath, replaceFullPath: /x}}
  backendRefs:
  - {name: cart, port: 80, weight: 9}
  - name: cart-next
    port: 80
    filters:
    - type: RequestHeaderModifier
      requestHeaderModifier: {add: [{name: next, value: "1"}]}
  timeouts: {request: 10s, backendRequest: 2s}
  retry: {codes: [503], attempts: 3, backoff: 100ms}
- matches: [{path: {value: /old}}]
  filters:
  - type: RequestRedirect
    requestRedirect:
      scheme: https
      port: 443
      statusCode: 308
      path: {type: ReplacePrefixMatch, replacePrefixMatch: /new}
- backendRefs: [{group: networking.istio.io, kind: Hostname, name: example.org, port: 443}]
""",
    "GRPCRoute": """
parentRefs: [{name: gw}]
rules:
- matches:
  - method: {service: shop.Cart, method: Add}
    headers: [{name: version, value: "2"}]
  - method: {type: RegularExpression, service: "shop\\\\..*"}
  backendRefs: [{name: cart, port: 9000}]
""",
    "TLSRoute": "{parentRefs: [{name: gw}], hostnames: [a.example], "
    "rules: [{backendRefs: [{name: a, port: 443}]}]}",
    "TCPRoute": "{parentRefs: [{name: gw}], rules: [{backendRefs: [{name: a, port: 9000}]}]}",
}


@pytest.mark.parametrize("kind", GOOD)
def test_a_good_object_is_accepted_without_a_word(kind: str) -> None:
    assert read(kind, GOOD[kind]) == ([], [])


HEADERS = "{type: RequestHeaderModifier, requestHeaderModifier: {remove: [a]}}"
REDIRECT = "{type: RequestRedirect, requestRedirect: {scheme: https}}"
REWRITE = "{type: URLRewrite, urlRewrite: {hostname: a.example}}"
PREFIX = "{type: ReplacePrefixMatch, replacePrefixMatch: /x}"

MISTAKES = [
    ("HTTPRoute", "{parentRefs: [{name: a}, {name: a}]}", "parentRefs[1]: the parent a is given"),
    (
        "HTTPRoute",
        "{parentRefs: [{name: a}, {name: a, sectionName: b}]}",
        "parentRefs[1]: the parent a is given twice: both must then have a sectionName or a port",
    ),
    (
        "HTTPRoute",
        "{hostnames: [1.2.3.4]}",
        'hostnames[0]: "1.2.3.4" is not a host name',
    ),
    ("HTTPRoute", path("{value: foo}"), 'rules[0].matches[0].path.value: "foo" must begin with /'),
    ("HTTPRoute", path("{value: /a//b}"), 'value: "/a//b" must not have // in it'),
    ("HTTPRoute", path("{value: /a/%2Fb}"), 'value: "/a/%2Fb" must not have %2F in it'),
    ("HTTPRoute", path("{value: '/a#b'}"), 'value: "/a#b" must not have # in it'),
    ("HTTPRoute", path("{value: /a/..}"), 'value: "/a/.." must not end with /..'),
    ("HTTPRoute", path("{value: '/a b'}"), 'value: "/a b" has characters that a path must have'),
    (
        "HTTPRoute",
        path("{type: RegularExpression, value: '(?=a)'}"),
        'path.value: "(?=a)" is not a regular expression of RE2',
    ),
    (
        "HTTPRoute",
        rule("{matches: [{method: FETCH}]}"),
        "rules[0].matches[0].method: expected one of GET",
    ),
    (
        "HTTPRoute",
        rule("{matches: [{headers: [{name: 'a b', value: c}]}]}"),
        'rules[0].matches[0].headers[0].name: "a b" can\'t be the name of a header',
    ),
    (
        "HTTPRoute",
        rule("{matches: [{headers: [{name: a, value: c}, {name: a, value: d}]}]}"),
        'rules[0].matches[0].headers[1].name: the name "a" is given twice',
    ),
    (
        "HTTPRoute",
        rule(f"{{matches: [{', '.join(['{}'] * 65)}]}}"),
        "rules[0].matches: has 65 entries; 64 are allowed",
    ),
    (
        "HTTPRoute",
        rule(", ".join([f"{{matches: [{', '.join(['{}'] * 60)}]}}"] * 3)),
        "rules: have 180 matches in all; 128 are allowed",
    ),
    ("HTTPRoute", rule("{name: a}, {name: a}"), 'rules[1].name: the name "a" is given twice'),
    ("HTTPRoute", "{rules: []}", "rules: has 0 entries; there may be 1 to 16"),
    (
        "HTTPRoute",
        rule("{backendRefs: [{name: a}]}"),
        "rules[0].backendRefs[0].port: is missing: a Service needs the port",
    ),
    (
        "HTTPRoute",
        rule(f"{{filters: [{REDIRECT}], backendRefs: [{{name: a, port: 80}}]}}"),
        "rules[0].backendRefs: can't stand beside a RequestRedirect",
    ),
    ("HTTPRoute", filters(HEADERS, HEADERS), "rules[0].filters[1]: a second RequestHeaderModifier"),
    (
        "HTTPRoute",
        filters(REDIRECT, REWRITE),
        "rules[0].filters: RequestRedirect and URLRewrite exclude each other",
    ),
    (
        "HTTPRoute",
        filters("{type: RequestRedirect}"),
        "rules[0].filters[0]: a filter of type RequestRedirect needs the field requestRedirect",
    ),
    (
        "HTTPRoute",
        filters("{type: CORS, cors: {}, urlRewrite: {}}"),
        "rules[0].filters[0].urlRewrite: can't stand in a filter of type CORS",
    ),
    (
        "HTTPRoute",
        filters("{type: ExtensionRef, extensionRef: {group: a.b, kind: C, name: d}}"),
        "rules[0].filters[0].type: ExtensionRef is not supported here",
    ),
    (
        "HTTPRoute",
        filters("{type: ExternalAuth, externalAuth: {}}"),
        "rules[0].filters[0].type: ExternalAuth is not supported here",
    ),
    (
        "HTTPRoute",
        filters(
            "{type: RequestHeaderModifier, requestHeaderModifier: "
            '{set: [{name: a, value: "b\\nc"}]}}'
        ),
        "requestHeaderModifier.set[0].value: must be one line of text",
    ),
    (
        "HTTPRoute",
        filters(
            "{type: URLRewrite, urlRewrite: "
            '{path: {type: ReplaceFullPath, replaceFullPath: "/a\\r"}}}'
        ),
        "urlRewrite.path.replaceFullPath: must be one line of text",
    ),
    (
        "HTTPRoute",
        filters("{type: RequestRedirect, requestRedirect: {statusCode: 305}}"),
        "requestRedirect.statusCode: expected one of 301, 302, 303, 307, 308, found 305",
    ),
    (
        "HTTPRoute",
        rule(
            "{matches: [{path: {type: Exact, value: /a}}], "
            f"filters: [{{type: URLRewrite, urlRewrite: {{path: {PREFIX}}}}}]}}"
        ),
        "urlRewrite.path.type: ReplacePrefixMatch needs exactly one match in the rule",
    ),
    (
        "HTTPRoute",
        filters("{type: URLRewrite, urlRewrite: {path: {type: ReplaceFullPath}}}"),
        "urlRewrite.path: the type ReplaceFullPath needs the field replaceFullPath",
    ),
    (
        "HTTPRoute",
        filters(
            "{type: RequestMirror, requestMirror: {backendRef: {name: a, port: 80}, percent: 1, "
            "fraction: {numerator: 3, denominator: 2}}}"
        ),
        "requestMirror: percent and fraction exclude each other",
    ),
    (
        "HTTPRoute",
        filters("{type: CORS, cors: {allowOrigins: [example.com]}}"),
        'cors.allowOrigins[0]: "example.com" is not an origin',
    ),
    (
        "HTTPRoute",
        rule("{backendRefs: [{name: a, port: 80, filters: [{type: URLRewrite}]}]}"),
        "backendRefs[0].filters[0]: a filter of type URLRewrite needs the field urlRewrite",
    ),
    (
        "HTTPRoute",
        rule("{timeouts: {request: 1s, backendRequest: 2s}}"),
        "timeouts.backendRequest: 2s is longer than the whole request's 1s",
    ),
    ("HTTPRoute", rule("{timeouts: {request: 1.5s}}"), 'request: "1.5s" is not a duration'),
    ("HTTPRoute", rule("{retry: {codes: [200]}}"), "retry.codes[0]: expected a number from 400"),
    (
        "HTTPRoute",
        rule("{sessionPersistence: {sessionName: a}}"),
        "rules[0].sessionPersistence: session persistence is not supported yet",
    ),
    (
        "HTTPRoute",
        "{useDefaultGateways: Some}",
        'useDefaultGateways: expected one of All, None, found the text "Some"',
    ),
    (
        "GRPCRoute",
        rule("{matches: [{method: {}}]}"),
        "rules[0].matches[0].method: needs a service, a method or both",
    ),
    (
        "GRPCRoute",
        rule("{matches: [{method: {service: a/b}}]}"),
        'rules[0].matches[0].method.service: "a/b" can\'t be the name of a service of gRPC',
    ),
    (
        "GRPCRoute",
        filters("{type: URLRewrite}"),
        "rules[0].filters[0].type: URLRewrite is not a filter of a GRPCRoute",
    ),
    ("TLSRoute", "{rules: [{backendRefs: []}]}", "rules[0].backendRefs: must have one entry"),
    (
        "TCPRoute",
        "{rules: [{backendRefs: [{name: a, port: 1}]}, {backendRefs: [{name: a, port: 2}]}]}",
        "rules[1]: can never be reached",
    ),
]


@pytest.mark.parametrize(("kind", "spec", "wanted"), MISTAKES)
def test_a_mistake_is_reported_with_its_field(kind: str, spec: str, wanted: str) -> None:
    mistakes, _ = read(kind, spec)
    assert any(wanted in each for each in mistakes), mistakes


def test_all_mistakes_of_an_object_are_reported_at_once() -> None:
    mistakes, _ = read(
        "HTTPRoute",
        "{hostnames: [A], rules: [{matches: [{path: {value: a}}], filters: [{type: CORS}]}]}",
    )
    assert [each.partition(":")[0] for each in mistakes] == [
        "hostnames[0]",
        "rules[0].matches[0].path.value",
        "rules[0].filters[0]",
    ]


WARNINGS = [
    (
        "HTTPRoute",
        filters("{type: RequestHeaderModifier, requestHeaderModifier: {remove: [a, Host]}}"),
        "rules[0].filters[0].requestHeaderModifier.remove[1]: has no effect: a request has a Host",
    ),
    (
        "GRPCRoute",
        rule(
            "{backendRefs: [{name: a, port: 80, filters: [{type: ResponseHeaderModifier, "
            "responseHeaderModifier: {set: [{name: host, value: a}]}}]}]}"
        ),
        "backendRefs[0].filters[0].responseHeaderModifier.set[0]: has no effect",
    ),
    ("HTTPRoute", "{}", "parentRefs: is empty: the route has no effect"),
    *(
        (
            kind,
            "{useDefaultGateways: All, rules: [{backendRefs: [{name: a, port: 80}]}], "
            f"hostnames: [{hostnames}]}}".replace(", hostnames: []", ""),
            "useDefaultGateways: has no effect, as in Istio",
        )
        for kind, hostnames in (
            ("HTTPRoute", ""),
            ("GRPCRoute", ""),
            ("TCPRoute", ""),
            ("TLSRoute", "a.example"),
        )
    ),
    (
        "HTTPRoute",
        rule("{matches: [{headers: [{name: a, value: c}, {name: A, value: d}]}]}"),
        "rules[0].matches[0].headers[1]: has no effect: a above is the same header",
    ),
]


@pytest.mark.parametrize(("kind", "spec", "wanted"), WARNINGS)
def test_what_has_no_effect_is_reported(kind: str, spec: str, wanted: str) -> None:
    mistakes, warnings = read(kind, spec)
    assert mistakes == []
    assert any(wanted in each for each in warnings), warnings


def test_what_is_not_supported_is_let_pass_on_request() -> None:
    text = (
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: r}\n"
        "spec: {parentRefs: [{name: gw}], rules: [{sessionPersistence: {sessionName: a}}]}\n"
    )
    ((document, *_), _) = read_documents(text, file="x.yaml")
    refused, passed = read_object(document), read_object(document, allow_unsupported=True)
    assert [str(each) for each in refused.problems] == [
        (
            "x.yaml:4: spec.rules[0].sessionPersistence: session persistence is not supported yet "
            "(a DestinationRule's consistentHash by a cookie does much the same); remove it, or "
            "let it pass with --allow-unsupported"
        )
    ]
    assert passed.item is not None
    assert [each.field for each in passed.notes] == ["spec.rules[0].sessionPersistence"]


def test_a_filter_that_one_backend_can_not_have_refuses_no_file() -> None:
    mirror = "{type: RequestMirror, requestMirror: {backendRef: {name: b, port: 80}}}"
    spec = rule(f"{{backendRefs: [{{name: a, port: 80, filters: [{mirror}]}}]}}")
    assert read("HTTPRoute", spec) == ([], [])
