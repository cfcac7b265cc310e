"""The packet that `explain` is asked about, from its flags; pure."""

from __future__ import annotations

from ipaddress import ip_address

from mesh_traffic_capture._errors import InvalidCapture
from mesh_traffic_capture._value import value
from mesh_traffic_capture.rules import Direction, Packet, Protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mesh_traffic_capture.config import HostFacts, IPAddress

_FROM = "it is uid=1000, gid=1000, an address or several of these, with commas between"


@value
class NoRoute:
    """A packet that the kernel does not send."""

    destination: IPAddress

    def __str__(self) -> str:
        """Return why, and what to do."""
        return (
            f"not sent: there is no route to {self.destination}, and the kernel looks for one "
            "before it asks the rules; add a default route, over any interface but lo "
            "(ip route add default dev eth0), or name --interface"
        )


def read_packet(
    flags: Mapping[str, str], facts: HostFacts, route: Callable[[IPAddress], str | None]
) -> Packet | NoRoute:
    """Return the packet; `route` says by which interface an address is reached.

    Raises `InvalidCapture` with all that is wrong.
    """
    mistakes: list[str] = []
    sender = _sender(flags.get("from", ""), facts, mistakes)
    destination, port = _address("to", flags.get("to", ""), mistakes, needs_port=True)
    written = flags.get("protocol", Protocol.TCP)
    if written not in list(Protocol):
        mistakes.append(f"--protocol is {written!r}: it is tcp or udp")
    mixed = destination and sender.source and destination.version != sender.source.version
    if mixed:
        mistakes.append(
            f"--from has {sender.source} and --to {destination}: both are IPv4, or both IPv6"
        )
    if mistakes or destination is None:
        raise InvalidCapture(tuple(mistakes))
    outbound = sender.uid is not None
    interface = flags.get("interface") or route(
        destination if outbound or sender.source is None else sender.source
    )
    if interface is None and outbound:
        return NoRoute(destination=destination)
    return Packet(
        direction=Direction.OUTBOUND if outbound else Direction.INBOUND,
        interface=interface or "eth0",
        protocol=Protocol(written),
        source=sender.source,
        source_port=sender.port,
        destination=destination,
        destination_port=port,
        uid=sender.uid,
        gid=sender.gid,
    )


@value
class _Sender:
    uid: int | None
    gid: int | None
    source: IPAddress | None
    port: int


def _sender(text: str, facts: HostFacts, mistakes: list[str]) -> _Sender:
    ids: dict[str, int] = {}
    source, port = None, 0
    items = [item.strip() for item in text.split(",") if item.strip()]
    if not items:
        mistakes.append(f"--from is missing: {_FROM}")
    for item in items:
        name, equals, written = item.partition("=")
        if not equals:
            source, port = _address("from", item, mistakes, needs_port=False)
        elif name in {"uid", "gid"}:
            names = facts.users if name == "uid" else facts.groups
            number = int(written) if written.isascii() and written.isdecimal() else None
            number = names.get(written) if number is None else number
            if number is None:
                kind = "user" if name == "uid" else "group"
                mistakes.append(
                    f"--from has {item!r}: it is neither an id nor a {kind} of this machine"
                )
            else:
                ids[name] = number
        else:
            mistakes.append(f"--from has {item!r}: {_FROM}")
    # As a user's own group has the user's number, nearly everywhere.
    one = ids.get("uid", ids.get("gid"))
    return _Sender(uid=ids.get("uid", one), gid=ids.get("gid", one), source=source, port=port)


def _address(
    flag: str, text: str, mistakes: list[str], *, needs_port: bool
) -> tuple[IPAddress | None, int]:
    """Return an address and a port: `10.0.0.1:80`, `[::1]:80`, `10.0.0.1` or `::1`."""
    host, colon, port = text.rpartition(":")
    if not colon or (":" in host and not host.startswith("[")):
        host, port = text, ""
    try:
        address = ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        address = None
    is_port = port.isascii() and port.isdecimal() and len(port) <= 5 and 1 <= int(port) <= 65535
    if address is None or not (is_port or (not port and not needs_port)):
        how = "an address with a port" if needs_port else "an address, with a port or without"
        said = f"is {text!r}" if text else "is missing"
        mistakes.append(f"--{flag} {said}: it is {how}, such as 10.0.0.1:80 or [2001:db8::1]:80")
        return None, 0
    return address, int(port) if port else 0
