"""Where proxies write their access logs: files, and services that take them by gRPC."""

import msgspec

from istio_config.kinds.fields import PortNumber, SpecFields, Text, Unchecked


class LogFormat(SpecFields, frozen=True):
    """The content of a line of a file: text, or JSON of labels."""

    text: str | None = None
    labels: dict[str, Unchecked] | None = None


class FileLog(SpecFields, frozen=True):
    """A file of the proxy's own."""

    path: str = ""
    """Empty: /dev/stdout."""
    log_format: LogFormat | None = None
    omit_empty_values: bool = False
    """Whether a part that there is nothing to say of is left out."""


class HttpLogService(SpecFields, frozen=True):
    """A service that takes logs of requests by Envoy's API."""

    service: Text
    port: PortNumber
    log_name: str = ""
    filter_state_objects_to_log: tuple[str, ...] = ()
    additional_request_headers_to_log: tuple[str, ...] = ()
    additional_response_headers_to_log: tuple[str, ...] = ()
    additional_response_trailers_to_log: tuple[str, ...] = ()


class TcpLogService(SpecFields, frozen=True):
    """A service that takes logs of connections by Envoy's API."""

    service: Text
    port: PortNumber
    log_name: str = ""
    filter_state_objects_to_log: tuple[str, ...] = ()


class OtelLogFormat(SpecFields, frozen=True):
    """The content of a log record: a text, and attributes."""

    text: str = ""
    labels: dict[str, Unchecked] = msgspec.field(default_factory=dict)


class OtelLogService(SpecFields, frozen=True):
    """A service that takes logs by OpenTelemetry's API."""

    service: Text
    port: PortNumber
    log_name: str = ""
    log_format: OtelLogFormat | None = None
