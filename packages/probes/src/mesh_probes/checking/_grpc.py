"""The gRPC health check, by HTTP/2 and two messages of one field each.

grpcio can't connect from a given source address. Sources:
https://github.com/grpc/grpc/blob/master/doc/health-checking.md and PROTOCOL-HTTP2.md beside it.
"""

from collections.abc import Iterator
from urllib.parse import unquote

from mesh_probes._errors import CheckFailed
from mesh_probes._outcome import quoted
from mesh_probes.checking._connection import Connection
from mesh_probes.checking._http2 import exchange_http2

_PATH = b"/grpc.health.v1.Health/Check"
_SERVING = 1
_SERVING_STATUS = {0: "UNKNOWN", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}
_EXPLAINED = {
    b"5": "NOT_FOUND, the server does not know this service",
    b"12": "UNIMPLEMENTED, the server has no health service",
}
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_TOO_SHORT = "the response is no HealthCheckResponse"


async def check_grpc(
    connection: Connection, *, authority: str, service: str, timeout_s: float
) -> None:
    """Return if the service is SERVING; else raises `CheckFailed`."""
    headers = [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":authority", authority.encode()),
        (b":path", _PATH),
        (b"te", b"trailers"),
        (b"content-type", b"application/grpc"),
        (b"user-agent", b"istio-probe/1.0"),
        (b"grpc-timeout", _timeout(timeout_s)),
    ]
    message = encode_request(service)
    exchange = await exchange_http2(
        connection, headers, b"\0" + len(message).to_bytes(4, "big") + message
    )
    if exchange.status != 200:
        raise CheckFailed(f"HTTP status {exchange.status}, this is no gRPC server")
    code = exchange.headers.get(b"grpc-status", b"")
    if code != b"0":
        detail = exchange.headers.get(b"grpc-message", b"").decode("latin-1")
        name = _EXPLAINED.get(code, quoted(code))
        raise CheckFailed(
            f"gRPC status {name}" + (f": {quoted(unquote(detail))}" if detail else "")
        )
    status = decode_response(_unframed(bytes(exchange.body)))
    if status != _SERVING:
        raise CheckFailed(f"the service is {_SERVING_STATUS.get(status, str(status))}")


def _timeout(seconds: float) -> bytes:
    """Return a timeout as gRPC spells it: at most 8 digits and a unit."""
    milliseconds = max(1, round(seconds * 1000))
    if milliseconds < 10**8:
        return b"%dm" % milliseconds
    return b"%dS" % min(round(seconds), 10**8 - 1)


def encode_request(service: str) -> bytes:
    """Return a HealthCheckRequest: `string service = 1`."""
    text = service.encode()
    return b"\x0a" + _encoded_varint(len(text)) + text if text else b""


def decode_response(message: bytes) -> int:
    """Return the `ServingStatus status = 1` of a HealthCheckResponse; raises `CheckFailed`."""
    status = 0
    for number, value in _fields(message):
        if number == 1:
            status = value
    return status


def _unframed(body: bytes) -> bytes:
    size = int.from_bytes(body[1:5], "big")
    if len(body) < 5 or body[0] != 0 or len(body) != 5 + size:
        raise CheckFailed(_TOO_SHORT)
    return body[5:]


def _fields(message: bytes) -> Iterator[tuple[int, int]]:
    """Yield number and value of each field that is a varint; others are skipped."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, wire_type = tag >> 3, tag & 7
        value, after = _varint(message, at) if wire_type in (_VARINT, _LENGTH) else (0, at)
        match wire_type:
            case 0:
                at = after
                yield number, value
            case 2:
                at = after + value
            case 1:
                at += 8
            case 5:
                at += 4
            case _:
                raise CheckFailed(_TOO_SHORT)
    if at > len(message):
        raise CheckFailed(_TOO_SHORT)


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            break
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise CheckFailed(_TOO_SHORT)


def _encoded_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
