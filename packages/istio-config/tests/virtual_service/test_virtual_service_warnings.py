"""What a VirtualService says in vain: accepted, and reported."""

import pytest
import yaml

from istio_config.kinds.metadata import Metadata
from istio_config.kinds.virtual_service._kind import VIRTUAL_SERVICE
from mesh_configfile import field_name

ROUTE = "route: [{destination: {host: r}}]"


def warned(text: str) -> list[str]:
    """Return the warnings of a spec in YAML, each with its field."""
    metadata = Metadata(name="v", namespace="a")
    body = VIRTUAL_SERVICE.read(yaml.safe_load(text.replace("%s", ROUTE)), (), metadata)
    mistakes, warnings = body.mistakes, body.warnings
    assert mistakes == []
    return [f"{field_name(path)}: {message}" for path, message, _ in warnings]


def rules(*matches: str) -> str:
    """Return a spec with a rule for each list of matches; an empty text has none."""
    http = ", ".join("{" + (f"match: [{each}], " if each else "") + "%s}" for each in matches)
    return "{hosts: [r], gateways: [mesh, g], http: [" + http + "]}"


WARNINGS = {
    "{hosts: [r], gateways: [g.b.svc.x], http: [{%s}]}": (
        'gateways[0]: "g.b.svc.x" is better written NAMESPACE/NAME'
    ),
    "{hosts: [r], http: [{match: [{gateways: [mesh], sourceLabels: {a: b}}], %s}]}": (
        "http[0].match[0].sourceLabels: is not looked at beside gateways"
    ),
    "{hosts: [r], http: [{fault: {abort: {percentage: {value: 1}}}, %s}]}": (
        "http[0].fault.abort: aborts nothing"
    ),
    "{hosts: [r], http: [{fault: {abort: {httpStatus: 500}}, %s}]}": (
        "http[0].fault.abort: never happens: give a percentage"
    ),
    "{hosts: [r], http: [{fault: {delay: {fixedDelay: 1s}}, %s}]}": (
        "http[0].fault.delay: never happens: give a percentage"
    ),
    "{hosts: [r], http: [{fault: {delay: {fixedDelay: 1s, percent: 5}}, %s}]}": (
        "http[0].fault.delay.percent: is deprecated: use percentage"
    ),
    "{hosts: [r], http: [{retries: {attempts: 1, retryOn: '5xx, reset'}, %s}]}": (
        "http[0].retries.retryOn: has blanks, for which Istio refuses the object"
    ),
    "{hosts: [r], http: [{mirror: {host: s}, mirrorPercent: 5, %s}]}": (
        "http[0].mirrorPercent: is deprecated: use mirrorPercentage"
    ),
    "{hosts: [r], http: [{mirrorPercentage: {value: 5}, %s}]}": (
        "http[0]: has a percentage of requests to mirror, and no mirror"
    ),
    "{hosts: [r], http: [{corsPolicy: {allowOrigin: [o]}, %s}]}": (
        "http[0].corsPolicy.allowOrigin: is deprecated: use allowOrigins"
    ),
    "{hosts: [r], http: [{directResponse: {status: 200}, corsPolicy: {allowMethods: [GET]}}]}": (
        "http[0].corsPolicy: has no effect on direct responses"
    ),
    "{hosts: [r], http: [{directResponse: {status: 200}, timeout: 1s}]}": (
        "http[0].timeout: has no effect beside directResponse"
    ),
    "{hosts: [r], http: [{redirect: {uri: /}, retries: {attempts: 1}}]}": (
        "http[0].retries: has no effect beside redirect"
    ),
    "{hosts: [r], http: [{directResponse: {status: 200, body: {string: "
    + "a" * 102401
    + "}}}]}": "http[0].directResponse.body: has 102401 bytes, which every proxy keeps in memory",
    "{hosts: [10.0.0.1], tls: [{match: [{sniHosts: [10.0.0.1]}], %s}]}": (
        'tls[0].match[0].sniHosts[0]: "10.0.0.1" is an address'
    ),
    "{hosts: [r], tcp: [{match: [{sourceSubnet: 10.0.0.0/8}], %s}]}": (
        "tcp[0].match[0].sourceSubnet: has no effect"
    ),
    "{hosts: [r], tcp: [{%s}, {match: [{port: 1}], %s}]}": (
        "tcp[1]: is never reached: rule 1 takes all connections"
    ),
    "{hosts: [r], tls: [{match: [{sniHosts: [r]}], %s}, {match: [{sniHosts: [r]}], %s}]}": (
        "tls[1].match[0]: is never reached: rule 1 has it too"
    ),
    rules("", "{uri: {prefix: /a}}"): (
        "http[1].match[0]: is never reached: rule 1, which has no match, takes all its requests"
    ),
    rules("", ""): "http[1]: is never reached: rule 1",
    rules("{uri: {prefix: /}}", ""): "http[1]: is never reached: match 1 of rule 1",
    rules("{uri: {regex: .*}}", "{port: 80}"): "http[1].match[0]: is never reached",
    rules("{uri: {prefix: /a}}", "{uri: {prefix: /ab}}"): "http[1].match[0]: is never reached",
    rules("{uri: {prefix: /a}}", "{uri: {exact: /ab}}"): "http[1].match[0]: is never reached",
    rules("{uri: {exact: /a}}, {uri: {exact: /a}}"): "http[0].match[1]: is never reached: match 1",
    rules("{uri: {prefix: /A}, ignoreUriCase: true}", "{uri: {exact: /a}}"): "http[1].match[0]: is",
    rules("{headers: {x: {}}}", "{headers: {x: {exact: a}}}"): "http[1].match[0]: is never reached",
    rules("{port: 80}", "{port: 80, method: {exact: GET}}"): "http[1].match[0]: is never reached",
    rules("{sourceLabels: {a: b}}", "{sourceLabels: {a: b, c: d}}"): "http[1].match[0]: is never",
    rules("{gateways: [mesh, g]}", "{gateways: [g]}"): "http[1].match[0]: is never reached",
}


@pytest.mark.parametrize(("spec", "wanted"), WARNINGS.items(), ids=range(len(WARNINGS)))
def test_what_is_said_in_vain_is_reported(spec: str, wanted: str) -> None:
    assert [each[: len(wanted)] for each in warned(spec)] == [wanted]


REACHED = [
    rules("{uri: {prefix: /ab}}", "{uri: {prefix: /a}}"),
    rules("{uri: {prefix: /a}}", "{uri: {exact: /A}}"),
    rules("{uri: {prefix: /a}}", "{uri: {exact: /a}, ignoreUriCase: true}"),
    rules("{uri: {prefix: /a}}", "{uri: {regex: /ab}}"),
    rules("{uri: {prefix: /a}, method: {exact: GET}}", "{uri: {prefix: /a}}"),
    rules("{port: 80}", "{port: 81}"),
    rules("{port: 80}", ""),
    rules("{sourceNamespace: a}", "{sourceNamespace: b}"),
    rules("{gateways: [g]}", "{gateways: [mesh]}"),
    rules("{sourceLabels: {a: b}}", "{gateways: [mesh]}"),
    rules("{withoutHeaders: {x: {}}}", "{headers: {x: {}}}"),
    rules("{queryParams: {x: {exact: a}}}", "{queryParams: {x: {}}}"),
]


@pytest.mark.parametrize("spec", REACHED)
def test_a_rule_that_can_be_reached_is_not_reported(spec: str) -> None:
    assert warned(spec) == []
