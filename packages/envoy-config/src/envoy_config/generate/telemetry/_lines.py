"""Lines of access logs: Istio's default formats, and those that users give."""

import json

from envoy.config.core.v3 import extension_pb2
from envoy.extensions.formatter.req_without_query.v3 import req_without_query_pb2

from envoy_config.generate._messages import (
    base_pb2,
    packed,
    struct_pb2,
    substitution_format_string_pb2,
)
from envoy_config.plan.resolved._telemetry import JsonLine, TextLine

_FIELDS = {
    "start_time": "%START_TIME%",
    "method": "%REQ(:METHOD)%",
    "path": "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%",
    "protocol": "%PROTOCOL%",
    "response_code": "%RESPONSE_CODE%",
    "response_flags": "%RESPONSE_FLAGS%",
    "response_code_details": "%RESPONSE_CODE_DETAILS%",
    "connection_termination_details": "%CONNECTION_TERMINATION_DETAILS%",
    "upstream_transport_failure_reason": "%UPSTREAM_TRANSPORT_FAILURE_REASON%",
    "bytes_received": "%BYTES_RECEIVED%",
    "bytes_sent": "%BYTES_SENT%",
    "duration": "%DURATION%",
    "upstream_service_time": "%RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)%",
    "x_forwarded_for": "%REQ(X-FORWARDED-FOR)%",
    "user_agent": "%REQ(USER-AGENT)%",
    "request_id": "%REQ(X-REQUEST-ID)%",
    "authority": "%REQ(:AUTHORITY)%",
    "upstream_host": "%UPSTREAM_HOST%",
    "upstream_cluster": "%UPSTREAM_CLUSTER_RAW%",
    "upstream_local_address": "%UPSTREAM_LOCAL_ADDRESS%",
    "downstream_local_address": "%DOWNSTREAM_LOCAL_ADDRESS%",
    "downstream_remote_address": "%DOWNSTREAM_REMOTE_ADDRESS%",
    "requested_server_name": "%REQUESTED_SERVER_NAME%",
    "route_name": "%ROUTE_NAME%",
}
"""The fields of Istio's logs, in their order; the lines of text have the same."""

_OF_CALLERS = {"downstream_peer_uri_san": "%DOWNSTREAM_PEER_URI_SAN%"}
"""A field that lines of JSON have besides: the identity of the caller."""

_QUOTED = frozenset(
    {
        "upstream_transport_failure_reason",
        "x_forwarded_for",
        "user_agent",
        "request_id",
        "authority",
        "upstream_host",
    }
)
_REQUEST_LINE = ("method", "path", "protocol")


def _default_text() -> str:
    parts = [f"[{_FIELDS['start_time']}]"]
    parts.append('"' + " ".join(_FIELDS[each] for each in _REQUEST_LINE) + '"')
    for name, value in _FIELDS.items():
        if name not in ("start_time", *_REQUEST_LINE):
            parts.append(f'"{value}"' if name in _QUOTED else value)
    return " ".join(parts) + "\n"


DEFAULT_TEXT = _default_text()
"""Istio's default line."""

_Format = substitution_format_string_pb2.SubstitutionFormatString


def line_format(line: TextLine | JsonLine, *, omits_empty: bool = False) -> _Format:
    """Make the format of a line."""
    format_string = _Format(omit_empty_values=omits_empty)
    if isinstance(line, JsonLine):
        fields = json.loads(line.fields) if line.fields else _FIELDS | _OF_CALLERS
        format_string.json_format.CopyFrom(struct_pb2.Struct())
        format_string.json_format.update(fields)
        text = line.fields
    else:
        text = line.text or DEFAULT_TEXT
        if not text.endswith("\n"):
            text += "\n"
        format_string.text_format_source.CopyFrom(base_pb2.DataSource(inline_string=text))
    if "%REQ_WITHOUT_QUERY(" in text:
        format_string.formatters.append(
            extension_pb2.TypedExtensionConfig(
                name="envoy.formatter.req_without_query",
                typed_config=packed(req_without_query_pb2.ReqWithoutQuery()),
            )
        )
    return format_string
