"""Namespaces are no way round the check of peers."""

import asyncio
import contextlib
import ctypes
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc.aio
import pytest

from mesh_sds import AllowedPeers, SdsConfig, TlsCertificate, serving
from mesh_sds.testing import FakeSecrets, subscriber

ATTACKER = Path(__file__).parent / "support" / "from_elsewhere.py"
NEW_NETWORK = 0x40000000


def can_make_namespaces() -> bool:
    child = os.fork()
    if child == 0:
        os._exit(0 if ctypes.CDLL(None).unshare(NEW_NETWORK) == 0 else 1)
    return os.waitpid(child, 0)[1] == 0


@asynccontextmanager
async def attacking(entry: Path, target: Path) -> AsyncIterator[None]:
    """The attacker knows the names our sockets have, as any process of this namespace does."""
    bound = re.findall(r"@([0-9a-f]{5})$", Path("/proc/net/unix").read_text(), re.MULTILINE)
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        str(ATTACKER),
        str(entry),
        str(target),
        *sorted(bound, reverse=True),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert child.stdout is not None
        assert await child.stdout.readline() == b"ready\n"
        yield
    finally:
        child.kill()
        await child.wait()
        entry.unlink(missing_ok=True)


async def test_a_process_of_another_network_namespace_does_not_pass_for_an_allowed_one(
    socket_path: Path, secrets: FakeSecrets
) -> None:
    if os.geteuid() != 0 or not can_make_namespaces():
        pytest.skip("only root can make a network namespace")
    secrets.set(default=TlsCertificate(chain_pem=b"chain", private_key_pem=b"key"))
    allow = AllowedPeers(pids=lambda: {os.getpid()})
    async with serving(SdsConfig(socket_path=socket_path, allow=allow), secrets):
        async with subscriber(socket_path) as allowed:
            await allowed.ask("default")
            await allowed.read()
            # Whatever socket there is: the one that is meant for it, and any other beside it.
            for target in sorted(socket_path.parent.iterdir()):
                entry = socket_path.with_name("entry")
                async with attacking(entry, target), subscriber(entry) as attacker:
                    with contextlib.suppress(grpc.aio.AioRpcError):
                        await attacker.ask("default")
                        got = await attacker.read()
                        pytest.fail(f"through {target.name}: {got}")
