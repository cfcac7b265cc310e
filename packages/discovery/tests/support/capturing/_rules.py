"""Rules of the kernel that lead a workload's connections to its proxy, as Istio's do.

They are given to nftables over netlink, since tests can't count on its command being installed. The
proxy is known by its group. TPROXY leads connections as they are to the proxy of the workload that
they come to; the workload's own calls are redirected in both modes.
"""

import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count

PROXY_GROUP = 1337
MARK = 1337
OUTBOUND, INBOUND = 15001, 15006
NOT_INBOUND = (15020, 15021, 15090)
"""Ports of the proxy that are reached without it being looked at."""

_NETFILTER, _SUBSYSTEM = 12, 10
_BATCH_BEGIN, _BATCH_END = 0x10, 0x11
_NEW_TABLE, _NEW_CHAIN, _NEW_RULE = 0, 3, 6
_REQUEST, _ACK, _CREATE, _APPEND = 0x1, 0x4, 0x400, 0x800
_INET = 1
_NESTED = 0x8000
_PREROUTING, _OUTPUT = 0, 3
_ERROR = 2
_LOOPBACK_INDEX = 1


def _attribute(kind: int, value: bytes) -> bytes:
    padding = b"\0" * (-len(value) % 4)
    return struct.pack("=HH", 4 + len(value), kind) + value + padding


def _nested(kind: int, *attributes: bytes) -> bytes:
    return _attribute(kind | _NESTED, b"".join(attributes))


def _number(kind: int, value: int) -> bytes:
    return _attribute(kind, struct.pack("!I", value & 0xFFFFFFFF))


def _text(kind: int, value: str) -> bytes:
    return _attribute(kind, value.encode() + b"\0")


def _expression(name: str, *attributes: bytes) -> bytes:
    return _nested(1, _text(1, name), _nested(2, *attributes))


_NFPROTO, _L4, _IIF, _OIF, _GROUP, _MARK = 15, 16, 4, 5, 11, 3


def _meta(key: int) -> bytes:
    return _expression("meta", _number(1, 1), _number(2, key))


def _compared(value: bytes, *, equal: bool = True) -> bytes:
    operator = 0 if equal else 1
    return _expression("cmp", _number(1, 1), _number(2, operator), _nested(3, _attribute(1, value)))


def _host_order(value: int) -> bytes:
    return struct.pack("=I", value)


def is_tcp() -> bytes:
    return _meta(_L4) + _compared(bytes([socket.IPPROTO_TCP]))


def to_port(port: int) -> bytes:
    payload = _expression("payload", _number(1, 1), _number(2, 2), _number(3, 2), _number(4, 2))
    return payload + _compared(struct.pack("!H", port))


def _address(text: str, *, source: bool, equal: bool) -> bytes:
    six = ":" in text
    raw = socket.inet_pton(socket.AF_INET6 if six else socket.AF_INET, text)
    offset = (8 if source else 24) if six else (12 if source else 16)
    proto = _meta(_NFPROTO) + _compared(bytes([10 if six else 2]))
    payload = _expression(
        "payload", _number(1, 1), _number(2, 1), _number(3, offset), _number(4, len(raw))
    )
    return proto + payload + _compared(raw, equal=equal)


def from_address(text: str) -> bytes:
    return _address(text, source=True, equal=True)


def to_address(text: str, *, equal: bool = True) -> bytes:
    return _address(text, source=False, equal=equal)


def over_loopback() -> bytes:
    return _meta(_OIF) + _compared(_host_order(_LOOPBACK_INDEX))


def from_loopback() -> bytes:
    return _meta(_IIF) + _compared(_host_order(_LOOPBACK_INDEX))


def of_proxy(*, equal: bool = True) -> bytes:
    return _meta(_GROUP) + _compared(_host_order(PROXY_GROUP), equal=equal)


def is_marked() -> bytes:
    return _meta(_MARK) + _compared(_host_order(MARK))


def of_marked_connection() -> bytes:
    load = _expression("ct", _number(1, 1), _number(2, 3))
    return load + _compared(_host_order(MARK))


def _load(value: bytes) -> bytes:
    return _expression("immediate", _number(1, 1), _nested(2, _attribute(1, value)))


def redirected(port: int) -> bytes:
    return _load(struct.pack("!H", port)) + _expression("redir", _number(1, 1))


def proxied(port: int, family: int) -> bytes:
    return _load(struct.pack("!H", port)) + _expression("tproxy", _number(1, family), _number(3, 1))


def marked() -> bytes:
    return _load(_host_order(MARK)) + _expression("meta", _number(3, 1), _number(2, _MARK))


def connection_marked() -> bytes:
    return _load(_host_order(MARK)) + _expression("ct", _number(4, 1), _number(2, 3))


def on_known_socket() -> bytes:
    """Match packets of a connection that the proxy has accepted."""
    load = _expression("socket", _number(1, 0), _number(2, 1))
    return load + _compared(b"\x01")


def left_alone() -> bytes:
    return _verdict(-5)


def accepted() -> bytes:
    return _verdict(1)


def _verdict(code: int) -> bytes:
    return _expression("immediate", _number(1, 0), _nested(2, _nested(2, _number(1, code))))


@dataclass
class Ruleset:
    """One table of chains and rules, applied as a whole."""

    table: str = "capture"
    _messages: list[tuple[int, int, bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._messages.append((_NEW_TABLE, _CREATE, _text(1, self.table)))

    def chain(self, name: str, *, hook: int, priority: int, kind: str) -> None:
        body = (
            _text(1, self.table)
            + _text(3, name)
            + _nested(4, _number(1, hook), _number(2, priority))
            + _text(7, kind)
        )
        self._messages.append((_NEW_CHAIN, _CREATE, body))

    def rule(self, chain: str, *expressions: bytes) -> None:
        body = _text(1, self.table) + _text(2, chain) + _nested(4, *expressions)
        self._messages.append((_NEW_RULE, _CREATE | _APPEND, body))

    def apply(self) -> None:
        """Give all to the kernel, in the network namespace of the thread."""
        numbers = count(1)
        parts = [_message(_BATCH_BEGIN, _REQUEST, next(numbers), _header(0, _SUBSYSTEM))]
        acks = 0
        for kind, flags, body in self._messages:
            whole = (_SUBSYSTEM << 8) | kind, flags | _REQUEST | _ACK
            parts.append(_message(*whole, next(numbers), _header(_INET, 0) + body))
            acks += 1
        parts.append(_message(_BATCH_END, _REQUEST, next(numbers), _header(0, _SUBSYSTEM)))
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETFILTER) as netlink:
            netlink.settimeout(10)
            netlink.bind((0, 0))
            netlink.sendto(b"".join(parts), (0, 0))
            while acks:
                for number, error in _answers(netlink.recv(1 << 16)):
                    if error:
                        raise OSError(-error, f"the kernel refused message {number} of the rules")
                    acks -= 1


def _header(family: int, extra: int) -> bytes:
    return struct.pack("!BBH", family, 0, extra)


def _message(kind: int, flags: int, number: int, body: bytes) -> bytes:
    return struct.pack("=IHHII", 16 + len(body), kind, flags, number, 0) + body


def _answers(data: bytes) -> Iterable[tuple[int, int]]:
    while len(data) >= 16:
        length, kind, _, number, _ = struct.unpack_from("=IHHII", data)
        if kind == _ERROR:
            yield number, struct.unpack_from("=i", data, 16)[0]
        data = data[(length + 3) & ~3 :]


_DNAT_PRIORITY, _MANGLE_PRIORITY = -100, -150


def capture(*, tproxy: bool, inbound: bool = True) -> Ruleset:
    """Return the rules of a mode."""
    rules = Ruleset()
    rules.chain("output", hook=_OUTPUT, priority=_DNAT_PRIORITY, kind="nat")
    # From the proxy to its workload, with the client's address.
    rules.rule("output", is_tcp(), is_marked(), left_alone())
    for source in ("127.0.0.6", "::6"):
        rules.rule("output", is_tcp(), over_loopback(), from_address(source), left_alone())
    for loopback in ("127.0.0.1", "::1"):
        # The proxy calls its own workload by its address: that comes in like a call of others.
        rules.rule(
            "output",
            is_tcp(),
            over_loopback(),
            of_proxy(),
            to_address(loopback, equal=False),
            redirected(INBOUND),
        )
    rules.rule("output", is_tcp(), over_loopback(), of_proxy(equal=False), left_alone())
    rules.rule("output", is_tcp(), of_proxy(), left_alone())
    for loopback in ("127.0.0.1", "::1"):
        rules.rule("output", is_tcp(), to_address(loopback), left_alone())
    rules.rule("output", is_tcp(), redirected(OUTBOUND))
    if tproxy:
        _add_tproxy(rules)
    elif inbound:
        rules.chain("prerouting", hook=_PREROUTING, priority=_DNAT_PRIORITY, kind="nat")
        for port in NOT_INBOUND:
            rules.rule("prerouting", is_tcp(), to_port(port), left_alone())
        rules.rule("prerouting", is_tcp(), redirected(INBOUND))
    return rules


def _add_tproxy(rules: Ruleset) -> None:
    rules.chain("prerouting", hook=_PREROUTING, priority=_MANGLE_PRIORITY, kind="filter")
    rules.chain("restore", hook=_OUTPUT, priority=_MANGLE_PRIORITY, kind="route")
    rules.rule("prerouting", is_tcp(), is_marked(), connection_marked())
    rules.rule("prerouting", is_tcp(), is_marked(), left_alone())
    rules.rule("prerouting", is_tcp(), from_loopback(), left_alone())
    for port in NOT_INBOUND:
        rules.rule("prerouting", is_tcp(), to_port(port), left_alone())
    rules.rule("prerouting", is_tcp(), on_known_socket(), marked(), accepted())
    for family, loopback in ((2, "127.0.0.1"), (10, "::1")):
        rules.rule(
            "prerouting",
            is_tcp(),
            to_address(loopback, equal=False),
            proxied(INBOUND, family),
            marked(),
            accepted(),
        )
    # Answers of the workload to the clients' addresses go to its proxy.
    rules.rule("restore", is_tcp(), of_marked_connection(), marked())
