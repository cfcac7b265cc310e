"""Extension providers: each a name, and one service or file.

Source: Istio's API, mesh/v1alpha1, and its validation.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from istio_config.addresses import is_host
from istio_config.kinds.checks import below, duration_mistakes, is_dns_label
from istio_config.kinds.fields import PortNumber, SpecFields, Text, Unchecked
from istio_config.kinds.mesh_config.providers._authorizers import (
    Authorizer,
    GrpcAuthorizer,
    HttpAuthorizer,
    authorizer_mistakes,
)
from istio_config.kinds.mesh_config.providers._loggers import (
    FileLog,
    HttpLogService,
    Logger,
    OtelLogService,
    TcpLogService,
    logger_mistakes,
)
from istio_config.kinds.mesh_config.providers._tracers import (
    Datadog,
    Given,
    Lightstep,
    OpenCensus,
    OpenTelemetry,
    SkyWalking,
    Tracer,
    Zipkin,
    tracer_mistakes,
    variables_in_headers,
)
from mesh_configfile import Duration
from mesh_configfile.shapes import Finding


class StackdriverLogging(SpecFields, frozen=True):
    """Labels of what is logged at Stackdriver."""

    labels: dict[str, str] = msgspec.field(default_factory=dict)


class Stackdriver(SpecFields, frozen=True):
    """Google's monitoring; only Istio's own Envoy has a filter for it."""

    debug: bool = False
    max_number_of_attributes: int | None = None
    max_number_of_annotations: int | None = None
    max_number_of_message_events: int | None = None
    max_tag_length: int = 0
    logging: StackdriverLogging | None = None


class SecretService(SpecFields, frozen=True):
    """A service of certificates (SDS). Agents ask the one in their own settings."""

    service: Text
    port: PortNumber
    name: str = ""


class ExtensionProvider(SpecFields, frozen=True):
    """A provider: one of its fields but the name is given."""

    name: Text
    envoy_ext_authz_http: HttpAuthorizer | None = None
    envoy_ext_authz_grpc: GrpcAuthorizer | None = None
    zipkin: Zipkin | None = None
    datadog: Datadog | None = None
    skywalking: SkyWalking | None = None
    opentelemetry: OpenTelemetry | None = None
    lightstep: Lightstep | None = None
    opencensus: OpenCensus | None = None
    stackdriver: Stackdriver | None = None
    prometheus: Given | None = None
    envoy_file_access_log: FileLog | None = None
    envoy_http_als: HttpLogService | None = None
    envoy_tcp_als: TcpLogService | None = None
    envoy_otel_als: OtelLogService | None = None
    sds: SecretService | None = None

    @property
    def given(self) -> Mapping[str, Unchecked]:
        """The fields that say what it is, by their names in YAML; a valid provider has one."""
        names = zip(self.__struct_fields__, self.__struct_encode_fields__, strict=True)
        return {
            spelled: value
            for name, spelled in names
            if name != "name" and (value := getattr(self, name)) is not None
        }

    @property
    def authorizer(self) -> Authorizer | None:
        """The service that decides on requests, if it is one."""
        return self.envoy_ext_authz_http or self.envoy_ext_authz_grpc

    @property
    def tracer(self) -> Tracer | None:
        """The service that takes spans, if it is one that Envoy can send them to."""
        return self.zipkin or self.datadog or self.skywalking or self.opentelemetry

    @property
    def logger(self) -> Logger | None:
        """The file or service that takes access logs, if it is one."""
        return (
            self.envoy_file_access_log
            or self.envoy_http_als
            or self.envoy_tcp_als
            or self.envoy_otel_als
        )

    @property
    def is_private(self) -> bool:
        """Whether only Istio's own Envoy, or an older one, has the extension for it."""
        return (self.lightstep or self.opencensus or self.stackdriver or self.sds) is not None

    @property
    def service(self) -> tuple[str, int] | None:
        """The service that proxies connect to, and its port; None for a file or a filter."""
        found = self.authorizer or self.tracer or self.logger
        if found is None or isinstance(found, FileLog):
            return None
        return found.service, found.port


class DefaultProviders(SpecFields, frozen=True):
    """The names of the providers that act where no Telemetry names any."""

    tracing: tuple[str, ...] = ()
    metrics: tuple[str, ...] | None = None
    """None: Istio's own, `prometheus`, where Istio makes none. An empty list: no metrics."""
    access_logging: tuple[str, ...] = ()


PROMETHEUS = "prometheus"
"""The provider of Istio's own for metrics that scrapers read."""
BUILT_IN = (PROMETHEUS, "stackdriver", "envoy")
"""The names of Istio's own providers; `envoy` writes the mesh's access log to standard output."""
_LONGEST_NAME = 63


def provider_mistakes(providers: Sequence[ExtensionProvider]) -> Iterator[Finding]:
    """Yield what is wrong with extension providers; paths start below the list."""
    seen: set[str] = set()
    for index, each in enumerate(providers):
        if (name := each.name.lower()) in seen:
            yield (index, "name"), f'"{each.name}" is another provider\'s, too: rename one of them'
        seen.add(name)
        for path, message in _provider_mistakes(each):
            yield (index, *path), message


def _provider_mistakes(provider: ExtensionProvider) -> Iterator[Finding]:
    if len(provider.given) != 1:
        found = " and ".join(provider.given) or "none"
        yield (), f"must have the settings of exactly one sort of provider, found {found}"
        return
    ((kind, value),) = provider.given.items()
    service = getattr(value, "service", None)
    if isinstance(service, str) and (wrong := _service_mistake(service)) is not None:
        yield (kind, "service"), wrong
    timeout = getattr(value, "timeout", None)
    if isinstance(timeout, Duration):
        yield from duration_mistakes((kind, "timeout"), timeout)
    if provider.authorizer is not None:
        if not is_dns_label(provider.name) or len(provider.name) > _LONGEST_NAME:
            yield (
                ("name",),
                f'"{provider.name}" can\'t name an authorizer; use small letters, digits and "-"',
            )
        yield from below((kind,), authorizer_mistakes(provider.authorizer))
    if provider.tracer is not None:
        yield from below((kind,), tracer_mistakes(provider.tracer))
    if provider.logger is not None:
        yield from below((kind,), logger_mistakes(provider.logger))


def _service_mistake(service: str) -> str | None:
    """Return what is wrong with the name of a provider's service, or None."""
    namespace, slash, host = service.rpartition("/")
    if slash and not is_dns_label(namespace):
        return f'"{namespace}" in "{service}" is not a namespace; write namespace/host, or a host'
    if not is_host(host):
        return f'"{host}" is not a host name; write namespace/host, or a host'
    return None


def default_provider_mistakes(
    defaults: DefaultProviders, providers: Sequence[ExtensionProvider]
) -> Iterator[Finding]:
    """Yield the names of default providers that no provider has; paths start below the field."""
    known = {*BUILT_IN, *(each.name.lower() for each in providers)}
    for field, names in (
        ("tracing", defaults.tracing),
        ("metrics", defaults.metrics or ()),
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
        tracer = each.opentelemetry
        if tracer is not None and tracer.dynatrace_sampler is not None:
            yield (
                (index, kind, "dynatraceSampler"),
                "is not supported: requests are chosen by randomSamplingPercentage",
            )
        if tracer is not None and tracer.http is not None and tracer.grpc is not None:
            yield (index, kind, "grpc"), "has no effect beside http"
        if each.tracer is not None:
            for field in variables_in_headers(each.tracer):
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
