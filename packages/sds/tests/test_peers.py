"""The door that asks the kernel who is there."""

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Collection
from pathlib import Path

import pytest

from mesh_sds import (
    AllowedPeers,
    PeerCredentials,
    SdsConfig,
    TlsCertificate,
    serving,
)
from mesh_sds.testing import FakeSecrets, subscriber

SELF = PeerCredentials(
    pid=os.getpid(),
    uid=os.geteuid(),
    gid=os.getegid(),
    groups=frozenset(os.getgroups()) - {os.getegid()},
)
STRANGER = SELF.uid + 1


def config(path: Path, allow: AllowedPeers) -> SdsConfig:
    return SdsConfig(socket_path=path, allow=allow)


async def test_a_subscriber_is_shown_with_the_process_the_kernel_names(
    socket_path: Path, secrets: FakeSecrets
) -> None:
    secrets.set(default=TlsCertificate(chain_pem=b"chain", private_key_pem=b"key"))
    allow = AllowedPeers(
        uids=frozenset({SELF.uid}), gids=frozenset({SELF.gid}), pids=lambda: {SELF.pid}
    )
    async with serving(config(socket_path, allow), secrets) as server:
        async with subscriber(socket_path) as stream:
            await stream.ask("default")
            assert (await stream.read()).secrets == {"default": b"chain"}
            assert [s.process for s in server.subscribers()] == [SELF]
        await server.wait_until(lambda subscribers: not subscribers)
        assert server.refused_connections == 0


@pytest.mark.parametrize(
    ("allow", "reason"),
    [
        (AllowedPeers(uids=frozenset({STRANGER})), f"uid {SELF.uid} is not allowed"),
        (AllowedPeers(gids=frozenset()), f"gid {SELF.gid} is not allowed"),
        (AllowedPeers(pids=lambda: {1}), f"pid {SELF.pid} is not allowed"),
    ],
    ids=["uid", "gid", "pid"],
)
async def test_a_process_that_is_not_allowed_gets_nothing_and_is_logged_once(
    socket_path: Path,
    secrets: FakeSecrets,
    caplog: pytest.LogCaptureFixture,
    allow: AllowedPeers,
    reason: str,
) -> None:
    async with serving(config(socket_path, allow), secrets) as server:
        for _ in range(3):
            reader, writer = await asyncio.open_unix_connection(socket_path)
            assert await reader.read() == b""
            writer.close()
            # What was written to a door that shut may come back as an error.
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        assert server.refused_connections == 3
    reasons = [vars(r)["reason"] for r in caplog.records if r.message == "peer refused"]
    assert reasons == [reason]


async def test_pids_are_asked_at_each_connection_and_a_failure_refuses_it(
    socket_path: Path, secrets: FakeSecrets, caplog: pytest.LogCaptureFixture
) -> None:
    secrets.set(default=TlsCertificate(chain_pem=b"chain", private_key_pem=b"key"))
    lists: list[set[int] | None] = [{SELF.pid}, None, set()]

    def pids() -> Collection[int]:
        allowed = lists.pop(0)
        if allowed is None:
            raise LookupError("no envoy yet")
        return allowed

    async with serving(config(socket_path, AllowedPeers(pids=pids)), secrets) as server:
        async with subscriber(socket_path) as stream:
            await stream.ask("default")
            await stream.read()
            for _ in range(2):
                reader, writer = await asyncio.open_unix_connection(socket_path)
                assert await reader.read() == b""
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()
            # Who is in stays in: the list is for the door.
            secrets.set(default=TlsCertificate(chain_pem=b"next", private_key_pem=b"key"))
            assert (await stream.read()).secrets == {"default": b"next"}
        assert server.refused_connections == 2
    assert "cannot tell whether a peer is allowed, refusing it" in caplog.messages


async def test_another_process_is_known_by_its_own_ids(
    socket_dir: Path, secrets: FakeSecrets, caplog: pytest.LogCaptureFixture
) -> None:
    """A process that a wide socket mode alone would let in; of another user, if we are root."""
    path = socket_dir / "shared" / "socket"
    path.parent.mkdir(mode=0o755)
    socket_dir.chmod(0o755)
    other = 65534 if SELF.uid == 0 else SELF.uid
    allow = AllowedPeers(uids=frozenset({other + 1}))
    wide = SdsConfig(socket_path=path, socket_mode=0o666, allow=allow)
    script = (
        "import os, socket, sys\n"
        "uid = int(sys.argv[2])\n"
        "if os.geteuid() != uid: os.setuid(uid)\n"
        "s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n"
        "sys.exit(0 if s.recv(1) == b'' else 1)"
    )
    async with serving(wide, secrets) as server:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", script, str(path), str(other)
        )
        assert await child.wait() == 0
        assert server.refused_connections == 1
    (refusal,) = (vars(r) for r in caplog.records if r.message == "peer refused")
    assert (refusal["pid"], refusal["uid"]) == (child.pid, other)


async def test_connections_end_with_the_server_and_leave_nothing(
    socket_path: Path, secrets: FakeSecrets
) -> None:
    async with serving(config(socket_path, AllowedPeers()), secrets):
        reader, writer = await asyncio.open_unix_connection(socket_path)
        writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        assert await reader.read(9)  # the server's HTTP/2 settings
    await reader.read()
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def test_a_large_secret_passes_in_full_to_one_who_reads_slowly(
    socket_path: Path, secrets: FakeSecrets
) -> None:
    large = b"x" * 3_000_000
    secrets.set(default=TlsCertificate(chain_pem=large, private_key_pem=b"key"))
    async with serving(config(socket_path, AllowedPeers()), secrets):
        async with subscriber(socket_path) as slow, subscriber(socket_path) as quick:
            await slow.ask("default")
            await quick.ask("default")
            assert (await quick.read()).secrets == {"default": large}
            assert (await slow.read()).secrets == {"default": large}


async def test_a_socket_of_somebody_else_in_our_place_stays_when_we_go(
    socket_path: Path, secrets: FakeSecrets
) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        async with serving(config(socket_path, AllowedPeers()), secrets):
            socket_path.unlink()
            other.bind(str(socket_path))
        assert socket_path.is_socket()
    socket_path.unlink()


async def test_the_checked_path_may_be_as_long_as_any(
    socket_dir: Path, secrets: FakeSecrets
) -> None:
    path = socket_dir / ("x" * (107 - len(str(socket_dir)) - 1))
    async with serving(config(path, AllowedPeers()), secrets):
        assert list(socket_dir.iterdir()) == [path]


async def test_junk_and_sudden_disconnects_do_not_affect_other_clients(
    socket_path: Path, secrets: FakeSecrets
) -> None:
    secrets.set(default=TlsCertificate(chain_pem=b"chain", private_key_pem=b"key"))
    async with serving(config(socket_path, AllowedPeers()), secrets):
        for number in range(50):
            with socket.socket(socket.AF_UNIX) as rude:
                rude.connect(str(socket_path))
                if number % 2:
                    rude.send(os.urandom(number))
        async with subscriber(socket_path) as stream:
            await stream.ask("default")
            assert (await stream.read()).secrets == {"default": b"chain"}
