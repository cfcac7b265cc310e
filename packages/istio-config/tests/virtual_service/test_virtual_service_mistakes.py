"""The rules of VirtualService: one line a rule, with the mistake and what is reported."""

import pytest
import yaml

from istio_config.kinds.metadata import Metadata
from istio_config.kinds.virtual_service._kind import VIRTUAL_SERVICE
from mesh_configfile import field_name

ROUTE = "route: [{destination: {host: r}}]"


def reported(text: str) -> list[str]:
    """Return the mistakes of a spec in YAML, each with its field."""
    metadata = Metadata(name="v", namespace="a")
    body = VIRTUAL_SERVICE.read(yaml.safe_load(text), (), metadata)
    mistakes = body.mistakes
    return [f"{field_name(path)}: {message}" for path, message in mistakes]


def http(text: str) -> str:
    """Return a spec with one HTTP route of these fields, for the mesh and a gateway."""
    return "{hosts: [r], gateways: [mesh, g], http: [{" + text + "}]}"


SPECS = {
    "{hosts: [r]}": ": routes nothing: give http, tls or tcp",
    "{hosts: [a b], http: [{%s}]}": 'hosts[0]: "a b" is not a host name',
    "{hosts: ['a.*'], http: [{%s}]}": 'hosts[0]: "a.*" is not a host name',
    "{hosts: ['*'], http: [{%s}]}": "hosts[0]: * is for gateways",
    "{hosts: ['*'], gateways: [mesh], http: [{%s}]}": "hosts[0]: * is for gateways",
    "{hosts: ['*.a', x.a], http: [{%s}]}": 'hosts[1]: "x.a" and "*.a" overlap: keep one',
    "{hosts: [x.a, X.a], http: [{%s}]}": 'hosts[1]: "X.a" and "x.a" overlap: keep one',
    "{hosts: [outbound_.80], gateways: [g], http: [{%s}]}": "hosts[0]: ",
    "{hosts: [r], gateways: [a/], http: [{%s}]}": 'gateways[0]: "a/" must be NAMESPACE/NAME',
    "{hosts: [r], gateways: [/a], http: [{%s}]}": 'gateways[0]: "/a" must be NAMESPACE/NAME',
    "{hosts: [r], gateways: [A/b], http: [{%s}]}": 'gateways[0]: "A" is not a namespace',
    "{hosts: [r], gateways: [a/b_c], http: [{%s}]}": 'gateways[0]: "b_c" is not the name of',
    "{hosts: [r], exportTo: [a, .], http: [{%s}]}": 'exportTo[1]: "." is given twice',
    "{hosts: [r], exportTo: [b, '*'], http: [{%s}]}": 'exportTo[1]: "*" must stand alone',
    "{hosts: [r], exportTo: [b, '~'], http: [{%s}]}": 'exportTo[1]: "~" must stand alone',
    "{hosts: [r], exportTo: [B_], http: [{%s}]}": 'exportTo[0]: "B_" is not a namespace',
    "{gateways: [g], http: [{%s}]}": "gateways: is not allowed without hosts",
    "{http: [{%s}], tcp: [{%s}]}": "tcp: is not allowed without hosts",
    "{http: [{delegate: {name: d}}]}": "http[0].delegate: is not allowed here",
    "{hosts: [r], http: [{match: [{headers: {'@request.auth.claims.a': {exact: b}}}], %s}]}": (
        "http[0].match[0].headers.@request.auth.claims.a: claims are looked at by gateways only"
    ),
    "{hosts: [r], http: [{%s, tmeout: 1s}]}": "http[0].tmeout: unknown field; did you mean timeout",
    "{hosts: [r], tcp: [{match: [{port: 1}]}]}": "tcp[0]: does nothing: give route",
    "{hosts: [r], tcp: [{match: [{destinationSubnets: [x]}], %s}]}": (
        'tcp[0].match[0].destinationSubnets[0]: "x" is not an IP address or a range'
    ),
    "{hosts: [r], tls: [{%s}]}": "tls[0]: needs a match with sniHosts",
    "{hosts: [r], tls: [{match: [{port: 1}], %s}]}": "tls[0].match[0].sniHosts: must name",
    "{hosts: [r], tls: [{match: [{sniHosts: [r]}]}]}": "tls[0]: does nothing: give route",
    "{hosts: ['*.r'], tls: [{match: [{sniHosts: ['*s.r']}], %s}]}": (
        'tls[0].match[0].sniHosts[0]: "*s.r" has a wildcard that is not a whole label'
    ),
    "{hosts: [r], tls: [{match: [{sniHosts: [s]}], %s}]}": (
        'tls[0].match[0].sniHosts[0]: "s" is not among the hosts of this VirtualService: r'
    ),
    "{hosts: [x.a], tls: [{match: [{sniHosts: ['*.a']}], %s}]}": "tls[0].match[0].sniHosts[0]: ",
    "{hosts: [r], tls: [{match: [{sniHosts: [r], sourceNamespace: B_}], %s}]}": (
        'tls[0].match[0].sourceNamespace: "B_" is not a namespace'
    ),
}

BESIDE = {
    "name: x": "http[0]: does nothing: give route, redirect or directResponse",
    "redirect: {uri: /}, %s": "http[0].route: can't stand beside redirect",
    "redirect: {uri: /}, fault: {abort: {httpStatus: 500}}": "http[0].fault: can't stand beside",
    "redirect: {uri: /}, rewrite: {uri: /}": "http[0].rewrite: can't stand beside redirect",
    "redirect: {uri: /}, directResponse: {status: 200}": "http[0].directResponse: can't stand",
    "directResponse: {status: 200}, %s": "http[0].route: can't stand beside directResponse",
    "directResponse: {status: 200}, rewrite: {uri: /}": "http[0].rewrite: can't stand beside",
    "directResponse: {status: 200}, fault: {abort: {httpStatus: 500}}": "http[0].fault: can't",
    "delegate: {name: d}, %s": "http[0].route: can't stand beside delegate",
    "delegate: {name: d}, redirect: {uri: /}": "http[0].redirect: can't stand beside delegate",
    "delegate: {name: D_}": 'http[0].delegate.name: "D_" is not the name of a VirtualService',
    "delegate: {name: d, namespace: N_}": 'http[0].delegate.namespace: "N_" is not a namespace',
}

DESTINATIONS = {
    "route: [{weight: 1}]": "http[0].route[0].destination: is missing: give the host",
    "route: [{destination: {host: '*'}}]": 'http[0].route[0].destination.host: "*" is not',
    "route: [{destination: {subset: v1}}]": "http[0].route[0].destination.host: is missing",
    "route: [{destination: {host: a b}}]": 'http[0].route[0].destination.host: "a b" is not',
    "route: [{destination: {host: r, subset: V_}}]": 'http[0].route[0].destination.subset: "V_"',
    "route: [{destination: {host: r, port: {}}}]": "http[0].route[0].destination.port: needs a",
    "route: [{destination: {host: r, port: {number: 0}}}]": "http[0].route[0].destination.port.nu",
    "route: [{destination: {host: r}, weight: -1}]": "http[0].route[0].weight: must be at least 0",
    "route: [{destination: {host: r}}, {destination: {host: s}}]": "http[0].route: the weights add",
}

HEADERS = {
    "headers: {request: {set: {':path': x}}}": 'http[0].headers.request.set.:path: ":path" can',
    "headers: {request: {add: {'': x}}}": 'http[0].headers.request.add.: "" is not the name of a',
    "headers: {request: {set: {a b: x}}}": 'http[0].headers.request.set.a b: "a b" is not the',
    "headers: {request: {remove: [host]}}": 'http[0].headers.request.remove[0]: "host" can',
    "headers: {request: {remove: [':authority']}}": "http[0].headers.request.remove[0]: ",
    "headers: {response: {set: {host: x}}}": 'http[0].headers.response.set.host: "host" can',
    "headers: {response: {remove: [':status']}}": 'http[0].headers.response.remove[0]: ":status"',
    "headers: {response: {add: {x: 100%}}}": "http[0].headers.response.add.x: has a % at",
    "headers: {response: {add: {x: '%NO%'}}}": "http[0].headers.response.add.x: has %NO%",
    "headers: {response: {add: {x: '%REQ%'}}}": "http[0].headers.response.add.x: has %REQ%",
    "headers: {response: {add: {x: '%REQ(a?b?c)%'}}}": "http[0].headers.response.add.x: has %REQ(a",
    "headers: {response: {add: {x: '%PROTOCOL(a)%'}}}": "http[0].headers.response.add.x: has %PR",
    'headers: {response: {add: {x: "a\\nb"}}}': "http[0].headers.response.add.x: must be one line",
    "rewrite: {authority: x}, headers: {request: {set: {host: y}}}": (
        "http[0].headers.request.set.host: sets the authority, which rewrite.authority sets too"
    ),
    "headers: {request: {set: {host: y}, add: {':authority': y}}}": (
        "http[0].headers.request.add.:authority: sets the authority, which headers.request.set"
    ),
}

MATCHES = {
    "uri: {exact: a, prefix: b}": "uri: has exact and prefix: keep one",
    "uri: {prefix: ''}": "uri.prefix: must not be empty",
    "uri: {regex: ''}": "uri.regex: must not be empty",
    "uri: {regex: '(?=a)'}": 'uri.regex: "(?=a)" is not a regular expression of RE2',
    "uri: {regex: " + "a" * 1025 + "}": "uri.regex: is longer than 1024 bytes",
    "method: {regex: '*'}": 'method.regex: "*" is not a regular expression of RE2',
    "headers: {'': {exact: a}}": 'headers.: "" is not the name of a header',
    "headers: {a b: {exact: a}}": 'headers.a b: "a b" is not the name of a header',
    "headers: {a: null}": "headers.a: expected a mapping, found nothing",
    "headers: {a: {regex: '*'}}": 'headers.a.regex: "*" is not a regular expression of RE2',
    "headers: {'@request.auth.claims': {exact: a}}": "headers.@request.auth.claims: names no claim",
    "headers: {'@request.auth.claims[a': {exact: a}}": "headers.@request.auth.claims[a: names no",
    "withoutHeaders: {a b: {}}": 'withoutHeaders.a b: "a b" is not the name of a header',
    "withoutHeaders: {a: {regex: '['}}": 'withoutHeaders.a.regex: "[" is not a regular',
    "queryParams: {a: {regex: '['}}": 'queryParams.a.regex: "[" is not a regular',
    "sourceNamespace: B_": 'sourceNamespace: "B_" is not a namespace',
    "sourceLabels: {'a/b/c': x}": 'sourceLabels.a/b/c: "a/b/c" is not the key of a label',
    "sourceLabels: {a: '*'}": 'sourceLabels.a: "*" is not the value of a label',
    "port: 70000": "port: expected a number from 1 to 65535",
}

ACTIONS = {
    "redirect: {}": "http[0].redirect: leads nowhere",
    "redirect: {uri: /a, prefixRewrite: /b}": "http[0].redirect.prefixRewrite: can't stand beside",
    "match: [{uri: {exact: /a}}], redirect: {prefixRewrite: /b}": (
        "http[0].redirect.prefixRewrite: needs a match by prefix, and match[0].uri is none"
    ),
    "redirect: {uri: /, redirectCode: 305}": "http[0].redirect.redirectCode: must be one of 301",
    "redirect: {uri: /, redirectCode: 404}": "http[0].redirect.redirectCode: must be one of 301",
    "redirect: {scheme: ftp}": "http[0].redirect.scheme: must be http or https",
    "redirect: {port: 1, derivePort: FROM_REQUEST_PORT}": "http[0].redirect.derivePort: can't",
    "directResponse: {}": "http[0].directResponse.status: must be from 200 to 599, found 0",
    "directResponse: {status: 600}": "http[0].directResponse.status: must be from 200 to 599",
    "directResponse: {status: 200, body: {}}": "http[0].directResponse.body: has string or bytes",
    "directResponse: {status: 200, body: {bytes: '%'}}": "http[0].directResponse.body.bytes: is",
    "directResponse: {status: 200, body: {string: " + "a" * 1048577 + "}}": (
        "http[0].directResponse.body: has 1048577 bytes, more than 1048576"
    ),
    "rewrite: {}, %s": "http[0].rewrite: changes nothing",
    "rewrite: {uri: /, uriRegexRewrite: {match: a, rewrite: b}}, %s": (
        "http[0].rewrite.uriRegexRewrite: can't stand beside uri"
    ),
    "rewrite: {uriRegexRewrite: {match: a}}, %s": "http[0].rewrite.uriRegexRewrite.rewrite: is",
    "rewrite: {uriRegexRewrite: {rewrite: a}}, %s": "http[0].rewrite.uriRegexRewrite.match: must",
    "rewrite: {uriRegexRewrite: {match: '[', rewrite: a}}, %s": (
        'http[0].rewrite.uriRegexRewrite.match: "[" is not a regular expression of RE2'
    ),
    "rewrite: {uriRegexRewrite: {match: a, rewrite: '\\1'}}, %s": (
        "http[0].rewrite.uriRegexRewrite.rewrite: \\1 names a group, and the expression has 0"
    ),
    "timeout: 100us, %s": "http[0].timeout: must be at least 1ms",
    "timeout: 1500us, %s": "http[0].timeout: must be of whole milliseconds",
    "retries: {attempts: -1}, %s": "http[0].retries.attempts: must be at least 0",
    "retries: {attempts: 0, perTryTimeout: 1s}, %s": "http[0].retries.perTryTimeout: has no mean",
    "retries: {retryOn: 5xx}, %s": "http[0].retries.retryOn: has no meaning with attempts 0",
    "retries: {retryRemoteLocalities: false}, %s": "http[0].retries.retryRemoteLocalities: has no",
    "retries: {attempts: 1, retryOn: 6xx}, %s": 'http[0].retries.retryOn: "6xx" is no condition',
    "retries: {attempts: 1, retryOn: '700'}, %s": 'http[0].retries.retryOn: "700" is no condition',
    "retries: {attempts: 1, perTryTimeout: 0s}, %s": "http[0].retries.perTryTimeout: must be at",
    "retries: {attempts: 1, backoff: 0s}, %s": "http[0].retries.backoff: must be at least 1ms",
    "fault: {}, %s": "http[0].fault: makes no fault: give delay or abort",
    "fault: {delay: {percentage: {value: 1}}}, %s": "http[0].fault.delay.fixedDelay: is missing",
    "fault: {delay: {exponentialDelay: 1s}}, %s": "http[0].fault.delay.exponentialDelay: is not",
    "fault: {delay: {fixedDelay: 0s}}, %s": "http[0].fault.delay.fixedDelay: must be at least 1ms",
    "fault: {delay: {fixedDelay: 1s, percent: 101}}, %s": "http[0].fault.delay.percent: must be",
    "fault: {delay: {fixedDelay: 1s, percentage: {value: 101}}}, %s": (
        "http[0].fault.delay.percentage.value: must be from 0 to 100, found 101"
    ),
    "fault: {abort: {httpStatus: 500, percentage: {value: 0.00001}}}, %s": (
        "http[0].fault.abort.percentage.value: must be 0 or at least 0.0001"
    ),
    "fault: {abort: {httpStatus: 199}}, %s": "http[0].fault.abort.httpStatus: must be from 200",
    "fault: {abort: {grpcStatus: NON}}, %s": 'http[0].fault.abort.grpcStatus: "NON" is no gRPC',
    "fault: {abort: {http2Error: X}}, %s": "http[0].fault.abort.http2Error: is not supported",
    "fault: {abort: {httpStatus: 500, grpcStatus: OK}}, %s": "http[0].fault.abort: has httpStatus",
    "mirror: {host: s}, mirrors: [{destination: {host: s}}], %s": "http[0].mirrors: can't stand",
    "mirrors: [{percentage: {value: 1}}], %s": "http[0].mirrors[0].destination: is missing",
    "mirror: {host: '*'}, %s": 'http[0].mirror.host: "*" is not a host name',
    "mirror: {host: s}, mirrorPercentage: {value: -1}, %s": "http[0].mirrorPercentage.value: must",
    "mirror: {host: s}, mirrorPercent: 101, %s": "http[0].mirrorPercent: must be from 0 to 100",
    "corsPolicy: {allowOrigins: [{}]}, %s": "http[0].corsPolicy.allowOrigins[0]: is empty",
    "corsPolicy: {allowOrigins: [{regex: '['}]}, %s": "http[0].corsPolicy.allowOrigins[0].regex: ",
    "corsPolicy: {allowMethods: [GOT]}, %s": 'http[0].corsPolicy.allowMethods[0]: "GOT" is not',
    "corsPolicy: {allowHeaders: [a b]}, %s": 'http[0].corsPolicy.allowHeaders[0]: "a b" is not',
    "corsPolicy: {exposeHeaders: ['']}, %s": 'http[0].corsPolicy.exposeHeaders[0]: "" is not the',
    "corsPolicy: {maxAge: 1500ms}, %s": "http[0].corsPolicy.maxAge: must be of whole seconds",
}


def with_route(text: str) -> str:
    return text.replace("%s", ROUTE)


CASES = {
    **{text.replace("%s", ROUTE): wanted for text, wanted in SPECS.items()},
    **{
        http(text.replace("%s", ROUTE)): wanted
        for text, wanted in {**BESIDE, **DESTINATIONS, **ACTIONS}.items()
    },
    **{http(f"{text}, {ROUTE}"): wanted for text, wanted in HEADERS.items()},
    **{
        http("match: [{" + text + "}], " + ROUTE): f"http[0].match[0].{wanted}"
        for text, wanted in MATCHES.items()
    },
}


@pytest.mark.parametrize(("spec", "wanted"), CASES.items(), ids=range(len(CASES)))
def test_a_mistake_is_reported_with_its_field_and_its_remedy(spec: str, wanted: str) -> None:
    assert [each[: len(wanted)] for each in reported(spec)] == [wanted]


def test_all_mistakes_of_an_object_are_reported_at_once() -> None:
    spec = http("match: [{uri: {prefix: ''}}], timeout: 1us, retries: {attempts: -1}, " + ROUTE)

    assert [each.partition(": ")[0] for each in reported(spec)] == [
        "http[0].match[0].uri.prefix",
        "http[0].timeout",
        "http[0].retries.attempts",
    ]


RIGHT = {
    "every field": http(
        """
        name: n,
        match: [{name: m, uri: {regex: '/a+'}, scheme: {exact: http}, method: {prefix: G},
          authority: {exact: r}, headers: {x: {}, '@request.auth.claims[a][b]': {exact: c}},
          withoutHeaders: {y: {regex: '*'}}, queryParams: {q: {}}, ignoreUriCase: true, port: 80,
          sourceLabels: {app: web}, sourceNamespace: b, statPrefix: s}],
        route: [{destination: {host: r.a.svc.cluster.local, subset: v1, port: {number: 80}},
          weight: 3, headers: {request: {set: {a: '%REQ(b)%', c: '50%%'}}}},
          {destination: {host: s}, weight: 1}],
        rewrite: {uriRegexRewrite: {match: '^/(a)$', rewrite: '/\\1'}, authority: x},
        timeout: 0s,
        retries: {attempts: 3, retryOn: 'gateway-error, 503', perTryTimeout: 1s, backoff: 10ms,
          retryRemoteLocalities: true, retryIgnorePreviousHosts: false},
        fault: {delay: {fixedDelay: 1s, percentage: {value: 0.0001}},
          abort: {grpcStatus: UNAVAILABLE, percentage: {value: 100}}},
        mirrors: [{destination: {host: t}, percentage: {value: 5}}],
        corsPolicy: {allowOrigins: [{exact: 'https://o'}], allowMethods: [GET, '*'], maxAge: 24h,
          allowHeaders: [x-a], exposeHeaders: [x-b], allowCredentials: true,
          unmatchedPreflights: IGNORE},
        headers: {response: {remove: [server]}}
        """
    ),
    "a redirect": http("redirect: {authority: x, derivePort: FROM_REQUEST_PORT}"),
    "a direct response": http("directResponse: {status: 503, body: {bytes: eA==}}"),
    "a root": "{hosts: [r], http: [{delegate: {name: d, namespace: n}, match: [{port: 1}]}]}",
    "a delegate": with_route("{http: [{%s}]}"),
    "an address": with_route("{hosts: [10.0.0.1], tcp: [{%s}]}"),
    "TLS": with_route("{hosts: ['*.a'], tls: [{match: [{sniHosts: [x.a, '*.a']}], %s}]}"),
    "a gateway's catch-all": with_route("{hosts: ['*'], gateways: [./g, n/g], http: [{%s}]}"),
    "an SNI host": with_route("{hosts: [outbound_.80_._.r.a.svc.x], gateways: [g], tcp: [{%s}]}"),
}


@pytest.mark.parametrize("spec", RIGHT.values(), ids=RIGHT)
def test_what_is_right_is_taken(spec: str) -> None:
    assert reported(spec) == []
