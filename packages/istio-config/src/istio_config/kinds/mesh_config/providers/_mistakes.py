"""Mistakes in extension providers, and providers that Envoy can't do anything with."""

from collections.abc import Iterator, Sequence
from typing import assert_never

from istio_config.addresses import is_host
from istio_config.kinds.checks import duration_mistake, is_dns_label, is_header_name
from istio_config.kinds.formats import header_value_mistake
from istio_config.kinds.mesh_config.providers._authorizers import GrpcAuthorizer, HttpAuthorizer
from istio_config.kinds.mesh_config.providers._log_mistakes import logger_mistakes
from istio_config.kinds.mesh_config.providers._provider import (
    BUILT_IN,
    Authorizer,
    DefaultProviders,
    ExtensionProvider,
    Tracer,
)
from istio_config.kinds.mesh_config.providers._tracers import (
    Datadog,
    OpenTelemetry,
    SentHeader,
    SkyWalking,
    Zipkin,
)
from mesh_configfile import Duration, FieldPath
from mesh_configfile.shapes import Finding

_CODES = frozenset(
    str(each)
    for each in (
        *range(200, 209),
        226,
        *range(300, 306),
        307,
        308,
        *range(400, 418),
        421,
        422,
        423,
        424,
        426,
        428,
        429,
        431,
        *range(500, 509),
        510,
        511,
    )
)
"""The statuses that Envoy has a name for (`envoy.type.v3.StatusCode`) and can answer with."""
_LONGEST_NAME = 63


def provider_mistakes(providers: Sequence[ExtensionProvider]) -> Iterator[Finding]:
    """Yield what is wrong with extension providers; paths start below the list."""
    seen: set[str] = set()
    for index, each in enumerate(providers):
        if (name := each.name.lower()) in seen:
            yield (index, "name"), f'"{each.name}" is another provider\'s, too: rename one of them'
        seen.add(name)
        for path, message in _of_provider(each):
            yield (index, *path), message


def default_mistakes(
    defaults: DefaultProviders, providers: Sequence[ExtensionProvider]
) -> Iterator[Finding]:
    """Yield the names of default providers that no provider has; paths start below the field."""
    known = {*BUILT_IN, *(each.name.lower() for each in providers)}
    for field, names in (
        ("tracing", defaults.tracing),
        ("metrics", defaults.metrics),
        ("accessLogging", defaults.access_logging),
    ):
        for index, name in enumerate(names):
            if name.lower() not in known:
                yield (
                    (field, index),
                    f'there is no provider "{name}"; define it in extensionProviders',
                )


def provider_warnings(providers: Sequence[ExtensionProvider]) -> Iterator[Finding]:
    """Yield the providers that have no effect; paths start below the list."""
    for index, each in enumerate(providers):
        (kind,) = each.given
        if each.is_private:
            yield (
                (index, kind),
                "has no effect: Envoy as it is has no such extension; use opentelemetry"
                if kind != "sds"
                else "has no effect: agents ask the services of certificates that they are set to",
            )
        elif each.prometheus is not None:
            yield (
                (index, kind),
                "has no effect: Envoy has statistics of its own, without Istio's metrics",
            )
        tracer = each.opentelemetry
        if tracer is not None and tracer.dynatrace_sampler is not None:
            yield (
                (index, kind, "dynatraceSampler"),
                "is not supported: requests are chosen by randomSamplingPercentage",
            )
        if tracer is not None and tracer.http is not None and tracer.grpc is not None:
            yield (index, kind, "grpc"), "has no effect beside http"
        if each.tracer is not None:
            for field in _variables(each.tracer):
                yield (
                    (index, kind, *field, "envName"),
                    "has no effect: variables are not handed to proxies; write the value",
                )
        authorizer = each.authorizer
        if authorizer is not None and authorizer.clear_route_cache:
            yield (
                (index, kind, "clearRouteCache"),
                "has no effect, as in Istio: the route stays the one that was chosen before",
            )


def _variables(tracer: Tracer) -> Iterator[FieldPath]:
    headers: list[tuple[FieldPath, Sequence[SentHeader]]] = []
    if isinstance(tracer, Zipkin):
        headers.append((("headers",), tracer.headers))
    if isinstance(tracer, OpenTelemetry) and tracer.http is not None:
        headers.append((("http", "headers"), tracer.http.headers))
    if isinstance(tracer, OpenTelemetry) and tracer.grpc is not None:
        headers.append((("grpc", "initialMetadata"), tracer.grpc.initial_metadata))
    for path, listed in headers:
        for index, each in enumerate(listed):
            if each.env_name is not None:
                yield (*path, index)


def service_mistake(service: str) -> str | None:
    """Return what is wrong with the name of a provider's service, or None."""
    namespace, slash, host = service.rpartition("/")
    if slash and not is_dns_label(namespace):
        return f'"{namespace}" in "{service}" is not a namespace; write namespace/host, or a host'
    if not is_host(host):
        return f'"{host}" is not a host name; write namespace/host, or a host'
    return None


def _of_provider(provider: ExtensionProvider) -> Iterator[Finding]:
    if len(provider.given) != 1:
        found = " and ".join(provider.given) or "none"
        yield (), f"must have the settings of exactly one sort of provider, found {found}"
        return
    ((kind, value),) = provider.given.items()
    service = getattr(value, "service", None)
    if isinstance(service, str) and (wrong := service_mistake(service)) is not None:
        yield (kind, "service"), wrong
    timeout = getattr(value, "timeout", None)
    if isinstance(timeout, Duration):
        yield from _duration(timeout, (kind, "timeout"))
    if provider.authorizer is not None:
        if not is_dns_label(provider.name) or len(provider.name) > _LONGEST_NAME:
            yield (
                ("name",),
                f'"{provider.name}" can\'t name an authorizer; use small letters, digits and "-"',
            )
        yield from _below(kind, _of_authorizer(provider.authorizer))
    if provider.tracer is not None:
        yield from _below(kind, _of_tracer(provider.tracer))
    if provider.logger is not None:
        yield from _below(kind, logger_mistakes(provider.logger))


def _below(kind: str, findings: Iterator[Finding]) -> Iterator[Finding]:
    for path, message in findings:
        yield (kind, *path), message


def _of_authorizer(authorizer: Authorizer) -> Iterator[Finding]:
    code = authorizer.status_on_error
    if code and code not in _CODES:
        yield ("statusOnError",), f'"{code}" is not an HTTP status that Envoy can answer with'
    if isinstance(authorizer, GrpcAuthorizer):
        return
    yield from _of_http_authorizer(authorizer)


def _of_http_authorizer(authorizer: HttpAuthorizer) -> Iterator[Finding]:
    prefix = authorizer.path_prefix
    if prefix and (not prefix.startswith("/") or any(each in prefix for each in "?# ")):
        yield ("pathPrefix",), f'"{prefix}" is not a path; it must begin with "/"'
    body = authorizer.include_request_body_in_check
    if body is not None and body.pack_as_bytes:
        yield (
            ("includeRequestBodyInCheck", "packAsBytes"),
            "is for envoyExtAuthzGrpc: by HTTP a body is sent as it is",
        )
    for field, listed in (
        ("includeHeadersInCheck", authorizer.include_headers_in_check),
        ("includeRequestHeadersInCheck", authorizer.include_request_headers_in_check),
        ("headersToUpstreamOnAllow", authorizer.headers_to_upstream_on_allow),
        ("headersToDownstreamOnDeny", authorizer.headers_to_downstream_on_deny),
        ("headersToDownstreamOnAllow", authorizer.headers_to_downstream_on_allow),
    ):
        for index, each in enumerate(listed):
            plain = each[:-1] if each.endswith("*") else each.removeprefix("*")
            if not is_header_name(plain) or "*" in plain:
                yield (
                    (field, index),
                    f'"{each}" is not a header, nor a beginning (x-*) or an end (*-id) of headers',
                )
    for name, value in authorizer.include_additional_headers_in_check.items():
        path: FieldPath = ("includeAdditionalHeadersInCheck", name)
        yield from _header(name, value, path, path)


def _of_tracer(tracer: Tracer) -> Iterator[Finding]:
    match tracer:
        case Zipkin():
            if tracer.path and not tracer.path.startswith("/"):
                yield ("path",), f'"{tracer.path}" is not a path; it must begin with "/"'
            yield from _sent(tracer.headers, ("headers",))
        case OpenTelemetry(http=http, grpc=grpc):
            if http is not None:
                if not http.path.startswith("/"):
                    yield (
                        ("http", "path"),
                        'expected a path of the collector, as "/v1/traces"',
                    )
                if http.timeout is not None:
                    yield from _duration(http.timeout, ("http", "timeout"))
                yield from _sent(http.headers, ("http", "headers"))
            if grpc is not None:
                if grpc.timeout is not None:
                    yield from _duration(grpc.timeout, ("grpc", "timeout"))
                yield from _sent(grpc.initial_metadata, ("grpc", "initialMetadata"))
        case Datadog() | SkyWalking():
            pass
        case _:
            assert_never(tracer)


def _sent(headers: Sequence[SentHeader], path: FieldPath) -> Iterator[Finding]:
    for index, each in enumerate(headers):
        here = (*path, index)
        if each.value is not None and each.env_name is not None:
            yield here, "has value and envName: keep one"
        elif not each.value and not each.env_name:
            yield here, "needs a value, or the name of a variable in envName"
        yield from _header(each.name, each.value or "", (*here, "name"), (*here, "value"))


def _header(
    name: str, value: str, name_path: FieldPath, value_path: FieldPath
) -> Iterator[Finding]:
    if not is_header_name(name):
        yield name_path, f'"{name}" is not the name of a header'
    elif (wrong := header_value_mistake(value)) is not None:
        yield value_path, wrong


def _duration(value: Duration, path: FieldPath) -> Iterator[Finding]:
    if (wrong := duration_mistake(value)) is not None:
        yield path, wrong
