"""Values of headers, as Envoy takes them: it refuses a whole resource with a wrong one.

The commands of values are those of Envoy 1.36 and newer, tried with its `--mode validate`.
"""

import re

from mesh_discovery.config.kinds._checks import has_control_characters

_COMMAND = re.compile(r"%(?:%|([A-Z0-9_]+)(\([^)]*\))?(:[0-9]+)?%)")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_WITH_ARGUMENT = _words(
    "CEL CLUSTER_METADATA COMMON_DURATION DYNAMIC_METADATA ENVIRONMENT FILTER_STATE METADATA "
    "PER_REQUEST_STATE QUERY_PARAM REQ RESP TRAILER UPSTREAM_FILTER_STATE UPSTREAM_METADATA"
)
_EITHER_WAY = _words(
    "DOWNSTREAM_PEER_CERT_V_END DOWNSTREAM_PEER_CERT_V_START EMIT_TIME PATH QUERY_PARAMS "
    "REQUESTED_SERVER_NAME START_TIME UPSTREAM_PEER_CERT_V_END UPSTREAM_PEER_CERT_V_START"
)
_OF_BOTH_ENDS = _words(
    "LOCAL_ADDRESS LOCAL_ADDRESS_WITHOUT_PORT LOCAL_PORT REMOTE_ADDRESS "
    "REMOTE_ADDRESS_WITHOUT_PORT REMOTE_PORT TLS_CIPHER TLS_VERSION TLS_SESSION_ID PEER_ISSUER "
    "PEER_CERT PEER_SUBJECT PEER_URI_SAN PEER_DNS_SAN LOCAL_URI_SAN LOCAL_DNS_SAN "
    "TRANSPORT_FAILURE_REASON WIRE_BYTES_SENT WIRE_BYTES_RECEIVED HEADER_BYTES_SENT "
    "HEADER_BYTES_RECEIVED DETECTED_CLOSE_TYPE"
)
_PLAIN = _words(
    "ACCESS_LOG_TYPE BYTES_RECEIVED BYTES_SENT CONNECTION_ID CONNECTION_TERMINATION_DETAILS "
    "CUSTOM_FLAGS DOWNSTREAM_DIRECT_LOCAL_ADDRESS DOWNSTREAM_DIRECT_REMOTE_ADDRESS "
    "DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT DOWNSTREAM_DIRECT_REMOTE_PORT "
    "DOWNSTREAM_HANDSHAKE_DURATION DOWNSTREAM_LOCAL_SUBJECT "
    "DOWNSTREAM_PEER_CHAIN_FINGERPRINTS_256 DOWNSTREAM_PEER_CHAIN_SERIALS "
    "DOWNSTREAM_PEER_FINGERPRINT_1 DOWNSTREAM_PEER_FINGERPRINT_256 DOWNSTREAM_PEER_SERIAL "
    "DURATION FILTER_CHAIN_NAME GRPC_STATUS GRPC_STATUS_NUMBER HOSTNAME LOCAL_REPLY_BODY "
    "PROTOCOL REQUEST_DURATION REQUEST_HEADERS_BYTES REQUEST_TX_DURATION RESPONSE_CODE "
    "RESPONSE_CODE_DETAILS RESPONSE_DURATION RESPONSE_FLAGS RESPONSE_FLAGS_LONG "
    "RESPONSE_HEADERS_BYTES RESPONSE_TRAILERS_BYTES RESPONSE_TX_DURATION ROUTE_NAME SPAN_ID "
    "STREAM_ID TLS_JA3_FINGERPRINT TLS_JA4_FINGERPRINT TRACE_ID UNIQUE_ID UPSTREAM_CLUSTER "
    "UPSTREAM_CLUSTER_RAW UPSTREAM_CONNECTION_ID UPSTREAM_CONNECTION_POOL_READY_DURATION "
    "UPSTREAM_HOST UPSTREAM_HOST_NAME UPSTREAM_HOST_NAME_WITHOUT_PORT UPSTREAM_PROTOCOL "
    "UPSTREAM_REQUEST_ATTEMPT_COUNT VIRTUAL_CLUSTER_NAME"
).union(f"{end}_{each}" for end in ("UPSTREAM", "DOWNSTREAM") for each in _OF_BOTH_ENDS)


def header_value_mistake(value: str) -> str | None:
    """Return what is wrong with a value that is set, or None.

    A `%` begins one of Envoy's commands, such as %REQ(x-id)%.
    """
    if has_control_characters(value.replace("\t", "")):
        return "must be one line of text"
    at = value.find("%")
    while at >= 0:
        command = _COMMAND.match(value, at)
        if command is None:
            return f'has a % at "{value[at : at + 20]}" that begins no command; write %% for a %'
        if command[1] and (reason := _wrong_command(command[1], command[2])):
            return f"has %{command[1]}%, which {reason}"
        at = value.find("%", command.end())
    return None


def _wrong_command(name: str, argument: str | None) -> str | None:
    if name in _WITH_ARGUMENT:
        return None if argument and argument != "()" else "needs its argument in brackets"
    if name in _EITHER_WAY:
        return None
    if name in _PLAIN:
        return "takes no argument" if argument and argument != "()" else None
    return "is none of Envoy's commands; write %% for a %"
