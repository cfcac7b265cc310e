"""Where proxies write their access logs: files, and services that take them by gRPC.

Envoy refuses a listener with a format that it can't parse.

Source: Istio's API, mesh/v1alpha1.
"""

from collections.abc import Iterator, Mapping
from typing import TypeAlias, assert_never

import msgspec

from istio_config.kinds.checks import is_header_name
from istio_config.kinds.fields import PortNumber, SpecFields, Text, Unchecked
from istio_config.kinds.formats import OF_LOGS, OF_TAGS, format_mistake
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding


class LogFormat(SpecFields, frozen=True):
    """The content of a line of a file: text, or JSON of labels."""

    text: str | None = None
    labels: dict[str, Unchecked] | None = None


class FileLog(SpecFields, frozen=True):
    """A file on the machine of the proxy."""

    path: str = ""
    """Empty means /dev/stdout."""
    log_format: LogFormat | None = None
    omit_empty_values: bool = False
    """Whether a label is left out where Envoy has no value for it."""


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


Logger: TypeAlias = FileLog | HttpLogService | TcpLogService | OtelLogService


def logger_mistakes(logger: Logger) -> Iterator[Finding]:
    """Yield what is wrong with an access logger."""
    match logger:
        case FileLog():
            if logger.log_format is not None:
                yield from _format_mistakes(logger.log_format)
        case HttpLogService():
            for field, names in (
                ("additionalRequestHeadersToLog", logger.additional_request_headers_to_log),
                ("additionalResponseHeadersToLog", logger.additional_response_headers_to_log),
                ("additionalResponseTrailersToLog", logger.additional_response_trailers_to_log),
            ):
                for index, name in enumerate(names):
                    if not is_header_name(name.removeprefix(":")):
                        yield (field, index), f'"{name}" is not the name of a header'
        case TcpLogService():
            pass
        case OtelLogService(log_format=log_format):
            if log_format is not None:
                if (wrong := format_mistake(log_format.text, OF_TAGS)) is not None:
                    yield ("logFormat", "text"), wrong
                yield from log_label_mistakes(
                    log_format.labels, ("logFormat", "labels"), further=OF_TAGS
                )
        case _:
            assert_never(logger)


def log_label_mistakes(
    value: Unchecked, path: FieldPath, *, further: Mapping[str, str] = OF_LOGS
) -> Iterator[Finding]:
    """Yield what is wrong with the texts in a JSON log, at any depth."""
    if isinstance(value, str):
        if (wrong := format_mistake(value, further)) is not None:
            yield path, wrong
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from log_label_mistakes(inner, (*path, str(key)), further=further)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from log_label_mistakes(inner, (*path, index), further=further)


def _format_mistakes(given: LogFormat) -> Iterator[Finding]:
    if given.text is not None and given.labels is not None:
        yield ("logFormat",), "has text and labels: keep one"
    if given.text is not None and (wrong := format_mistake(given.text, OF_LOGS)) is not None:
        yield ("logFormat", "text"), wrong
    if given.labels is not None:
        yield from log_label_mistakes(given.labels, ("logFormat", "labels"))
