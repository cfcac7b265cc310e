"""HTTPRoutes as routes of VirtualServices: matches, filters, backends, hosts, order."""

import pytest

from gateway_api_meshes import CLUSTER, Request, Translated, first_route, translated
from istio_config.kinds.virtual_service import (
    DerivePort,
    HttpRewrite,
    HttpRoute,
    RegexRewrite,
    StringMatch,
    UnmatchedPreflights,
)
from mesh_configfile import Duration

GATEWAY = """
kind: Gateway
metadata: {name: gw}
spec:
  gatewayClassName: istio
  listeners:
  - {name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}
"""


def route(rules: str, name: str = "r", *, created: str = "", hostnames: str = "") -> str:
    return f"""
---
kind: HTTPRoute
metadata: {{name: {name}, created: "{created}"}}
spec: {{parentRefs: [{{name: gw}}], hostnames: [{hostnames}], rules: [{rules}]}}
"""


CART = "backendRefs: [{name: cart, port: 80}]"


def only(rule: str) -> HttpRoute:
    """Return the one route of a rule."""
    (found,) = translated(GATEWAY + route(f"{{{rule}}}")).routes("http", "*")
    return found


def filtered(*filters: str, match: str = "") -> HttpRoute:
    return only(f"{match} filters: [{', '.join(filters)}], {CART}")


def test_a_rule_without_matches_has_all_requests_of_its_listener() -> None:
    found = only(CART)
    assert found.match[0].uri == StringMatch(prefix="/")
    (destination,) = found.route
    assert destination.destination is not None
    assert (destination.destination.host, destination.destination.port_number) == (
        f"cart.shop{CLUSTER}",
        80,
    )
    assert found.name == "shop.r.0.0"


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("{value: /a}", StringMatch(prefix="/a")),
        ("{value: /a/}", StringMatch(prefix="/a")),
        ("{type: Exact, value: /a/}", StringMatch(exact="/a/")),
        ("{type: RegularExpression, value: '/a+'}", StringMatch(regex="/a+")),
    ],
)
def test_paths_are_matched_by_their_type(path: str, uri: StringMatch) -> None:
    assert only(f"matches: [{{path: {path}}}], {CART}").match[0].uri == uri


def test_headers_query_and_method_are_conditions_of_one_match() -> None:
    match = only(
        "matches: [{method: POST, headers: [{name: X-User, value: a}, {name: x-user, value: b}], "
        f"queryParams: [{{name: q, value: '.+', type: RegularExpression}}]}}], {CART}"
    ).match[0]
    assert match.method == StringMatch(exact="POST")
    assert match.headers == {"x-user": StringMatch(exact="a")}
    assert match.query_params == {"q": StringMatch(regex=".+")}


def test_headers_are_changed_and_literal_percent_signs_stay() -> None:
    found = filtered(
        "{type: RequestHeaderModifier, requestHeaderModifier: "
        "{set: [{name: a, value: '50% off'}], add: [{name: b, value: c}], remove: [d]}}",
        "{type: ResponseHeaderModifier, responseHeaderModifier: {remove: [server]}}",
    )
    assert found.headers is not None
    assert found.headers.request is not None
    assert found.headers.response is not None
    assert found.headers.request.set == {"a": "50%% off"}
    assert (found.headers.request.add, found.headers.request.remove) == ({"b": "c"}, ("d",))
    assert found.headers.response.remove == ("server",)


def redirect(fields: str, match: str = "") -> HttpRoute:
    return only(f"{match} filters: [{{type: RequestRedirect, requestRedirect: {{{fields}}}}}]")


def test_a_redirect_keeps_the_port_unless_it_changes_the_scheme() -> None:
    kept, to_https = redirect("hostname: a.example").redirect, redirect("scheme: https").redirect
    assert kept is not None
    assert to_https is not None
    assert (kept.authority, kept.redirect_code) == ("a.example", 302)
    assert kept.derive_port is DerivePort.FROM_REQUEST_PORT
    assert (to_https.scheme, to_https.derive_port) == ("https", DerivePort.FROM_PROTOCOL_DEFAULT)
    given = redirect("port: 8443, statusCode: 301").redirect
    assert given is not None
    assert (given.port, given.derive_port, given.redirect_code) == (8443, None, 301)


def test_a_redirect_replaces_the_path_or_its_prefix() -> None:
    whole = redirect("path: {type: ReplaceFullPath, replaceFullPath: /new}").redirect
    prefix = redirect(
        "path: {type: ReplacePrefixMatch, replacePrefixMatch: /new/}",
        match="matches: [{path: {value: /old}}],",
    ).redirect
    assert whole is not None
    assert prefix is not None
    assert (whole.uri, prefix.prefix_rewrite) == ("/new", "/new")


@pytest.mark.parametrize(
    ("path", "prefix", "replacement", "wanted"),
    [
        ("/foo/bar", "/foo", "/xyz", "/xyz/bar"),
        ("/foo/bar", "/foo", "/xyz/", "/xyz/bar"),
        ("/foo/bar", "/foo/", "/xyz", "/xyz/bar"),
        ("/foo/bar", "/foo/", "/xyz/", "/xyz/bar"),
        ("/foo", "/foo", "/xyz", "/xyz"),
        ("/foo/", "/foo", "/xyz", "/xyz/"),
        ("/foo/bar", "/foo", "", "/bar"),
        ("/foo/", "/foo", "", "/"),
        ("/foo", "/foo", "", "/"),
        ("/foo/", "/foo", "/", "/"),
        ("/foo", "/foo", "/", "/"),
        ("/bar", "/", "/xyz", "/xyz/bar"),
        ("/bar", "/", "/", "/bar"),
    ],
)
def test_a_prefix_is_replaced_as_the_specification_tells(
    path: str, prefix: str, replacement: str, wanted: str
) -> None:
    change = f"{{type: ReplacePrefixMatch, replacePrefixMatch: '{replacement}'}}"
    filters = f"[{{type: URLRewrite, urlRewrite: {{path: {change}}}}}]"
    rule = f"{{matches: [{{path: {{value: {prefix}}}}}], filters: {filters}, {CART}}}"
    routes = translated(GATEWAY + route(rule)).routes("http", "*")
    found = first_route(routes, Request(path))
    assert found is not None
    assert rewritten(found, path) == wanted


def rewritten(found: HttpRoute, path: str) -> str:
    """Do as Envoy does: replace the part of the path that was matched."""
    uri = found.match[0].uri
    assert uri is not None
    new = found.rewrite.uri if found.rewrite is not None else ""
    return path.replace(uri.exact or uri.prefix or "", new, 1) if new else path


def test_host_and_whole_path_are_rewritten() -> None:
    found = filtered(
        "{type: URLRewrite, urlRewrite: {hostname: in.example, "
        "path: {type: ReplaceFullPath, replaceFullPath: /one}}}"
    )
    assert found.rewrite == HttpRewrite(
        authority="in.example", uri_regex_rewrite=RegexRewrite(match="^/.*", rewrite="/one")
    )


def test_requests_are_mirrored_to_several_backends_by_their_shares() -> None:
    found = filtered(
        "{type: RequestMirror, requestMirror: {backendRef: {name: log, port: 80}, percent: 5}}",
        "{type: RequestMirror, requestMirror: {backendRef: {name: cart, port: 80}, "
        "fraction: {numerator: 1, denominator: 8}}}",
        "{type: RequestMirror, requestMirror: {backendRef: {name: gone, port: 80}}}",
    )
    assert [
        (each.destination.host, each.percentage.value)
        for each in found.mirrors
        if each.destination is not None and each.percentage is not None
    ] == [(f"log.shop{CLUSTER}", 5), (f"cart.shop{CLUSTER}", 12.5)]


def test_cors_lets_origins_with_wildcards_in_and_ends_other_preflights() -> None:
    policy = filtered(
        "{type: CORS, cors: {allowOrigins: ['https://a.example', 'https://*.b.example'], "
        "allowMethods: [GET], allowCredentials: true, maxAge: 60}}"
    ).cors_policy
    assert policy is not None
    assert policy.allow_origins == (
        StringMatch(exact="https://a.example"),
        StringMatch(regex=r"https://.*\.b\.example"),
    )
    assert (policy.max_age, policy.allow_credentials) == (Duration(60), True)
    assert policy.unmatched_preflights is UnmatchedPreflights.IGNORE


def test_timeouts_and_retries() -> None:
    found = only(
        "timeouts: {request: 10s, backendRequest: 2s}, "
        f"retry: {{codes: [503, 500], attempts: 3, backoff: 100ms}}, {CART}"
    )
    assert found.timeout == Duration(10)
    assert found.retries is not None
    assert (found.retries.attempts, found.retries.per_try_timeout) == (3, Duration(2))
    assert found.retries.backoff == Duration(0.1)
    assert found.retries.retry_on.endswith(",reset,503,500")
    bounded = only(f"timeouts: {{backendRequest: 2s}}, {CART}").retries
    assert bounded is not None
    assert (bounded.attempts, bounded.per_try_timeout, bounded.retry_on) == (2, Duration(2), "")
    assert only(CART).retries is None
    never = only(f"retry: {{attempts: 0}}, {CART}").retries
    assert never is not None
    assert never.attempts == 0


def shares(found: HttpRoute) -> dict[str, int]:
    return {
        each.destination.host.removesuffix(f".shop{CLUSTER}"): each.weight
        for each in found.route
        if each.destination is not None
    }


def test_backends_share_requests_by_weight_and_those_of_weight_0_get_none() -> None:
    found = only(
        "backendRefs: [{name: cart, port: 80, weight: 9}, {name: cart-next, port: 80, weight: 1}, "
        "{name: log, port: 80, weight: 0}]"
    )
    assert shares(found) == {"cart": 9, "cart-next": 1}


@pytest.mark.parametrize(
    "backends",
    [
        "",
        "{name: cart, port: 80, weight: 0}",
        "{name: gone, port: 80}",
        "{name: cart, port: 8080}",
        "{name: stock, namespace: depot, port: 80}",
        "{group: example.com, kind: Pool, name: cart, port: 80}",
    ],
)
def test_a_rule_without_a_backend_that_exists_answers_500(backends: str) -> None:
    found = only(f"backendRefs: [{backends}]")
    assert found.direct_response is not None
    assert (found.direct_response.status, found.route) == (500, ())


def test_the_share_of_a_bad_backend_goes_to_a_host_that_is_not_there() -> None:
    found = only("backendRefs: [{name: cart, port: 80, weight: 3}, {name: gone, port: 80}]")
    assert shares(found) == {"cart": 3, "gone.shop.invalid": 1}


def names(found: Translated, host: str) -> list[str]:
    return [each.name for each in found.routes("http", host)]


def test_routes_of_one_host_are_one_table_in_the_order_of_the_specification() -> None:
    found = translated(
        GATEWAY
        + route(
            "{name: all, matches: [{}]}, {name: long, matches: [{path: {value: /a/b}}]}, "
            "{name: post, matches: [{path: {value: /a}, method: POST}]}, "
            "{name: regex, matches: [{path: {type: RegularExpression, value: '/[a-z]+'}}]}",
            name="first",
            created="2024-01-02T00:00:00Z",
        )
        + route(
            "{name: exact, matches: [{path: {type: Exact, value: /a}}]}, "
            "{name: header, matches: [{path: {value: /a}, headers: [{name: x, value: y}]}]}, "
            "{name: query, matches: [{path: {value: /a}, queryParams: [{name: x, value: y}]}]}, "
            "{name: twin, matches: [{path: {value: /a/b}}]}",
            name="second",
            created="2024-01-01T00:00:00Z",
        )
    )
    assert names(found, "*") == [
        "shop.second.exact.0",
        "shop.second.twin.0",
        "shop.first.long.0",
        "shop.first.post.0",
        "shop.second.header.0",
        "shop.second.query.0",
        "shop.first.regex.0",
        "shop.first.all.0",
    ]


def test_undated_routes_are_younger_and_go_by_name() -> None:
    found = translated(
        GATEWAY
        + route("{}", name="b")
        + route("{}", name="a")
        + route("{}", name="z", created="2024-01-01T00:00:00Z")
    )
    assert names(found, "*") == ["shop.z.0.0", "shop.a.0.0", "shop.b.0.0"]


def test_each_hostname_has_a_table_of_its_own() -> None:
    found = translated(
        GATEWAY
        + route(f"{{{CART}}}", name="a", hostnames="a.example, b.example")
        + route(f"{{{CART}}}", name="b", hostnames="b.example")
    )
    assert found.hosts("http") == {"a.example", "b.example"}
    assert names(found, "a.example") == ["shop.a.0.0"]
    assert names(found, "b.example") == ["shop.a.0.0", "shop.b.0.0"]


def test_a_backend_with_a_filter_of_whole_rules_leads_nowhere_and_keeps_its_share() -> None:
    mirror = "{type: RequestMirror, requestMirror: {backendRef: {name: log, port: 80}}}"
    backends = f"[{{name: cart, port: 80, filters: [{mirror}]}}, {{name: cart-next, port: 80}}]"
    found = translated(GATEWAY + route(f"{{backendRefs: {backends}}}"))
    (of_rule,) = found.routes("http", "*")
    hosts = [each.destination.host for each in of_rule.route if each.destination is not None]
    assert hosts == ["cart.shop.invalid", f"cart-next.shop{CLUSTER}"]
    (warning,) = found.warnings
    assert "spec.rules[0].backendRefs[0].filters[0].type: RequestMirror is not" in warning
    assert warning.endswith("(UnsupportedValue)")
