"""Mistakes in access loggers: Envoy refuses each listener with a format that it can't read."""

from collections.abc import Iterator, Mapping
from typing import assert_never

from istio_config.kinds.checks import is_header_name
from istio_config.kinds.fields import Unchecked
from istio_config.kinds.formats import OF_LOGS, OF_TAGS, format_mistake
from istio_config.kinds.mesh_config.providers._loggers import (
    FileLog,
    HttpLogService,
    LogFormat,
    OtelLogService,
    TcpLogService,
)
from istio_config.kinds.mesh_config.providers._provider import Logger
from mesh_configfile import FieldPath
from mesh_configfile.shapes import Finding


def logger_mistakes(logger: Logger) -> Iterator[Finding]:
    """Yield what is wrong with an access logger."""
    match logger:
        case FileLog():
            if logger.log_format is not None:
                yield from _format(logger.log_format)
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
                yield from label_mistakes(
                    log_format.labels, ("logFormat", "labels"), further=OF_TAGS
                )
        case _:
            assert_never(logger)


def label_mistakes(
    value: Unchecked, path: FieldPath, *, further: Mapping[str, str] = OF_LOGS
) -> Iterator[Finding]:
    """Yield what is wrong with the texts of a log in JSON, however deep they are in it."""
    if isinstance(value, str):
        if (wrong := format_mistake(value, further)) is not None:
            yield path, wrong
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from label_mistakes(inner, (*path, str(key)), further=further)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from label_mistakes(inner, (*path, index), further=further)


def _format(given: LogFormat) -> Iterator[Finding]:
    if given.text is not None and given.labels is not None:
        yield ("logFormat",), "has text and labels: keep one"
    if given.text is not None and (wrong := format_mistake(given.text, OF_LOGS)) is not None:
        yield ("logFormat", "text"), wrong
    if given.labels is not None:
        yield from label_mistakes(given.labels, ("logFormat", "labels"))
