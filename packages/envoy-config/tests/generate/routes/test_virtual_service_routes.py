"""Envoy's routes of VirtualServices, field by field."""

from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict

from documents import document
from envoy_config.generate.routes._http_routes import RoutePlace, http_routes
from envoy_config.plan.virtual_hosts._targets import http_targets
from mesh_model import Scope, ScopeKey
from virtual_services import model_of

HOST = "r.a.svc.cluster.local"
CLUSTER = f"outbound|80||{HOST}"
ROUTE = "route: [{destination: {host: r}}]"
PREVIOUS_HOSTS = {
    "name": "envoy.retry_host_predicates.previous_hosts",
    "typedConfig": {
        "@type": "type.googleapis.com/envoy.extensions.retry.host.previous_hosts.v3."
        "PreviousHostsPredicate"
    },
}
DEFAULT_RETRIES = {
    "retryOn": "connect-failure,refused-stream,unavailable,cancelled,retriable-status-codes",
    "numRetries": 2,
    "hostSelectionRetryMaxAttempts": "20",
    "retryHostPredicate": [PREVIOUS_HOSTS],
}
PLAIN = {
    "cluster": CLUSTER,
    "timeout": "0s",
    "maxStreamDuration": {"grpcTimeoutHeaderMax": "0s"},
    "retryPolicy": DEFAULT_RETRIES,
}


def routes_of(http: str, place: RoutePlace | None = None) -> list[dict[str, Any]]:
    """Return the routes of a list of HTTP routes in YAML."""
    text = "{hosts: [r], gateways: [mesh, g], http: [" + http.replace("%s", ROUTE) + "]}"
    (virtual_service,) = model_of(document("VirtualService", "v", text)).virtual_services.all
    place = place or RoutePlace(80, namespace="a")
    scope = Scope(key=ScopeKey("a"), services={}, egress=())
    targets = http_targets(virtual_service.spec, place.port, scope)
    return [
        MessageToDict(each)
        for each in http_routes(virtual_service, place, targets, default_retries=None)
    ]


def only(http: str, place: RoutePlace | None = None) -> dict[str, Any]:
    (found,) = routes_of(http, place)
    return found


def test_a_plain_route_leads_to_its_cluster_without_time_limit_and_with_istios_retries() -> None:
    assert only("{name: n, match: [{name: m, uri: {prefix: /a}}], %s}") == {
        "name": "n.m",
        "match": {"prefix": "/a"},
        "route": PLAIN,
        "metadata": {
            "filterMetadata": {
                "istio": {"config": "/apis/networking.istio.io/v1/namespaces/a/virtual-service/v"}
            }
        },
        "decorator": {"operation": f"{HOST}:80/a*"},
    }


MATCHES: dict[str, object] = {
    "{uri: {exact: /a}}": {"path": "/a"},
    "{uri: {exact: /a}, ignoreUriCase: true}": {"path": "/a", "caseSensitive": False},
    "{uri: {regex: '/v[0-9]+'}}": {"safeRegex": {"regex": "/v[0-9]+"}},
    "{uri: {}}": {"prefix": "/"},
    "{scheme: {exact: http}}": {
        "prefix": "/",
        "headers": [{"name": ":scheme", "stringMatch": {"exact": "http"}}],
    },
    "{method: {exact: GET}, authority: {prefix: r}}": {
        "prefix": "/",
        "headers": [
            {"name": ":method", "stringMatch": {"exact": "GET"}},
            {"name": ":authority", "stringMatch": {"prefix": "r"}},
        ],
    },
    "{headers: {b: {}, a: {regex: .*}, c: {exact: x}}}": {
        "prefix": "/",
        "headers": [
            {"name": "a", "presentMatch": True},
            {"name": "b", "presentMatch": True},
            {"name": "c", "stringMatch": {"exact": "x"}},
        ],
    },
    "{withoutHeaders: {a: {}, b: {exact: x}, c: {regex: '*'}}}": {
        "prefix": "/",
        "headers": [
            {"name": "a", "presentMatch": True, "invertMatch": True},
            {
                "name": "b",
                "stringMatch": {"exact": "x"},
                "invertMatch": True,
                "treatMissingHeaderAsEmpty": True,
            },
            {"name": "c", "presentMatch": True, "invertMatch": True},
        ],
    },
    "{queryParams: {a: {exact: x}, b: {}}}": {
        "prefix": "/",
        "queryParameters": [
            {"name": "a", "stringMatch": {"exact": "x"}},
            {"name": "b", "presentMatch": True},
        ],
    },
    "{headers: {'@request.auth.claims.a.b': {exact: x}}}": {
        "prefix": "/",
        "dynamicMetadata": [
            {
                "filter": "envoy.filters.http.jwt_authn",
                "path": [{"key": "payload"}, {"key": "a"}, {"key": "b"}],
                "value": {
                    "orMatch": {
                        "valueMatchers": [
                            {"stringMatch": {"exact": "x"}},
                            {"listMatch": {"oneOf": {"stringMatch": {"exact": "x"}}}},
                        ]
                    }
                },
            }
        ],
    },
}


@pytest.mark.parametrize(("match", "wanted"), MATCHES.items())
def test_a_match_says_what_envoy_is_to_look_at(match: str, wanted: object) -> None:
    assert only("{match: [" + match + "], %s}")["match"] == wanted


ACTIONS: dict[str, tuple[str, object]] = {
    "redirect: {uri: /x}": ("redirect", {"pathRedirect": "/x"}),
    "redirect: {prefixRewrite: /x}": ("redirect", {"prefixRewrite": "/x"}),
    "redirect: {authority: new, redirectCode: 308, derivePort: FROM_REQUEST_PORT}": (
        "redirect",
        {"hostRedirect": "new", "responseCode": "PERMANENT_REDIRECT"},
    ),
    "redirect: {scheme: https, derivePort: FROM_REQUEST_PORT}": (
        "redirect",
        {"schemeRedirect": "https", "portRedirect": 80},
    ),
    "redirect: {scheme: https, port: 443}": ("redirect", {"schemeRedirect": "https"}),
    "redirect: {port: 8080, redirectCode: 302}": (
        "redirect",
        {"portRedirect": 8080, "responseCode": "FOUND"},
    ),
    "redirect: {authority: n, derivePort: FROM_PROTOCOL_DEFAULT}": (
        "redirect",
        {"hostRedirect": "n"},
    ),
    "directResponse: {status: 503}": ("directResponse", {"status": 503}),
    "directResponse: {status: 503, body: {string: x}}": (
        "directResponse",
        {"status": 503, "body": {"inlineString": "x"}},
    ),
    "directResponse: {status: 503, body: {bytes: eHk=}}": (
        "directResponse",
        {"status": 503, "body": {"inlineBytes": "eHk="}},
    ),
}


@pytest.mark.parametrize(("action", "wanted"), ACTIONS.items())
def test_requests_are_redirected_or_answered(action: str, wanted: tuple[str, object]) -> None:
    field, value = wanted

    assert only("{" + action + "}")[field] == value


ROUTES: dict[str, object] = {
    "%s, timeout: 1s": {"timeout": "1s", "maxStreamDuration": None},
    "%s, rewrite: {uri: /x}": {"prefixRewrite": "/x"},
    "%s, rewrite: {authority: n}": {"hostRewriteLiteral": "n"},
    "%s, rewrite: {uriRegexRewrite: {match: '^/(a)$', rewrite: '/\\1'}, authority: n}": {
        "regexRewrite": {"pattern": {"regex": "^/(a)$"}, "substitution": "/\\1"},
        "hostRewriteLiteral": "n",
    },
    "%s, headers: {request: {set: {host: n}}}": {"hostRewriteLiteral": "n"},
    "route: [{destination: {host: r}, headers: {request: {add: {':authority': n}}}}]": {
        "hostRewriteLiteral": "n"
    },
    "route: [{destination: {host: r, subset: v1, port: {number: 8080}}}]": {
        "cluster": f"outbound|8080|v1|{HOST}"
    },
    "route: [{destination: {host: r}, weight: 3}, {destination: {host: s.b}, weight: 1}, "
    "{destination: {host: t}}]": {
        "cluster": None,
        "weightedClusters": {
            "clusters": [
                {"name": CLUSTER, "weight": 3},
                {"name": "outbound|80||s.b", "weight": 1},
            ]
        },
    },
    "%s, mirror: {host: s.b}": {
        "requestMirrorPolicies": [
            {
                "cluster": "outbound|80||s.b",
                "runtimeFraction": {
                    "defaultValue": {"numerator": 1000000, "denominator": "MILLION"}
                },
                "traceSampled": False,
                "disableShadowHostSuffixAppend": True,
            }
        ]
    },
    "%s, mirrors: [{destination: {host: s.b}, percentage: {value: 0}}]": {},
    "%s, retries: {attempts: 0}": {"retryPolicy": None},
}


@pytest.mark.parametrize(("route", "wanted"), ROUTES.items())
def test_requests_are_sent_to_clusters(route: str, wanted: dict[str, object]) -> None:
    expected = {key: value for key, value in {**PLAIN, **wanted}.items() if value is not None}

    assert only("{" + route + "}")["route"] == expected


RETRIES: dict[str, object] = {
    "{attempts: 3}": {**DEFAULT_RETRIES, "numRetries": 3},
    "{attempts: 1, retryOn: '503, reset'}": {
        **DEFAULT_RETRIES,
        "numRetries": 1,
        "retryOn": "reset,retriable-status-codes",
        "retriableStatusCodes": [503],
    },
    "{attempts: 1, perTryTimeout: 2s, backoff: 100ms}": {
        **DEFAULT_RETRIES,
        "numRetries": 1,
        "perTryTimeout": "2s",
        "retryBackOff": {"baseInterval": "0.100s"},
    },
    "{attempts: 1, retryIgnorePreviousHosts: false}": {
        "retryOn": DEFAULT_RETRIES["retryOn"],
        "numRetries": 1,
        "hostSelectionRetryMaxAttempts": "20",
    },
    "{attempts: 1, retryRemoteLocalities: true}": {
        **DEFAULT_RETRIES,
        "numRetries": 1,
        "retryPriority": {
            "name": "envoy.retry_priorities.previous_priorities",
            "typedConfig": {
                "@type": "type.googleapis.com/envoy.extensions.retry.priority."
                "previous_priorities.v3.PreviousPrioritiesConfig",
                "updateFrequency": 2,
            },
        },
    },
}


@pytest.mark.parametrize(("retries", "wanted"), RETRIES.items())
def test_requests_are_tried_again_as_the_route_says(retries: str, wanted: object) -> None:
    assert only("{%s, retries: " + retries + "}")["route"]["retryPolicy"] == wanted


HUNDRED = {"numerator": 1000000, "denominator": "MILLION"}
FAULTS: dict[str, object] = {
    "{delay: {fixedDelay: 2s, percentage: {value: 0.0001}}}": {
        "delay": {
            "fixedDelay": "2s",
            "percentage": {"numerator": 1, "denominator": "MILLION"},
        }
    },
    "{delay: {fixedDelay: 2s}}": {
        "delay": {"fixedDelay": "2s", "percentage": {"denominator": "MILLION"}}
    },
    "{delay: {fixedDelay: 2s, percent: 100}}": {
        "delay": {"fixedDelay": "2s", "percentage": HUNDRED}
    },
    "{abort: {httpStatus: 418, percentage: {value: 100}}}": {
        "abort": {"httpStatus": 418, "percentage": HUNDRED}
    },
    "{abort: {grpcStatus: UNAVAILABLE}}": {"abort": {"grpcStatus": 14}},
}


@pytest.mark.parametrize(("fault", "wanted"), FAULTS.items())
def test_faults_are_injected_by_the_fault_filter(fault: str, wanted: dict[str, object]) -> None:
    settings = only("{%s, fault: " + fault + "}")["typedPerFilterConfig"]
    found = settings["envoy.filters.http.fault"]

    assert {key: value for key, value in found.items() if key != "@type"} == wanted


def test_an_abort_without_type_makes_no_fault() -> None:
    assert "typedPerFilterConfig" not in only("{%s, fault: {abort: {percentage: {value: 1}}}}")


def test_a_cors_policy_is_that_of_the_cors_filter() -> None:
    found = only(
        "{%s, corsPolicy: {allowOrigins: [{exact: 'https://o'}, {regex: .*}], allowMethods: "
        "[GET, POST], allowHeaders: [x-a, x-b], exposeHeaders: [x-c], maxAge: 24h, "
        "allowCredentials: true, unmatchedPreflights: IGNORE}}"
    )["typedPerFilterConfig"]["envoy.filters.http.cors"]

    assert {key: value for key, value in found.items() if key != "@type"} == {
        "allowOriginStringMatch": [{"exact": "https://o"}, {"safeRegex": {"regex": ".*"}}],
        "allowMethods": "GET,POST",
        "allowHeaders": "x-a,x-b",
        "exposeHeaders": "x-c",
        "maxAge": "86400",
        "allowCredentials": True,
        "filterEnabled": {"defaultValue": {"numerator": 100}},
        "forwardNotMatchingPreflights": False,
    }


def test_changes_of_headers_are_sorted_and_those_of_the_only_destination_come_last() -> None:
    found = only(
        "{headers: {request: {add: {c: '1'}, set: {b: '2', a: '3'}, remove: [d]}, "
        "response: {remove: [server]}}, route: [{destination: {host: r}, headers: "
        "{request: {set: {e: '4'}}}}]}"
    )

    added = [
        (each["header"]["key"], each.get("appendAction", "APPEND_IF_EXISTS_OR_ADD"))
        for each in found["requestHeadersToAdd"]
    ]
    assert added == [
        ("a", "OVERWRITE_IF_EXISTS_OR_ADD"),
        ("b", "OVERWRITE_IF_EXISTS_OR_ADD"),
        ("c", "APPEND_IF_EXISTS_OR_ADD"),
        ("e", "OVERWRITE_IF_EXISTS_OR_ADD"),
    ]
    assert found["requestHeadersToRemove"] == ["d"]
    assert found["responseHeadersToRemove"] == ["server"]


def test_changes_of_headers_of_several_destinations_stay_with_each() -> None:
    found = only(
        "{route: [{destination: {host: r}, weight: 1, headers: {request: {set: {host: n}}, "
        "response: {add: {a: b}}}}, {destination: {host: s.b}, weight: 1}]}"
    )
    first, second = found["route"]["weightedClusters"]["clusters"]

    assert first["hostRewriteLiteral"] == "n"
    assert [each["header"] for each in first["responseHeadersToAdd"]] == [
        {"key": "a", "value": "b"}
    ]
    assert second == {"name": "outbound|80||s.b", "weight": 1}


PLACES: dict[str, tuple[RoutePlace, list[str]]] = {
    "a client with the label": (RoutePlace(80, namespace="a", labels=(("app", "w"),)), ["l", "r"]),
    "another namespace": (RoutePlace(80, namespace="b"), ["n", "r"]),
    "another port": (RoutePlace(81, namespace="c"), ["p", "r"]),
    "a gateway": (RoutePlace(80, gateway="a/g", namespace="c"), ["g", "r"]),
    "a client without": (RoutePlace(80, namespace="c"), ["m", "r"]),
}


@pytest.mark.parametrize(("place", "wanted"), PLACES.values(), ids=PLACES)
def test_matches_are_for_certain_proxies_and_ports(place: RoutePlace, wanted: list[str]) -> None:
    found = routes_of(
        "{name: l, match: [{uri: {prefix: /a}, sourceLabels: {app: w}}], %s},"
        "{name: n, match: [{uri: {prefix: /a}, sourceNamespace: b}], %s},"
        "{name: p, match: [{uri: {prefix: /a}, port: 81}], %s},"
        "{name: g, match: [{uri: {prefix: /a}, gateways: [g], sourceNamespace: x}], %s},"
        "{name: m, match: [{uri: {prefix: /a}, gateways: [mesh], sourceLabels: {x: y}}], %s},"
        "{name: r, %s}",
        place,
    )
    names = [each["name"] for each in found]
    if place.gateway == "mesh":
        assert "m" in names
        names = [each for each in names if each != "m" or wanted[0] == "m"]

    assert names == wanted


def test_nothing_comes_after_a_route_that_takes_everything() -> None:
    found = routes_of("{name: a, match: [{uri: {prefix: /a}}, {port: 80}], %s}, {name: b, %s}")

    assert [each["name"] for each in found] == ["a", "a"]


def test_what_applies_nowhere_makes_no_route() -> None:
    assert routes_of("{match: [{port: 81}], %s}") == []
