"""The tags of Istio's metrics, as formats of access logs, and the values that filters find first.

About its own workload a proxy asks its own node, so that proxies of all workloads share listeners:
once a connection, as evaluating an expression costs more than a request's whole log line. About the
workload that it calls it has the control plane's word, in metadata of clusters and endpoints. About
its caller it believes the certificate alone: what a request says could be another thing each time,
and each would be a series for as long as Envoy lives.
"""

import json
from collections.abc import Iterator, Mapping

from envoy_config.plan._workload_metadata import METRICS_KEY as _METADATA
from envoy_config.plan._workload_metadata import NAME_LABELS, REVISION_LABELS

UNKNOWN = "unknown"
_PLAINTEXT = "none"
_NODE = "xds.node.metadata"
_LONGEST = 253
"""Of a name of Kubernetes; a certificate may have a longer one."""
_LONGEST_PRINCIPAL = 512
_PRINCIPAL = "connection.uri_san_peer_certificate"
_PARTS = "^spiffe://[^/]+/ns/([^/]+)/sa/([^/]+)$"


def values_of_connection() -> Iterator[tuple[str, str]]:
    """Yield what is found out once a connection, by key, with formats: the proxy's own workload."""
    for part, text in _own_workload():
        yield f"{_METADATA}.own_{part}", f"%CEL({text})%"
    for constant in (UNKNOWN, _PLAINTEXT):
        yield f"{_METADATA}.{constant}", constant


def values_of_handshake() -> Iterator[tuple[str, str]]:
    """Yield what is found out of a caller once it has shown its certificate.

    Once a connection: taking a principal apart takes as long as all else that a request does.
    """
    for name, text in _caller():
        yield f"{_METADATA}.{name}", f"%CEL({text})%"


def values_of_request() -> Iterator[tuple[str, str]]:
    """Yield what is found out of each request, by key, with formats."""
    content_type = "request.headers['content-type']"
    is_grpc = f"'content-type' in request.headers && {content_type}.startsWith('application/grpc')"
    yield f"{_METADATA}.protocol", f"%CEL({is_grpc} ? 'grpc' : 'http')%"


def request_tags(*, inbound: bool) -> Mapping[str, str]:
    """Return the usual tags of metrics of requests, by name; inbound: of those to the workload."""
    return dict(_request_tags(inbound=inbound))


def connection_tags(*, inbound: bool) -> Mapping[str, str]:
    """Return the usual tags of metrics of connections that are not looked into."""
    return dict(_connection_tags(inbound=inbound))


def _own_workload() -> Iterator[tuple[str, str]]:
    """Yield the parts of a proxy's own workload, each with the expression for it."""
    name = _first(("WORKLOAD_NAME",), f"'{UNKNOWN}'", of=_NODE)
    yield "workload", name
    yield "workload_namespace", _first(("NAMESPACE",), f"'{UNKNOWN}'", of=_NODE)
    yield "cluster", _first(("CLUSTER_ID",), f"'{UNKNOWN}'", of=_NODE)
    yield "canonical_service", _first_label(NAME_LABELS, name)
    yield "canonical_revision", _first_label(REVISION_LABELS, "'latest'")
    yield "app", _first_label(("app",), f"'{UNKNOWN}'")
    yield "version", _first_label(("version",), f"'{UNKNOWN}'")


def _first_label(keys: tuple[str, ...], default: str) -> str:
    labels = f"{_NODE}['LABELS']"
    return f"'LABELS' in {_NODE} ? ({_first(keys, default, of=labels)}) : ({default})"


def _first(keys: tuple[str, ...], default: str, *, of: str) -> str:
    """Return the expression for the first of some keys that a map has."""
    text = default
    for key in reversed(keys):
        text = f"'{key}' in {of} ? {of}['{key}'] : ({text})"
    return text


def _caller() -> Iterator[tuple[str, str]]:
    """Yield what is known of a caller by its certificate, with the expressions."""
    is_known = f"connection.mtls && {_PRINCIPAL}.matches('{_PARTS}')"
    yield "principal", f"connection.mtls ? {_PRINCIPAL} : '{UNKNOWN}'"
    for name, group in (("namespace", 1), ("account", 2)):
        part = f"re.extract({_PRINCIPAL}, '{_PARTS}', '\\\\{group}')"
        yield name, f"{is_known} ? {part} : '{UNKNOWN}'"
    yield "policy", f"connection.mtls ? 'mutual_tls' : '{_PLAINTEXT}'"


def _kept(key: str) -> str:
    """Return the format of a value that a filter has found."""
    return f"%{_state(key)}%"


def _state(key: str) -> str:
    return f"FILTER_STATE({_METADATA}.{key}:PLAIN)"


def _either(*commands: str, default: str = UNKNOWN, longest: int | None = None) -> str:
    """Return the format of the first command that has a value, or of a constant.

    longest: so much of the value is taken.
    """
    operators: list[dict[str, str | int]] = []
    for each in (*commands, _state(default)):
        command, _, parameter = each.removesuffix(")").partition("(")
        operators.append({"command": command, "param": parameter})
        if not parameter:
            del operators[-1]["param"]
    if longest is not None:
        operators[0]["max_length"] = longest
    return f"%COALESCE({json.dumps({'operators': operators})})%"


_PARTS_OF_WORKLOAD = tuple(name for name, _ in _own_workload())


def _of_own(side: str) -> Iterator[tuple[str, str]]:
    for part in _PARTS_OF_WORKLOAD:
        yield f"{side}_{part}", _kept(f"own_{part}")


def _of_endpoint() -> Iterator[tuple[str, str]]:
    """Yield the tags of the workload that is called, by the metadata of its endpoint."""

    def first(*keys: str) -> str:
        return _either(*(f"UPSTREAM_METADATA({_METADATA}:{each})" for each in keys))

    yield "destination_workload", first("workload")
    yield (
        "destination_workload_namespace",
        _either(
            f"UPSTREAM_METADATA({_METADATA}:namespace)", f"CLUSTER_METADATA({_METADATA}:namespace)"
        ),
    )
    yield "destination_cluster", first("cluster")
    yield "destination_canonical_service", first("service")
    yield "destination_canonical_revision", first("revision")
    yield "destination_app", first("app", "service")
    yield "destination_version", first("version", "revision")
    yield "destination_principal", first("principal")


def _of_service() -> Iterator[tuple[str, str]]:
    for tag, key in (
        ("destination_service", "host"),
        ("destination_service_name", "name"),
        ("destination_service_namespace", "namespace"),
    ):
        yield tag, _either(f"CLUSTER_METADATA({_METADATA}:{key})")


def _of_caller() -> Iterator[tuple[str, str]]:
    """Yield the tags of a caller, by its certificate; in plaintext it has none."""
    yield "source_principal", _either(_state("principal"), longest=_LONGEST_PRINCIPAL)
    yield "source_workload_namespace", _either(_state("namespace"), longest=_LONGEST)
    # A certificate names an account, and no workload.
    for tag in ("source_workload", "source_canonical_service", "source_app"):
        yield tag, _either(_state("account"), longest=_LONGEST)
    for tag in ("source_canonical_revision", "source_version", "source_cluster"):
        yield tag, UNKNOWN
    yield "connection_security_policy", _either(_state("policy"), default=_PLAINTEXT)


def _of_called() -> Iterator[tuple[str, str]]:
    yield from _of_own("source")
    yield "source_principal", _either("UPSTREAM_LOCAL_URI_SAN")
    yield from _of_endpoint()
    # As in Istio: that is for the server to say.
    yield "connection_security_policy", UNKNOWN


def _of_workload() -> Iterator[tuple[str, str]]:
    yield from _of_own("destination")
    yield "destination_principal", _either("DOWNSTREAM_LOCAL_URI_SAN")


def _request_tags(*, inbound: bool) -> Iterator[tuple[str, str]]:
    yield "reporter", "destination" if inbound else "source"
    if inbound:
        yield from _of_caller()
        yield from _of_workload()
    else:
        yield from _of_called()
    yield from _of_service()
    yield "request_protocol", _kept("protocol")
    yield "response_code", "%RESPONSE_CODE%"
    yield "response_flags", "%RESPONSE_FLAGS%"
    yield "grpc_response_status", "%GRPC_STATUS_NUMBER%"


def _connection_tags(*, inbound: bool) -> Iterator[tuple[str, str]]:
    yield "reporter", "destination" if inbound else "source"
    if inbound:
        yield from _of_caller()
        yield from _of_workload()
    else:
        yield from _of_called()
    yield from _of_service()
    yield "request_protocol", "tcp"
    yield "response_flags", "%RESPONSE_FLAGS%"
