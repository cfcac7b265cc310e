"""Values of headers and lines of logs, with commands: `%COMMAND(arguments)%`.

Envoy refuses the whole route table or listener for a text that it can't parse. So only those
commands and arguments pass that Envoy 1.40 was seen to accept.
"""

import re
from collections.abc import Mapping

from istio_config.kinds.checks import has_control_characters
from istio_config.kinds.formats._expressions import expression_mistake

_COMMAND = re.compile(r"%([A-Z0-9_]+)(?:\((.*?)\))?(:[0-9]+)?%")

_PLAIN = frozenset(
    {
        "ACCESS_LOG_TYPE",
        "BYTES_RECEIVED",
        "BYTES_RETRANSMITTED",
        "BYTES_SENT",
        "CONNECTION_ID",
        "CONNECTION_TERMINATION_DETAILS",
        "CUSTOM_FLAGS",
        "DOWNSTREAM_DECOMPRESSED_HEADER_BYTES_RECEIVED",
        "DOWNSTREAM_DECOMPRESSED_HEADER_BYTES_SENT",
        "DOWNSTREAM_DETECTED_CLOSE_TYPE",
        "DOWNSTREAM_DIRECT_LOCAL_ADDRESS",
        "DOWNSTREAM_DIRECT_LOCAL_PORT",
        "DOWNSTREAM_DIRECT_REMOTE_ADDRESS",
        "DOWNSTREAM_DIRECT_REMOTE_PORT",
        "DOWNSTREAM_HANDSHAKE_DURATION",
        "DOWNSTREAM_HEADER_BYTES_RECEIVED",
        "DOWNSTREAM_HEADER_BYTES_SENT",
        "DOWNSTREAM_LOCAL_ADDRESS",
        "DOWNSTREAM_LOCAL_ADDRESS_ENDPOINT_ID",
        "DOWNSTREAM_LOCAL_CLOSE_REASON",
        "DOWNSTREAM_LOCAL_DNS_SAN",
        "DOWNSTREAM_LOCAL_EMAIL_SAN",
        "DOWNSTREAM_LOCAL_IP_SAN",
        "DOWNSTREAM_LOCAL_OTHERNAME_SAN",
        "DOWNSTREAM_LOCAL_PORT",
        "DOWNSTREAM_LOCAL_SUBJECT",
        "DOWNSTREAM_LOCAL_URI_SAN",
        "DOWNSTREAM_PEER_CERT",
        "DOWNSTREAM_PEER_CHAIN_FINGERPRINTS_1",
        "DOWNSTREAM_PEER_CHAIN_FINGERPRINTS_256",
        "DOWNSTREAM_PEER_CHAIN_SERIALS",
        "DOWNSTREAM_PEER_DNS_SAN",
        "DOWNSTREAM_PEER_EMAIL_SAN",
        "DOWNSTREAM_PEER_FINGERPRINT_1",
        "DOWNSTREAM_PEER_FINGERPRINT_256",
        "DOWNSTREAM_PEER_IP_SAN",
        "DOWNSTREAM_PEER_ISSUER",
        "DOWNSTREAM_PEER_OTHERNAME_SAN",
        "DOWNSTREAM_PEER_SERIAL",
        "DOWNSTREAM_PEER_SUBJECT",
        "DOWNSTREAM_PEER_URI_SAN",
        "DOWNSTREAM_REMOTE_ADDRESS",
        "DOWNSTREAM_REMOTE_PORT",
        "DOWNSTREAM_TLS_CIPHER",
        "DOWNSTREAM_TLS_SESSION_ID",
        "DOWNSTREAM_TLS_VERSION",
        "DOWNSTREAM_TRANSPORT_FAILURE_REASON",
        "DOWNSTREAM_WIRE_BYTES_RECEIVED",
        "DOWNSTREAM_WIRE_BYTES_SENT",
        "DURATION",
        "FILTER_CHAIN_NAME",
        "GRPC_STATUS_NUMBER",
        "HOSTNAME",
        "LOCAL_REPLY_BODY",
        "PACKETS_RETRANSMITTED",
        "PROTOCOL",
        "REQUEST_DURATION",
        "REQUEST_HEADERS_BYTES",
        "REQUEST_TX_DURATION",
        "RESPONSE_CODE",
        "RESPONSE_DURATION",
        "RESPONSE_FLAGS",
        "RESPONSE_FLAGS_LONG",
        "RESPONSE_HEADERS_BYTES",
        "RESPONSE_TRAILERS_BYTES",
        "RESPONSE_TX_DURATION",
        "ROUNDTRIP_DURATION",
        "ROUTE_NAME",
        "SPAN_ID",
        "STREAM_ID",
        "TLS_JA3_FINGERPRINT",
        "TLS_JA4_FINGERPRINT",
        "TRACE_ID",
        "UNIQUE_ID",
        "UPSTREAM_CLUSTER",
        "UPSTREAM_CLUSTER_RAW",
        "UPSTREAM_CONNECTION_ID",
        "UPSTREAM_CONNECTION_IDS_ATTEMPTED",
        "UPSTREAM_CONNECTION_POOL_READY_DURATION",
        "UPSTREAM_DECOMPRESSED_HEADER_BYTES_RECEIVED",
        "UPSTREAM_DECOMPRESSED_HEADER_BYTES_SENT",
        "UPSTREAM_DETECTED_CLOSE_TYPE",
        "UPSTREAM_HEADER_BYTES_RECEIVED",
        "UPSTREAM_HEADER_BYTES_SENT",
        "UPSTREAM_HOST",
        "UPSTREAM_HOSTS_ATTEMPTED",
        "UPSTREAM_HOSTS_ATTEMPTED_WITHOUT_PORT",
        "UPSTREAM_HOST_NAME",
        "UPSTREAM_HOST_NAMES_ATTEMPTED",
        "UPSTREAM_HOST_NAMES_ATTEMPTED_WITHOUT_PORT",
        "UPSTREAM_HOST_NAME_WITHOUT_PORT",
        "UPSTREAM_LOCAL_ADDRESS",
        "UPSTREAM_LOCAL_CLOSE_REASON",
        "UPSTREAM_LOCAL_DNS_SAN",
        "UPSTREAM_LOCAL_IP_SAN",
        "UPSTREAM_LOCAL_PORT",
        "UPSTREAM_LOCAL_URI_SAN",
        "UPSTREAM_PEER_CERT",
        "UPSTREAM_PEER_DNS_SAN",
        "UPSTREAM_PEER_IP_SAN",
        "UPSTREAM_PEER_ISSUER",
        "UPSTREAM_PEER_SUBJECT",
        "UPSTREAM_PEER_URI_SAN",
        "UPSTREAM_PROTOCOL",
        "UPSTREAM_REMOTE_ADDRESS",
        "UPSTREAM_REMOTE_ADDRESS_ENDPOINT_ID",
        "UPSTREAM_REMOTE_PORT",
        "UPSTREAM_REQUEST_ATTEMPT_COUNT",
        "UPSTREAM_SERVER_NAME",
        "UPSTREAM_TLS_CIPHER",
        "UPSTREAM_TLS_SESSION_ID",
        "UPSTREAM_TLS_VERSION",
        "UPSTREAM_TRANSPORT_FAILURE_REASON",
        "UPSTREAM_WIRE_BYTES_RECEIVED",
        "UPSTREAM_WIRE_BYTES_SENT",
        "VIRTUAL_CLUSTER_NAME",
    }
)
"""Commands without arguments."""

_ANY = r".*"
_HEADER = r"[^?]+(\?[^?]+)?"
_STATE = r"[^:]+(:(PLAIN|TYPED|FIELD:.+))?"
_ARGUMENTS = {
    "CLUSTER_METADATA": r".+",
    "DYNAMIC_METADATA": r".+",
    "ENVIRONMENT": r"[^:]+",
    "FILTER_STATE": _STATE,
    "PER_REQUEST_STATE": r".+",
    "QUERY_PARAM": r".+",
    "REQ": _HEADER,
    "REQUEST_HEADER": _HEADER,
    "RESP": _HEADER,
    "RESPONSE_HEADER": _HEADER,
    "TRAILER": _HEADER,
    "UPSTREAM_FILTER_STATE": _STATE,
    "UPSTREAM_METADATA": r".+",
}
"""The form of the arguments of commands that need some."""

_OPTIONAL_ARGUMENTS = {
    "DOWNSTREAM_DIRECT_LOCAL_ADDRESS_WITHOUT_PORT": r"MASK_PREFIX_LEN=[0-9]+",
    "DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT": r"MASK_PREFIX_LEN=[0-9]+",
    "DOWNSTREAM_LOCAL_ADDRESS_WITHOUT_PORT": r"MASK_PREFIX_LEN=[0-9]+",
    "DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT": r"MASK_PREFIX_LEN=[0-9]+",
    "UPSTREAM_LOCAL_ADDRESS_WITHOUT_PORT": r"MASK_PREFIX_LEN=[0-9]+",
    "UPSTREAM_REMOTE_ADDRESS_WITHOUT_PORT": r"MASK_PREFIX_LEN=[0-9]+",
    "DOWNSTREAM_PEER_CERT_V_END": _ANY,
    "DOWNSTREAM_PEER_CERT_V_START": _ANY,
    "UPSTREAM_PEER_CERT_V_END": _ANY,
    "UPSTREAM_PEER_CERT_V_START": _ANY,
    "EMIT_TIME": _ANY,
    "EMIT_TIME_LOCAL": _ANY,
    "START_TIME": _ANY,
    "START_TIME_LOCAL": _ANY,
    "GRPC_STATUS": r"CAMEL_STRING|SNAKE_STRING|NUMBER",
    "PATH": r"(WQ|NQ)(:(ORIG|PATH|ORIG_OR_PATH))?",
    "QUERY_PARAMS": r"ORIG|DECODED",
    "REQUESTED_SERVER_NAME": r"SNI_ONLY|SNI_FIRST|HOST_FIRST",
    "RESPONSE_CODE_DETAILS": _ANY,
}
"""The form of the arguments of commands that may have some."""


OF_TAGS: Mapping[str, str] = {
    "CEL": r".+",
    "METADATA": r"(CLUSTER|DYNAMIC|LISTENER|ROUTE|UPSTREAM_HOST|VIRTUAL_HOST):[^:]+(:.+)?",
}
"""The arguments of the further commands in tags of spans and in log records."""

OF_LOGS: Mapping[str, str] = {**OF_TAGS, "REQ_WITHOUT_QUERY": _HEADER}
"""The same for lines of logs; the last is an extension, which is configured where it is needed."""


def header_value_mistake(text: str) -> str | None:
    """Return what is wrong with the value of a header, or None."""
    if has_control_characters(text.replace("\t", "")):
        return "must be one line of text"
    return format_mistake(text)


def format_mistake(text: str, further: Mapping[str, str] | None = None) -> str | None:
    """Return what is wrong with a text of commands, or None.

    further: the form of the arguments of commands by extensions that are there.
    """
    at = 0
    while (at := text.find("%", at)) >= 0:
        if text.startswith("%%", at):
            at += 2
            continue
        command = _COMMAND.match(text, at)
        if command is None:
            return f'has a % at "{text[at : at + 20]}" that begins no command; write %% for a %'
        name, arguments, length = command[1], command[2], command[3]
        if (wrong := _command_mistake(name, arguments, length, further or {})) is not None:
            return wrong
        at = command.end()
    return None


def _command_mistake(
    name: str, arguments: str | None, length: str | None, further: Mapping[str, str]
) -> str | None:
    if name in _PLAIN:
        return f"has %{name}%, which takes no argument" if arguments or length else None
    needed = _ARGUMENTS.get(name) or further.get(name)
    form = needed or _OPTIONAL_ARGUMENTS.get(name)
    if form is None:
        return f"has %{name}%, which is none of Envoy's commands; write %% for a %"
    if arguments is None:
        return f"has %{name}%, which needs its argument in brackets" if needed else None
    if not re.fullmatch(form, arguments):
        return f'has %{name}({arguments})%, which does not take "{arguments}"'
    if name == "CEL" and (wrong := expression_mistake(arguments)) is not None:
        return f"has %CEL({arguments})%, which Envoy would refuse: it {wrong}"
    return None
