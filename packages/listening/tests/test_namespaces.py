"""Network namespaces: none is a way round the acceptor, and IPv6 alone will do."""

import asyncio
import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from callers import served_by_grpc
from mesh_listening import GRPC_LIMITS, listening_on

NEW_NETWORK = 0x40000000
HERE = Path(__file__).parent / "support"


def can_make_namespaces() -> bool:
    child = os.fork()
    if child == 0:
        os._exit(0 if ctypes.CDLL(None).unshare(NEW_NETWORK) == 0 else 1)
    return os.waitpid(child, 0)[1] == 0


needs_namespaces = pytest.mark.skipif(
    os.geteuid() != 0 or not can_make_namespaces(),
    reason="only root can make a network namespace",
)


def in_new_network(script: str, *setup: str, arguments: tuple[str, ...] = ()) -> str:
    """Run Python in a network namespace of its own, after commands that set it up."""
    steps = " && ".join((*setup, 'exec "$@"'))
    command = [
        "unshare",
        "--net",
        "sh",
        "-c",
        steps,
        "sh",
        sys.executable,
        "-c",
        script,
        *arguments,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@needs_namespaces
async def test_another_network_namespace_does_not_reach_the_server_inside() -> None:
    script = (
        "import socket, sys\n"
        "try:\n"
        "    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=60)\n"
        "except OSError as error:\n"
        "    print(type(error).__name__)"
    )
    with listening_on("127.0.0.1", 0) as sockets:
        async with served_by_grpc(sockets, GRPC_LIMITS, on_loopback=True) as served:
            host, port = served.port
            error = await asyncio.to_thread(
                in_new_network, script, "ip link set lo up", arguments=(host, str(port))
            )
    assert error == "ConnectionRefusedError"


SERVE = """
import asyncio, sys
sys.path.insert(0, sys.argv[1])
from callers import served_by_grpc, who_am_i
from mesh_listening import GRPC_LIMITS, listening_on, format_address
async def main():
    with listening_on("", 0) as sockets:
        async with served_by_grpc(sockets, GRPC_LIMITS, on_loopback=True) as served:
            port = sockets[0].getsockname()[1]
            print(served.port.host, await who_am_i(f"[::1]:{port}"))
asyncio.run(main())
"""


@needs_namespaces
def test_where_there_is_no_127_0_0_1_the_server_inside_listens_on_ipv6() -> None:
    answer = in_new_network(
        SERVE,
        "ip link set lo up",
        "ip address delete 127.0.0.1/8 dev lo",
        arguments=(str(HERE),),
    )
    assert answer.startswith("::1 AcceptedPeer(address='ipv6:[::1]:")


@needs_namespaces
def test_without_any_loopback_the_error_says_what_is_missing() -> None:
    script = (
        "from mesh_listening import loopback_host, ListenError\n"
        "try:\n"
        "    loopback_host()\n"
        "except ListenError as error:\n"
        "    print(error)"
    )
    assert in_new_network(script) == (
        "this machine has no loopback address: neither 127.0.0.1 nor ::1 can be used; "
        "bring the interface lo up (ip link set lo up)"
    )
