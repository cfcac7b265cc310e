"""Extension providers: every mistake is reported, and what Envoy can do nothing with."""

import pytest
import yaml

from istio_config.kinds.mesh_config._kind import MESH_CONFIG
from istio_config.kinds.metadata import Metadata
from mesh_configfile import field_name

MISTAKES = {
    "zipkin: {service: z.b, port: 1}, datadog: {service: d.b, port: 1}": (
        "",
        "must have the settings of exactly one sort of provider, found zipkin and datadog",
    ),
    "": ("", "must have the settings of exactly one sort of provider, found none"),
    "zipkin: {service: 'a b', port: 1}": ("zipkin.service", '"a b" is not a host name'),
    "zipkin: {service: 'A_/b', port: 1}": ("zipkin.service", '"A_" in "A_/b" is not a namespace'),
    "zipkin: {service: z.b, port: 0}": ("zipkin.port", "expected a number from 1 to 65535"),
    "zipkin: {service: z.b}": ("zipkin", "the field port is missing"),
    "zipkin: {service: z.b, port: 1, path: spans}": ("zipkin.path", '"spans" is not a path'),
    "zipkin: {service: z.b, port: 1, timeout: 1us}": ("zipkin.timeout", "must be at least 1ms"),
    "zipkin: {service: z.b, port: 1, headers: [{name: 'a b', value: c}]}": (
        "zipkin.headers[0].name",
        '"a b" is not the name of a header',
    ),
    "zipkin: {service: z.b, port: 1, headers: [{name: a, value: c, envName: D}]}": (
        "zipkin.headers[0]",
        "has value and envName: keep one",
    ),
    "zipkin: {service: z.b, port: 1, headers: [{name: a}]}": (
        "zipkin.headers[0]",
        "needs a value, or the name of a variable in envName",
    ),
    "zipkin: {service: z.b, port: 1, headers: [{name: a, value: '%'}]}": (
        "zipkin.headers[0].value",
        "has a %",
    ),
    "opentelemetry: {service: o.b, port: 1, http: {}}": (
        "opentelemetry.http.path",
        "expected a path of the collector",
    ),
    "opentelemetry: {service: o.b, port: 1, http: {path: /, timeout: 1us}}": (
        "opentelemetry.http.timeout",
        "must be at least 1ms",
    ),
    "opentelemetry: {service: o.b, port: 1, grpc: {timeout: 1us}}": (
        "opentelemetry.grpc.timeout",
        "must be at least 1ms",
    ),
    "opentelemetry: {service: o.b, port: 1, grpc: {initialMetadata: [{name: a}]}}": (
        "opentelemetry.grpc.initialMetadata[0]",
        "needs a value",
    ),
    "envoyExtAuthzGrpc: {service: c.b, port: 1, statusOnError: '999'}": (
        "envoyExtAuthzGrpc.statusOnError",
        '"999" is not an HTTP status',
    ),
    "envoyExtAuthzHttp: {service: c.b, port: 1, pathPrefix: check}": (
        "envoyExtAuthzHttp.pathPrefix",
        '"check" is not a path',
    ),
    "envoyExtAuthzHttp: {service: c.b, port: 1, headersToUpstreamOnAllow: ['*']}": (
        "envoyExtAuthzHttp.headersToUpstreamOnAllow[0]",
        '"*" is not a header',
    ),
    "envoyExtAuthzHttp: {service: c.b, port: 1, includeRequestBodyInCheck: {maxRequestBytes: 0}}": (
        "envoyExtAuthzHttp.includeRequestBodyInCheck.maxRequestBytes",
        "expected",
    ),
    "envoyExtAuthzHttp: {service: c.b, port: 1,"
    " includeRequestBodyInCheck: {maxRequestBytes: 1, packAsBytes: true}}": (
        "envoyExtAuthzHttp.includeRequestBodyInCheck.packAsBytes",
        "is for envoyExtAuthzGrpc",
    ),
    "envoyExtAuthzHttp: {service: c.b, port: 1, includeAdditionalHeadersInCheck: {a b: c}}": (
        "envoyExtAuthzHttp.includeAdditionalHeadersInCheck.a b",
        '"a b" is not the name of a header',
    ),
    "envoyFileAccessLog: {logFormat: {text: '%FOO%'}}": (
        "envoyFileAccessLog.logFormat.text",
        "has %FOO%, which is none of Envoy's commands",
    ),
    "envoyFileAccessLog: {logFormat: {text: a, labels: {a: b}}}": (
        "envoyFileAccessLog.logFormat",
        "has text and labels: keep one",
    ),
    "envoyFileAccessLog: {logFormat: {labels: {a: {b: ['%REQ%']}}}}": (
        "envoyFileAccessLog.logFormat.labels.a.b[0]",
        "has %REQ%, which needs its argument in brackets",
    ),
    "envoyOtelAls: {service: o.b, port: 1, logFormat: {text: '%', labels: {}}}": (
        "envoyOtelAls.logFormat.text",
        "has a %",
    ),
    "envoyOtelAls: {service: o.b, port: 1, logFormat: {labels: {a: '%'}}}": (
        "envoyOtelAls.logFormat.labels.a",
        "has a %",
    ),
    "envoyHttpAls: {service: o.b, port: 1, additionalRequestHeadersToLog: ['a b']}": (
        "envoyHttpAls.additionalRequestHeadersToLog[0]",
        '"a b" is not the name of a header',
    ),
}

WITHOUT_EFFECT = {
    "zipkin: {service: z.b, port: 1, headers: [{name: a, envName: B}]}": (
        "zipkin.headers[0].envName"
    ),
    "opentelemetry: {service: o.b, port: 1, http: {path: /a, headers: [{name: a, envName: B}]}}": (
        "opentelemetry.http.headers[0].envName"
    ),
    "opentelemetry: {service: o.b, port: 1, grpc: {initialMetadata: [{name: a, envName: B}]}}": (
        "opentelemetry.grpc.initialMetadata[0].envName"
    ),
    "lightstep: {service: l.b, port: 1}": "lightstep",
    "opencensus: {service: l.b, port: 1, context: [B3]}": "opencensus",
    "stackdriver: {}": "stackdriver",
    "sds: {service: s.b, port: 1}": "sds",
    "envoyExtAuthzGrpc: {service: c.b, port: 1, clearRouteCache: true}": (
        "envoyExtAuthzGrpc.clearRouteCache"
    ),
    "opentelemetry: {service: o.b, port: 1, dynatraceSampler: {tenant: t, clusterId: 1}}": (
        "opentelemetry.dynatraceSampler"
    ),
    "opentelemetry: {service: o.b, port: 1, http: {path: /a}, grpc: {}}": "opentelemetry.grpc",
}


def read(text: str) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return the mistakes and warnings in a mesh config."""
    body = MESH_CONFIG.read(yaml.safe_load(text), (), Metadata(name="default"))
    mistakes, warnings = body.mistakes, body.warnings
    return (
        [(field_name(path), message) for path, message in mistakes],
        [(field_name(path), message) for path, message, _ in warnings],
    )


@pytest.mark.parametrize(("text", "wanted"), MISTAKES.items())
def test_a_mistake_in_a_provider_is_reported_with_its_field(
    text: str, wanted: tuple[str, str]
) -> None:
    mistakes, _ = read(f"extensionProviders: [{{name: a, {text}}}]")

    ((field, message),) = mistakes
    assert field.removeprefix("extensionProviders[0]").removeprefix(".") == wanted[0]
    assert message.startswith(wanted[1])


@pytest.mark.parametrize(("text", "field"), WITHOUT_EFFECT.items())
def test_a_provider_that_envoy_can_do_nothing_with_is_warned_of(text: str, field: str) -> None:
    mistakes, warnings = read(f"extensionProviders: [{{name: a, {text}}}]")

    assert mistakes == []
    assert [each for each, _ in warnings] == [f"extensionProviders[0].{field}"]


def test_names_of_providers_are_unique_whatever_their_case() -> None:
    zipkin = "zipkin: {service: z.b, port: 1}"
    mistakes, _ = read(
        f"extensionProviders: [{{name: a, {zipkin}}}, {{name: b, {zipkin}}}, {{name: A, {zipkin}}}]"
    )

    assert mistakes == [
        ("extensionProviders[2].name", '"A" is another provider\'s, too: rename one of them')
    ]


def test_the_name_of_an_authorizer_is_a_label() -> None:
    mistakes, _ = read(
        "extensionProviders: [{name: A.b, envoyExtAuthzGrpc: {service: c.b, port: 1}}]"
    )

    ((field, message),) = mistakes
    assert field == "extensionProviders[0].name"
    assert message.startswith('"A.b" can\'t name an authorizer')


def test_default_providers_must_be_there_or_istios_own() -> None:
    mistakes, _ = read(
        "defaultProviders: {tracing: [none], metrics: [prometheus], accessLogging: [Envoy, x]}"
    )

    assert [each for each, _ in mistakes] == [
        "defaultProviders.tracing[0]",
        "defaultProviders.accessLogging[1]",
    ]
