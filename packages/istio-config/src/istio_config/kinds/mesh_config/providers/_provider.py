"""Extension providers: each a name, and one service or file; Istio's API, mesh/v1alpha1."""

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from istio_config.kinds.fields import PortNumber, SpecFields, Text, Unchecked
from istio_config.kinds.mesh_config.providers._authorizers import GrpcAuthorizer, HttpAuthorizer
from istio_config.kinds.mesh_config.providers._loggers import (
    FileLog,
    HttpLogService,
    OtelLogService,
    TcpLogService,
)
from istio_config.kinds.mesh_config.providers._tracers import (
    Datadog,
    Given,
    Lightstep,
    OpenCensus,
    OpenTelemetry,
    SkyWalking,
    Zipkin,
)

Authorizer: TypeAlias = HttpAuthorizer | GrpcAuthorizer
Tracer: TypeAlias = Zipkin | Datadog | SkyWalking | OpenTelemetry
Logger: TypeAlias = FileLog | HttpLogService | TcpLogService | OtelLogService


class StackdriverLogging(SpecFields, frozen=True):
    """Further parts of what Stackdriver is told."""

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
    """A service that hands certificates out; agents ask their own."""

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
        """The fields that say what it is, by their names in YAML: one, if it is right."""
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
        """Whether only Istio's own Envoy, or an older one, can do anything with it."""
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
    metrics: tuple[str, ...] = ()
    access_logging: tuple[str, ...] = ()


BUILT_IN = ("prometheus", "stackdriver", "envoy")
"""The names of Istio's own providers; `envoy` writes the mesh's access log to standard output."""
