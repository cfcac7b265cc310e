"""Runs a mesh in namespaces: a process in them, and this one, which stays outside.

The process inside runs the mesh, and is root there. The one outside forwards its DNS queries and
the signals that it gets, and ends with it. If the one outside is killed, the kernel kills the one
inside, and with the last process of the mesh its networks end: nothing else holds them.
"""

import asyncio
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from mesh_local._errors import NetworkError
from mesh_local.capture import _kernel
from mesh_local.capture._forwarder import forward, hub_sockets
from mesh_local.capture._networks import build_hub
from mesh_local.capture._subordinate_ids import NEEDED, find_range, first_free, mapping
from mesh_local.config._addresses import RedirectedBlock

_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_HAS_USERS, _HAS_HUB, _MAPPED = b"u", b"h", b"m"
_KILLED = 128
"""And the number of the signal: the exit status of a process that one ended, as shells have it."""
_RESTRICTED = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
_MOST_USERS = Path("/proc/sys/user/max_user_namespaces")
_SUBUID, _SUBGID = Path("/etc/subuid"), Path("/etc/subgid")
_FIRST = 100_000
"""The first that systems give to a user."""
_PACKAGES = {"ip": "iproute2", "nft": "nftables", "newuidmap": "uidmap", "newgidmap": "uidmap"}


def run_separately(run: Callable[[], int]) -> int:
    """Run a function in namespaces of its own, where `networks` can be opened.

    Returns what it returns, and raises what it raises, in the process inside; in the one outside
    the exit status of the process inside. Raises `NetworkError`.
    """
    maps = _id_maps()
    _refuse_without("ip", "nft")
    sys.stdout.flush()
    sys.stderr.flush()
    outside, inside = socket.socketpair()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        outside.close()
        _separate(inside, parent, with_users=maps is not None)
        return run()
    inside.close()
    try:
        return _attend(child, outside, maps)
    except BaseException:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        raise


def _id_maps() -> dict[str, tuple[str, ...]] | None:
    """Return the commands that map ids, with their arguments; None for root, who needs none."""
    if os.geteuid() == 0:
        return None
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = str(os.getuid())
    found = {}
    for command, file, own in (
        ("newuidmap", _SUBUID, os.getuid()),
        ("newgidmap", _SUBGID, os.getgid()),
    ):
        subordinate = find_range(_text(file), {user, str(os.getuid())})
        if subordinate is None:
            first = max(_FIRST, *(first_free(_text(each)) for each in (_SUBUID, _SUBGID)))
            free = f"{first}-{first + NEEDED - 1}"
            raise NetworkError(
                f"--capture needs root or {NEEDED} subordinate ids, which {file} does not give to "
                f"{user}: have root run usermod --add-subuids {free} --add-subgids {free} {user}"
            )
        found[command] = mapping(own, subordinate)
    _refuse_without(*found)
    return found


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""


def _refuse_without(*commands: str) -> None:
    for command in commands:
        if _find(command) is None:
            raise NetworkError(
                f"--capture needs the command {command}, which is not here: install it (Debian's "
                f"package {_PACKAGES[command]})"
            )


def _find(command: str) -> str | None:
    """Return a command's path; those of the system are not in every user's PATH."""
    return shutil.which(command, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")


def _separate(outside: socket.socket, parent: int, *, with_users: bool) -> None:
    """Move this process into its namespaces, and give the hub's sockets to the one outside."""
    # What is typed in the terminal reaches the process outside alone, which passes it on.
    os.setpgid(0, 0)
    _kernel.end_with_parent(parent, signal.SIGKILL)
    os.environ["PATH"] = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    try:
        if with_users:
            _kernel.unshare(_kernel.NEW_USERS)
            outside.sendall(_HAS_USERS)
            if outside.recv(1) != _MAPPED:
                os._exit(1)  # the one outside says why
        _kernel.unshare(_kernel.NEW_NETWORK | _kernel.NEW_MOUNTS)
        _kernel.keep_mounts_private()
    except OSError as error:
        raise NetworkError(_why_no_namespaces(error, with_users=with_users)) from None
    build_hub()
    sockets = hub_sockets(RedirectedBlock.control_plane)
    socket.send_fds(outside, [_HAS_HUB], [each.fileno() for each in sockets])
    for each in sockets:
        each.close()
    outside.close()


def _why_no_namespaces(error: OSError, *, with_users: bool) -> str:
    refused = f"--capture needs namespaces, which this machine refuses: {error.strerror}"
    if not with_users:
        return f"{refused}; in a container, that container must be a privileged one"
    for setting, value, wanted in ((_RESTRICTED, "1", "0"), (_MOST_USERS, "0", "10000")):
        if _text(setting).strip() == value:
            name = ".".join(setting.parts[-2:])
            return f"{refused}; have root run sysctl {name}={wanted}, or run this as root"
    return f"{refused}; run it as root"


def _attend(child: int, inside: socket.socket, maps: dict[str, tuple[str, ...]] | None) -> int:
    """Do for the process inside what can be done outside alone; returns its exit status."""
    with inside:
        message, handles, _, _ = socket.recv_fds(inside, 1, 2)
        if message == _HAS_USERS and maps is not None:
            for command, arguments in maps.items():
                _map_ids(command, (str(child), *arguments))
            inside.sendall(_MAPPED)
            message, handles, _, _ = socket.recv_fds(inside, 1, 2)
    sockets = [socket.socket(fileno=each) for each in handles]
    try:
        asyncio.run(_forward_until_end(child, sockets))
    finally:
        for each in sockets:
            each.close()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return _KILLED - status if status < 0 else status


def _map_ids(command: str, arguments: tuple[str, ...]) -> None:
    ran = subprocess.run(
        (_find(command) or command, *arguments), capture_output=True, text=True, check=False
    )
    if ran.returncode != 0:
        said = " ".join(ran.stderr.split())
        raise NetworkError(f"--capture needs subordinate ids, which are refused: {said}")


async def _forward_until_end(child: int, sockets: list[socket.socket]) -> None:
    """Forward queries, and signals, until the process inside has ended."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    handle = os.pidfd_open(child)
    try:
        loop.add_reader(handle, ended.set)
        for number in _FORWARDED:
            loop.add_signal_handler(number, _signal, child, number)
        loop.add_signal_handler(signal.SIGTSTP, _suspend, child)
        if sockets:
            forwarding = asyncio.create_task(forward(*sockets), name="DNS")
            waiting = asyncio.create_task(ended.wait(), name="end of the mesh")
            await asyncio.wait((forwarding, waiting), return_when=asyncio.FIRST_COMPLETED)
            if not forwarding.cancel():
                forwarding.result()
            await asyncio.wait((forwarding,))
        await ended.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)


def _signal(child: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(child, number)


def _suspend(child: int) -> None:
    """Stop both processes, as Ctrl-Z does with a single one, until this one goes on."""
    _signal(child, signal.SIGSTOP)
    os.kill(os.getpid(), signal.SIGSTOP)
    _signal(child, signal.SIGCONT)
