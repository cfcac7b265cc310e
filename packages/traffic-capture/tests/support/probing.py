"""Packets sent through the rules of a kernel, in a network namespace that a thread lives in.

The rules of an observer, behind those that are tested, write down where each packet is going, with
its mark and zone, and then drop it: nothing has to listen or to answer.
"""

import ctypes
import json
import os
import random
import shutil
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from ipaddress import IPv6Address, ip_address
from typing import TypeVar

from drawn_captures import FOURS, IDS, PORTS, SIXES
from mesh_traffic_capture import ConnectionState, Direction, Packet, Protocol

_T = TypeVar("_T")
_LIBC = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNET = 0x40000000
_IP_TRANSPARENT, _IPV6_TRANSPARENT = 19, 75
DEVICES = ("eth0", "eth1", "vnet0", "net-1")
LOCAL = tuple(map(ip_address, ("10.0.0.1", "192.0.2.1", "2001:db8::1", "2001:db9::1")))
LOCAL_TOO = tuple(map(ip_address, ("127.0.0.1", "127.0.0.6", "127.0.0.53", "::1", "::6")))
_OBSERVER = """
table inet observer {
  set sent { typeof meta length . th sport . th dport . meta mark; flags dynamic; size 65535; }
  set came { typeof meta length . th sport . th dport . meta mark; flags dynamic; size 65535; }
  set zone1 { typeof meta length . th sport; flags dynamic; size 65535; }
  set zone2 { typeof meta length . th sport; flags dynamic; size 65535; }
  chain zones {
    ct zone 1 add @zone1 { meta length . th sport }
    ct zone 2 add @zone2 { meta length . th sport }
  }
  chain output {
    type filter hook output priority 50; policy accept;
    jump zones
    add @sent { meta length . th sport . th dport . meta mark }
  }
  chain prerouting {
    type filter hook prerouting priority 50; policy accept;
    jump zones
    add @came { meta length . th sport . th dport . meta mark } drop
  }
  chain postrouting {
    type filter hook postrouting priority 50; policy accept;
    oifname != "lo" drop
  }
}
"""


@cache
def why_not() -> str | None:
    """Return why rules can't be tried here, or None."""
    if os.geteuid() != 0:
        return "network namespaces and rules of the kernel need root"
    for program in ("ip", "nft", "iptables-nft-restore", "iptables-legacy-restore"):
        if shutil.which(program) is None:
            return f"there is no {program}: install iproute2, nftables and iptables"
    try:
        in_namespace(lambda: run("nft", "list", "tables"))
    except (OSError, subprocess.CalledProcessError) as error:
        return f"network namespaces or nftables are not to be had here: {error}"
    return None


def in_namespace(function: Callable[[], _T]) -> _T:
    """Run a function in a thread that has a new network namespace, which ends with it."""
    results: list[_T] = []
    errors: list[BaseException] = []

    def enter() -> None:
        try:
            if _LIBC.unshare(_CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "unshare")
            results.append(function())
        except BaseException as error:  # noqa: BLE001 - raised below, in the caller's thread
            errors.append(error)

    thread = threading.Thread(target=enter, name="in a namespace")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def run(*command: str, stdin: str = "") -> str:
    """Run a program, and return its output."""
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: {done.stderr}\n{stdin}")
    return done.stdout


def prepare() -> None:
    """Make the devices and addresses that probes use, and the observer."""
    lines = ["link set lo up", "address add ::6/128 dev lo"]
    for number, name in enumerate(DEVICES):
        lines += [
            f"link add {name} type veth peer name p-{name}",
            f"link set {name} addrgenmode none up",
            f"link set p-{name} addrgenmode none up",
            f"address add 10.200.0.{number + 1}/32 dev {name}",  # REDIRECT takes the first
            f"address add 2001:db8:200::{number + 1}/128 dev {name} nodad",
            f"route add 0.0.0.0/0 dev {name} metric {number + 1}",
            f"route add ::/0 dev {name} metric {number + 1}",
        ]
    lines += [f"address add {each}/{each.max_prefixlen} dev eth0 nodad" for each in LOCAL]
    run("ip", "-batch", "-", stdin="".join(f"{line}\n" for line in lines[:2]))
    run("ip", "-batch", "-", stdin="".join(f"{line}\n" for line in lines[2:]))
    wait_for_links()
    run("nft", "-f", "-", stdin=_OBSERVER)


def wait_for_links() -> None:
    """Wait until the links that are set up can send: the kernel sees to it a while later.

    Until then they drop what is sent, and show another state. Raises AssertionError after 30 s.
    """
    end = time.monotonic() + 30
    while True:
        links = json.loads(run("ip", "-j", "link"))
        late = [
            link["ifname"]
            for link in links
            if "UP" in link["flags"] and link["operstate"] not in {"UP", "UNKNOWN"}
        ]
        if not late:
            return
        assert time.monotonic() < end, f"the links {', '.join(late)} are not up after 30 s"
        time.sleep(0.01)


def draw_packets(seed: int, count: int) -> list[Packet]:
    """Draw packets that can be sent: each with another port or length."""
    drawn = random.Random(seed)
    return [_draw(drawn, number) for number in range(count)]


def _draw(drawn: random.Random, number: int) -> Packet:
    addresses = drawn.choice(
        [[each for each in (*FOURS, *LOCAL, *SIXES) if each.version == v] for v in (4, 6)]
    )
    # To these, the kernel chooses the same as source; ::6 has no scope that REDIRECT knows.
    addresses = [each for each in addresses if str(each) not in {"127.0.0.6", "::6"}]
    destination = drawn.choice(addresses)
    protocol = drawn.choice([Protocol.TCP, Protocol.TCP, Protocol.UDP])
    outbound = drawn.random() < 0.7
    own_port = protocol is Protocol.UDP and drawn.random() < 0.3
    port = drawn.choice([53, 15053]) if own_port else 20000 + number
    if not outbound:
        # The kernel takes ::1 from no wire.
        addresses = [each for each in addresses if str(each) != "::1"]
        destination = drawn.choice(addresses)
        invalid = protocol is Protocol.TCP and drawn.random() < 0.1
        return Packet(
            direction=Direction.INBOUND,
            interface=drawn.choice(DEVICES),
            protocol=protocol,
            destination=destination,
            destination_port=drawn.choice((*PORTS, 9999)),
            source=drawn.choice(addresses),
            source_port=port,
            state=ConnectionState.INVALID if invalid else ConnectionState.NEW,
        )
    local = destination in LOCAL or destination in LOCAL_TOO
    passed_on = ip_address("127.0.0.6" if destination.version == 4 else "::6")
    return Packet(
        direction=Direction.OUTBOUND,
        interface="lo" if local else drawn.choice(DEVICES),
        protocol=protocol,
        destination=destination,
        destination_port=drawn.choice((*PORTS, 9999)),
        source=passed_on if local and drawn.random() < 0.2 else None,
        source_port=port,
        uid=drawn.choice(IDS),
        gid=drawn.choice(IDS),
        mark=drawn.choice([0, 0, 7, 1337, 1338]) if local else 0,
    )


@dataclass(frozen=True)
class Seen:
    """Where a packet was going behind the rules; None: it did not get there."""

    port: int | None
    mark: int | None
    zone: int


def probe(packets: Sequence[Packet]) -> list[Seen]:
    """Send packets in this thread's namespace, and return what the observer saw of each."""
    with ExitStack() as stack:
        for name in DEVICES:
            _wire(name, stack)
        lengths = [_send(packet, number) for number, packet in enumerate(packets)]
    table = json.loads(run("nft", "-j", "list", "table", "inet", "observer"))["nftables"]
    sets = {
        each["set"]["name"]: [entry["concat"] for entry in each["set"].get("elem", ())]
        for each in table
        if "set" in each
    }
    sent = {(length, source): (port, mark) for length, source, port, mark in sets["sent"]}
    came = {(length, source): (port, mark) for length, source, port, mark in sets["came"]}
    zones = {
        (length, source): zone
        for zone, name in ((1, "zone1"), (2, "zone2"))
        for length, source in sets[name]
    }
    seen = []
    for packet, length in zip(packets, lengths, strict=True):
        key = (length, packet.source_port)
        last = packet.interface == "lo" or packet.direction is Direction.INBOUND
        port, mark = (came if last else sent).get(key, (None, None))
        seen.append(Seen(port, mark, zones.get(key, 0)))
    return seen


_WIRES: dict[tuple[int, str], tuple[socket.socket, bytes]] = {}


def _wire(name: str, stack: ExitStack) -> None:
    """Open the far end of a device."""
    wire = stack.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
    wire.bind((f"p-{name}", 0))
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as near:
        near.bind((name, 0))
        there = near.getsockname()[4]
    _WIRES[threading.get_ident(), name] = (wire, there + wire.getsockname()[4])


def _send(packet: Packet, number: int) -> int:
    """Send a packet; return its length."""
    # A length of its own for each, where the source port may be another's too.
    headers = 40 if packet.destination.version == 6 else 20
    size = 60 + number - headers - 8
    if packet.direction is Direction.INBOUND:
        return _inject(packet, size)
    family = socket.AF_INET6 if packet.destination.version == 6 else socket.AF_INET
    kind = socket.SOCK_STREAM if packet.protocol is Protocol.TCP else socket.SOCK_DGRAM
    assert packet.uid is not None
    assert packet.gid is not None
    _LIBC.setfsgid(packet.gid)
    _LIBC.setfsuid(packet.uid)
    sender = socket.socket(family, kind)
    _LIBC.setfsuid(0)
    _LIBC.setfsgid(0)
    with sender:
        sender.setblocking(False)
        sender.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if packet.interface != "lo":
            device = packet.interface.encode()
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device)
        if packet.mark:
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, packet.mark)
        none = "::" if family is socket.AF_INET6 else "0.0.0.0"  # noqa: S104 - any address
        sender.bind((str(packet.source or none), packet.source_port))
        there = (str(packet.destination), packet.destination_port)
        if packet.protocol is Protocol.TCP:
            sender.connect_ex(there)
        else:
            with suppress(PermissionError):  # the observer's drop
                sender.sendto(b"x" * size, there)
    if packet.protocol is Protocol.UDP:
        return 60 + number
    return headers + 40  # a SYN with Linux' options


def _inject(packet: Packet, size: int) -> int:
    assert packet.source is not None
    wire, macs = _WIRES[threading.get_ident(), packet.interface]
    ports = struct.pack("!HH", packet.source_port, packet.destination_port)
    if packet.protocol is Protocol.TCP:
        number, flags = 6, 4 if packet.state is ConnectionState.INVALID else 2
        # As long as a SYN of Linux, so that all have one length.
        body = ports + struct.pack("!IIBBHHH", 1, 0, 10 << 4, flags, 65535, 0, 0) + b"\1" * 20
        at = 16
    else:
        number = 17
        body = ports + struct.pack("!HH", 8 + size, 0) + b"x" * size
        at = 6
    source, destination = packet.source.packed, packet.destination.packed
    check = _checksum(source + destination + struct.pack("!II", len(body), number) + body)
    body = body[:at] + struct.pack("!H", check or 0xFFFF) + body[at + 2 :]
    if isinstance(packet.destination, IPv6Address):
        header = struct.pack("!IHBB", 6 << 28, len(body), number, 64) + source + destination
        kind = b"\x86\xdd"
    else:
        rest = source + destination
        header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 0, 0, 64, number, 0) + rest
        header = header[:10] + struct.pack("!H", _checksum(header)) + header[12:]
        kind = b"\x08\x00"
    wire.send(macs + kind + header + body)
    return len(header) + len(body)


def _checksum(data: bytes) -> int:
    if len(data) % 2:
        data += b"\0"
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


@contextmanager
def listening_transparently(port: int) -> Iterator[None]:
    """Listen as a proxy does in TPROXY mode: without a socket the kernel drops."""
    with ExitStack() as stack:
        four = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
        four.setsockopt(socket.SOL_IP, _IP_TRANSPARENT, 1)
        four.bind(("0.0.0.0", port))  # noqa: S104
        four.listen()
        six = stack.enter_context(socket.socket(socket.AF_INET6, socket.SOCK_STREAM))
        six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        six.setsockopt(socket.IPPROTO_IPV6, _IPV6_TRANSPARENT, 1)
        six.bind(("::", port))
        six.listen()
        yield
