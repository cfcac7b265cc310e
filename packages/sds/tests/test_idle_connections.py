"""A thousand connections that say nothing, and an Envoy beside them."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from mesh_listening import UNIX_LIMITS, AllowedPeers, Reason
from mesh_sds import SdsConfig, TlsCertificate, serving
from mesh_sds.testing import FakeSecrets
from mesh_testkit import idle_connections, until

IDLE = 1000
ASK = """
import asyncio, pathlib, sys
from mesh_sds.testing import subscriber
async def main():
    async with subscriber(pathlib.Path(sys.argv[1])) as stream:
        await stream.ask("default")
        print((await stream.read()).secrets)
asyncio.run(main())
"""


@pytest.mark.parametrize("allow", [None, AllowedPeers(uids=frozenset({os.geteuid()}))])
async def test_a_thousand_idle_connections_of_one_process_leave_room_for_another(
    socket_path: Path, secrets: FakeSecrets, allow: AllowedPeers | None
) -> None:

    secrets.set(default=TlsCertificate(chain_pem=b"chain", private_key_pem=b"key"))
    # One process may hold few and the time is long, so that silence alone ends none of them.
    limits = UNIX_LIMITS._replace(first_byte_s=300.0)
    config = SdsConfig(socket_path=socket_path, allow=allow, limits=limits)
    async with serving(config, secrets) as server:
        with idle_connections(socket_path, IDLE):
            await until(lambda: server.port.accepted == IDLE, what="all of them")
            most = server.port.limits.peer
            assert server.port.refused == {Reason.PEER_FULL: IDLE - most}
            child = await asyncio.create_subprocess_exec(
                sys.executable, "-c", ASK, str(socket_path), stdout=asyncio.subprocess.PIPE
            )
            output, _ = await child.communicate()
            assert output.decode().strip() == "{'default': b'chain'}"
