"""Which loopback addresses a mesh uses, so that every workload keeps the standard ports.

A mesh owns one block 127.B.0.0/16. Its control plane is at 127.B.0.1, workload N at 127.B.N.1
(its Envoy's inbound side), .2 (its program) and .3 (its Envoy's outbound side). Linux answers on
all of 127.0.0.0/8 without being asked; other systems only on 127.0.0.1.

A workload whose connections are redirected has a network of its own, with one address in the mesh.
"""

import errno
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from typing import ClassVar

from mesh_local._errors import AddressError

BLOCKS = range(64, 128)
POSITIONS = 255
"""The workloads of a block that have addresses at a time."""
_TRIES = 8
_LOCK_PORT = 15012


_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Inside:
    """A host as it is found from inside a workload's network."""

    network: str
    """The path of the network's namespace."""
    host: str
    """An address, or a name that is asked for there."""

    def __str__(self) -> str:
        return self.host


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadAddresses:
    """The addresses of one workload."""

    inbound: str
    """Where other workloads reach it, and where its agent and its Envoy listen."""
    app: str
    outbound: str
    network: str | None = None
    """The path of the namespace that is its own network; None if it has none."""

    @property
    def agent(self) -> str | Inside:
        """Where its agent and its Envoy's admin interface are asked."""
        return self.inbound if self.network is None else Inside(self.network, _LOOPBACK)

    @property
    def program(self) -> str | Inside:
        """Where its program is reached without an Envoy."""
        return self.app if self.network is None else Inside(self.network, self.app)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One mesh's addresses."""

    number: int

    @property
    def control_plane(self) -> str:
        return f"127.{self.number}.0.1"

    def workload(self, position: int) -> WorkloadAddresses:
        """Return the addresses of the workload at this position, counted from 1."""
        if not 1 <= position <= POSITIONS:
            raise ValueError(f"workload position {position} is not within 1 to {POSITIONS}")
        network = f"127.{self.number}.{position}"
        return WorkloadAddresses(
            inbound=f"{network}.1", app=f"{network}.2", outbound=f"{network}.3"
        )

    def __str__(self) -> str:
        return f"127.{self.number}.0.0/16"


@dataclass(frozen=True, slots=True, kw_only=True)
class RedirectedBlock:
    """The addresses of a mesh whose workloads have networks of their own, which no other sees."""

    network: ClassVar = IPv4Network("10.77.0.0/16")
    control_plane: ClassVar = "10.77.0.1"
    """That of the hub."""

    folder: Path
    """Where the networks are held."""

    def workload(self, position: int) -> WorkloadAddresses:
        """Return the addresses of the workload at this position, counted from 1."""
        if not 1 <= position <= POSITIONS:
            raise ValueError(f"workload position {position} is not within 1 to {POSITIONS}")
        own = f"10.77.{position}.1"
        return WorkloadAddresses(
            inbound=own, app=own, outbound=_LOOPBACK, network=str(self.network_of(position))
        )

    def network_of(self, position: int) -> Path:
        """Return the path of the namespace of the workload at this position."""
        return self.folder / str(position)

    def __str__(self) -> str:
        return str(self.network)


Endpoint = tuple[str, int]


def choose_block(
    needed: Callable[[Block], Iterable[Endpoint]], *, reserve: Callable[[Block], bool]
) -> Block:
    """Return the first block that no other mesh has and whose needed ports are all free.

    reserve: keeps the block for the caller; returns False if another mesh has it.

    Raises `AddressError` when the same port is taken in block after block, or no block is left.
    """
    taken: list[Endpoint] = []
    for number in BLOCKS:
        block = Block(number=number)
        if not reserve(block):
            continue
        if (busy := next((each for each in needed(block) if not is_free(*each)), None)) is None:
            return block
        taken.append(busy)
        if len(taken) >= _TRIES:
            break
    if not taken:
        raise AddressError(
            f"{len(BLOCKS)} meshes run on this machine already, which takes all of 127.64.0.0/10: "
            "stop one of them"
        )
    ports = {port for _, port in taken}
    if len(ports) == 1:
        raise AddressError(
            f"port {ports.pop()} is in use on every address of this machine, by a program that "
            "listens on 0.0.0.0: stop it, or give the workload another port"
        )
    tried = ", ".join(f"{host}:{port}" for host, port in taken)
    raise AddressError(f"no loopback addresses are free for the mesh; in use are {tried}")


def is_free(host: str, port: int) -> bool:
    """Return whether a server could listen there; raises `AddressError` for an unusable host."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Servers set it too: without it, connections that ended a minute ago would count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno == errno.EACCES:
                raise AddressError(
                    f"port {port} may only be used by root: give the workload a port from 1024"
                ) from None
            _refuse_unless_busy(error, host)
            return False
    return True


@contextmanager
def reservations() -> Iterator[Callable[[Block], bool]]:
    """Reserve blocks of this machine for as long as the context lasts.

    A UDP socket holds a block: it takes no TCP port away, and the kernel gives it back even when
    this process is killed. Blocks that were reserved but not chosen are held until the end too.
    """
    held: list[socket.socket] = []

    def reserve(block: Block) -> bool:
        holder = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            holder.bind((block.control_plane, _LOCK_PORT))
        except OSError as error:
            holder.close()
            _refuse_unless_busy(error, block.control_plane)
            return False
        held.append(holder)
        return True

    try:
        yield reserve
    finally:
        for holder in held:
            with suppress(OSError):
                holder.close()


def _refuse_unless_busy(error: OSError, host: str) -> None:
    if error.errno == errno.EADDRNOTAVAIL:
        raise AddressError(
            f"this machine has no address {host}: mesh-local gives each workload addresses of its "
            "own in 127.0.0.0/8, which Linux has by itself and macOS has not; run it on Linux or "
            "in a Linux container"
        ) from None
    if error.errno != errno.EADDRINUSE:
        raise AddressError(f"{host} can't be used: {error.strerror}") from None
