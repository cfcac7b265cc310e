"""The sockets of this network namespace that listen, and their processes, from /proc.

Looking there takes no port, as an attempt to listen would. Source: proc(5), proc_pid_net(5).
"""

import os
import socket
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from mesh_doctor._config import Protocol
from mesh_doctor._observed import Listener, runs

_LISTEN = 0x0A
_UNCONNECTED = 0x07
"""The state of a UDP socket that takes packets from every peer."""
_FILES = (
    ("tcp", Protocol.TCP, _LISTEN),
    ("tcp6", Protocol.TCP, _LISTEN),
    ("udp", Protocol.UDP, _UNCONNECTED),
    ("udp6", Protocol.UDP, _UNCONNECTED),
)
_MOST_LINES = 100_000
_MOST_PROGRAM = 80


def listeners(
    ports: frozenset[int] | None, proc: Path = Path("/proc")
) -> tuple[Listener, ...] | None:
    """Return the sockets that listen on these ports; None if the kernel does not tell.

    ports: None for all.
    """
    sockets: dict[int, Listener] = {}
    is_readable = False
    for name, protocol, state in _FILES:
        with suppress(OSError), (proc / "net" / name).open(encoding="ascii") as file:
            is_readable = True
            for number, line in enumerate(file):
                if number >= _MOST_LINES:
                    break
                found = _listener(line.split(), protocol, state)
                if found is not None and (ports is None or found[1].port in ports):
                    sockets[found[0]] = found[1]
    if not is_readable:
        return None
    if sockets:
        for inode, pid in _owners(proc, frozenset(sockets)):
            before = sockets[inode]
            if before.pid is None:
                sockets[inode] = _owned(before, pid, proc)
    return tuple(sockets.values())


def listening_programs(
    programs: Collection[str], proc: Path = Path("/proc")
) -> tuple[Listener, ...]:
    """Return the TCP sockets of programs with these names that this user may see, by process."""
    found = [
        each
        for each in listeners(None, proc) or ()
        if each.protocol is Protocol.TCP and runs(each, programs)
    ]
    return tuple(sorted(found, key=lambda each: (each.pid or 0, each.port)))


def _listener(words: list[str], protocol: Protocol, state: int) -> tuple[int, Listener] | None:
    """Read one line: sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode."""
    try:
        address, _, port = words[1].rpartition(":")
        if int(words[3], 16) != state:
            return None
        listener = Listener(
            protocol=protocol, host=_host(address), port=int(port, 16), uid=int(words[7])
        )
        return int(words[9]), listener
    except (IndexError, ValueError, OSError):
        return None  # the heading


def _host(text: str) -> str:
    # Words of four bytes, each in the machine's own order.
    raw = bytes.fromhex(text)
    words = [raw[at : at + 4][::-1] for at in range(0, len(raw), 4)]
    family = socket.AF_INET if len(raw) == 4 else socket.AF_INET6
    return socket.inet_ntop(family, b"".join(words))


def _owners(proc: Path, inodes: frozenset[int]) -> Iterator[tuple[int, int]]:
    """Yield inode and process id; of processes that may not be seen, nothing."""
    for name in os.listdir(proc):  # noqa: PTH208 - thousands of names, none of which is a path
        if not name.isdigit():
            continue
        with suppress(OSError):
            for entry in os.scandir(proc / name / "fd"):
                with suppress(OSError, ValueError):
                    link = os.readlink(entry.path)  # noqa: PTH115 - not a path: socket:[123]
                    if link.startswith("socket:[") and int(link[8:-1]) in inodes:
                        yield int(link[8:-1]), int(name)


def _owned(listener: Listener, pid: int, proc: Path) -> Listener:
    program = ""
    with suppress(OSError):
        words = (proc / str(pid) / "cmdline").read_bytes()[:4096].split(b"\0")
        shown = [os.fsdecode(word) for word in words if word]
        if shown:
            shown[0] = Path(shown[0]).name
        program = " ".join(shown)[:_MOST_PROGRAM]
    clean = "".join(each if each.isprintable() else "?" for each in program)
    return Listener(
        protocol=listener.protocol,
        host=listener.host,
        port=listener.port,
        uid=listener.uid,
        pid=pid,
        program=clean,
    )
