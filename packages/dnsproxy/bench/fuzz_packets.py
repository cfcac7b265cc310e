"""Throw mutated packets at a server: no exception, a canary always answered, no answer answered.

    python bench/fuzz_packets.py [--packets 1000000] [--seed N] [--sockets 100000]

Packets begin as real queries of many kinds (also answers, updates, EDNS, TSIG) and have bytes
changed, cut, doubled and put in. All go through the deciding part directly, half as if over TCP;
`--sockets` more go to a real server over UDP and TCP, between canaries. Prints how many there were,
how long it took and what became of them; fails at the first that is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import socket
import struct
import sys
import time
from collections import Counter

from mesh_dnsproxy import DnsConfig, ListenAddress, NameEntry, Port, serving
from mesh_dnsproxy._counts import Counts
from mesh_dnsproxy.answering._answerer import Answerer, Forward
from mesh_dnsproxy.message._names import to_wire
from mesh_dnsproxy.table._compiled import Scope, compile_table

ENTRIES = {
    "known.example": NameEntry(("10.0.0.1", "2001:db8::1"), ports=(Port(443, "https", "HTTPS"),)),
    "*.wild.example": NameEntry(("10.0.0.2",)),
    "web.ns.svc.cluster.local": NameEntry(("10.0.0.3",), "Kubernetes", "web", "ns"),
    "many.example": NameEntry(tuple(f"10.1.{n >> 8}.{n & 255}" for n in range(300))),
}
NAMES = (
    "known.example",
    "a.wild.example",
    "web",
    "many.example",
    "known.example.ns.svc.cluster.local",
    "_https._tcp.known.example",
    "1.0.0.10.in-addr.arpa",
    "unknown.example",
    "",
    ".".join(["x" * 60] * 4),
)
TYPES = (0, 1, 2, 5, 6, 12, 15, 16, 28, 33, 41, 64, 65, 97, 250, 251, 252, 255, 65535)
CANARY = struct.pack("!6H", 0xCAFE, 0x0100, 1, 0, 0, 0) + to_wire("known.example") + b"\0\1\0\1"


def originals() -> list[bytes]:
    packets = []
    for name in NAMES:
        for kind in TYPES:
            question = to_wire(name) + struct.pack("!HH", kind, 1)
            for flags in (0x0100, 0x0110, 0x2800, 0x8180):
                header = struct.pack("!6H", 0x1234, flags, 1, 0, 0, 0)
                packets.append(header + question)
            opt = struct.pack("!BHHIH", 0, 41, 1232, 0x8000, 0)
            packets.append(struct.pack("!6H", 0x1234, 0x0100, 1, 0, 0, 1) + question + opt)
            cookie = struct.pack("!BHHIHHH8s", 0, 41, 4096, 0, 12, 10, 8, b"12345678")
            packets.append(struct.pack("!6H", 0x1234, 0x0120, 1, 0, 0, 1) + question + cookie)
            record = b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 60, 4) + b"\1\2\3\4"
            packets.append(struct.pack("!6H", 1, 0x0100, 1, 1, 1, 1) + question + record * 3)
    return packets


def mutate(packet: bytes, rng: random.Random) -> bytes:
    changed = bytearray(packet)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        size = len(changed)
        match rng.randrange(7):
            case 0 if size:
                changed[rng.randrange(size)] = rng.randrange(256)
            case 1 if size:
                changed[rng.randrange(size)] ^= 1 << rng.randrange(8)
            case 2:
                del changed[rng.randrange(size + 1) :]
            case 3:
                at = rng.randrange(size + 1)
                changed[at:at] = rng.randbytes(rng.randrange(1, 9))
            case 4 if size:
                at = rng.randrange(size)
                del changed[at : at + rng.randrange(1, 9)]
            case 5 if size:
                at, length = rng.randrange(size), rng.randrange(1, 40)
                changed += changed[at : at + length]
            case _ if size >= 12:
                at = rng.choice((2, 4, 6, 8, 10))
                changed[at : at + 2] = rng.choice((b"\0\0", b"\0\1", b"\0\2", b"\xff\xff"))
    return bytes(changed)


def answerer() -> Answerer:
    prepared = Answerer(Counts())
    scope = Scope.from_texts(
        domain="svc.cluster.local", namespace="ns", search="ns.svc.cluster.local"
    )
    building = compile_table(ENTRIES.items(), scope)
    while True:
        try:
            next(building)
        except StopIteration as done:
            prepared.use_table(done.value)
            return prepared


def check(tested: Answerer, packet: bytes, *, over_tcp: bool) -> str:
    """What became of it; raises AssertionError when that is wrong."""
    kept = None if over_tcp else tested.kept.get(packet[2:])
    outcome = packet[:2] + kept[0]() if kept else tested.answer(packet, over_tcp=over_tcp)
    is_query = len(packet) >= 12 and not packet[2] & 0x80
    assert (outcome is not None) == is_query, packet.hex()
    if outcome is None:
        return "left alone"
    if isinstance(outcome, Forward):
        assert outcome.limit >= 512
        return "forwarded"
    assert outcome[:2] == packet[:2], packet.hex()
    assert outcome[2] & 0x80, packet.hex()
    assert len(outcome) <= (65535 if over_tcp else 4096), packet.hex()
    return f"rcode {outcome[3] & 15}"


def decide(packets: int, rng: random.Random) -> Counter[str]:
    tested, seeds = answerer(), originals()
    outcomes: Counter[str] = Counter()
    for number in range(packets):
        packet = mutate(rng.choice(seeds), rng)
        outcomes[check(tested, packet, over_tcp=bool(number & 1))] += 1
        if number % 10_000 == 0:
            assert check(tested, CANARY, over_tcp=False) == "rcode 0"
    assert tested._counts.internal_errors == 0, f"{tested._counts.internal_errors} exceptions"
    return outcomes


async def throw(packets: int, rng: random.Random) -> None:
    """The same over sockets, with a canary after each hundred."""
    seeds = originals()
    loop = asyncio.get_running_loop()
    config = DnsConfig(listen=(ListenAddress("127.0.0.1", 0),), resolv_conf=None, namespace="ns")
    async with serving(config) as server:
        server.set_table(ENTRIES)
        await server.wait_table_in_use()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as thrower:
            thrower.setblocking(False)
            thrower.connect(server.addresses[0])
            for _ in range(0, packets, 100):
                for _ in range(90):
                    await loop.sock_sendall(thrower, mutate(rng.choice(seeds), rng))
                frames = [mutate(rng.choice(seeds), rng) for _ in range(10)]
                _, writer = await asyncio.open_connection(*server.addresses[0])
                writer.write(b"".join(len(f).to_bytes(2, "big") + f for f in frames))
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as canary:
                    canary.setblocking(False)
                    canary.connect(server.addresses[0])
                    async with asyncio.timeout(30):
                        await loop.sock_sendall(canary, CANARY)
                        answer = await loop.sock_recv(canary, 4096)
                assert answer[:2] == CANARY[:2]
                assert answer[7] == 1
                writer.close()
                try:
                    while True:
                        thrower.recv(65535)
                except BlockingIOError:
                    pass
        assert server.counts.internal_errors == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packets", type=int, default=1_000_000)
    parser.add_argument("--sockets", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    given = parser.parse_args()
    rng = random.Random(given.seed)
    print(f"seed {given.seed}")
    started = time.monotonic()
    outcomes = decide(given.packets, rng)
    print(f"{given.packets} packets decided on in {time.monotonic() - started:.1f} s")
    for outcome, count in outcomes.most_common():
        print(f"  {count:9} {outcome}")
    started = time.monotonic()
    asyncio.run(throw(given.sockets, rng))
    print(f"{given.sockets} packets over sockets in {time.monotonic() - started:.1f} s, ", end="")
    print(f"{given.sockets // 100} canaries answered")
    return 0


if __name__ == "__main__":
    sys.exit(main())
