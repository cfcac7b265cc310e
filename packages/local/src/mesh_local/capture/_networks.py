"""The networks of a mesh: a hub, and one for each workload, on a wire to the hub.

They are held by mounts in this process's own namespace of mounts: no other process sees them, and
they end with the last process of the mesh, however that ends.
"""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mesh_local._errors import NetworkError
from mesh_local.capture import _kernel
from mesh_local.capture._rules import apply_rules
from mesh_local.config._addresses import RedirectedBlock

_SWITCH = "hub"
_RESOLV_CONF = Path("/etc/resolv.conf")
_NSSWITCH_CONF = Path("/etc/nsswitch.conf")
_ASKED_BY_SOCKET = (Path("/run/nscd/socket"), Path("/run/systemd/resolve/io.systemd.Resolve"))
"""Sockets of processes that the C library asks for names, and that don't know the mesh's."""
_HOSTS = re.compile(r"^hosts:.*$", re.MULTILINE)


def build_hub() -> None:
    """Make this process's network, which is new, the hub; raises `NetworkError`."""
    length = RedirectedBlock.network.prefixlen
    _ip(
        "link set lo up",
        f"link add {_SWITCH} type bridge",
        f"addr add {RedirectedBlock.control_plane}/{length} dev {_SWITCH}",
        f"link set {_SWITCH} up",
    )


class Networks:
    """The workloads' networks; opened by `networks`."""

    def __init__(self, block: RedirectedBlock, *, dns_port: int | None) -> None:
        self._block = block
        self._dns_port = dns_port
        self._opened: set[int] = set()

    def open(self, position: int) -> None:
        """Make the network of the workload at this position, if there is none.

        Raises `NetworkError`.
        """
        if position in self._opened:
            return
        addresses = self._block.workload(position)
        network, wire = self._block.network_of(position), f"workload-{position}"

        def furnish() -> None:
            _ip(
                "link set lo up",
                # The main thread's network is the hub's.
                f"link add eth0 type veth peer name {wire} netns {os.getpid()}",
                f"addr add {addresses.inbound}/{self._block.network.prefixlen} dev eth0",
                "link set eth0 up",
                # The kernel asks for a way before it asks the rules: allocated addresses need one.
                f"route add default via {self._block.control_plane}",
            )
            apply_rules(self._dns_port)
            network.touch()
            _kernel.mount_over("/proc/thread-self/ns/net", network)

        with _reporting(f"the network of workload {position} can't be made"):
            _kernel.inside_new_network(furnish)
            _ip(f"link set {wire} master {_SWITCH} up")
        self._opened.add(position)

    def close(self, position: int) -> None:
        """Let go of the network of a workload whose processes have ended."""
        if position in self._opened:
            self._opened.discard(position)
            with suppress(OSError):
                _kernel.unmount(self._block.network_of(position))
                self._block.network_of(position).unlink()


@contextmanager
def networks(block: RedirectedBlock, *, dns_port: int | None) -> Iterator[Networks]:
    """Hold the networks of a mesh for as long as the block lasts; this process is at the hub.

    In all of them names are asked of the hub. Raises `NetworkError`.
    """
    if not _has_own_mounts():
        raise NetworkError("workloads get networks only in a process that run_separately started")
    with _reporting("the networks of the mesh can't be made"):
        block.folder.mkdir(mode=0o700, exist_ok=True)
        _kernel.mount_memory(block.folder)
        _lead_names_to_hub(block)
    try:
        yield Networks(block, dns_port=dns_port)
    finally:
        with suppress(OSError):
            _kernel.unmount(block.folder)
            block.folder.rmdir()


def _has_own_mounts() -> bool:
    """Return whether this process is the first in its namespace of mounts.

    Else others would see what is mounted here, and the guard, which kills all in it, them.
    """
    try:
        parents = Path(f"/proc/{os.getppid()}/ns/mnt").readlink()
        return parents != Path("/proc/self/ns/mnt").readlink()
    except OSError:
        return True  # one in another namespace of users can't be looked at


def _lead_names_to_hub(block: RedirectedBlock) -> None:
    """Have the C library ask the hub for names, and no process of the machine."""
    files = {_RESOLV_CONF: f"nameserver {block.control_plane}\n"}
    with suppress(OSError):
        files[_NSSWITCH_CONF] = _HOSTS.sub("hosts: files dns", _NSSWITCH_CONF.read_text())
    for path, content in files.items():
        if not path.exists():
            raise NetworkError(f"there is no file {path}, in whose place names lead to the mesh")
        own = block.folder / path.name
        own.write_text(content)
        own.chmod(0o644)
        # The place itself may be a link, to systemd-resolved's file for example.
        _kernel.mount_over(own, path.resolve())
    for path in _ASKED_BY_SOCKET:
        if path.exists():
            _kernel.mount_over("/dev/null", path)


@contextmanager
def _reporting(subject: str) -> Iterator[None]:
    """Have what the kernel or a command refuses told in one sentence."""
    try:
        yield
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        raise NetworkError(f"{subject}: {place}{error.strerror}") from None
    except subprocess.CalledProcessError as error:
        said = " ".join(str(error.stderr).split())
        raise NetworkError(f"{subject}: {error.cmd[0]} says: {said}") from None


def _ip(*commands: str) -> None:
    with _reporting("a network can't be made"):
        subprocess.run(
            ("ip", "-batch", "-"),
            input="\n".join(commands),
            text=True,
            check=True,
            capture_output=True,
        )
