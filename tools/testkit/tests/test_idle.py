"""Callers that only hold connections, over each kind of socket."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from mesh_testkit import all_closed, idle_connections


@pytest.mark.parametrize("kind", ["tcp", "text", "unix"])
async def test_connections_are_held_and_their_end_is_awaited(kind: str, socket_dir: Path) -> None:
    path = socket_dir / "socket"
    with socket.socket(socket.AF_UNIX) if kind == "unix" else socket.socket() as server:
        server.bind(str(path) if kind == "unix" else ("127.0.0.1", 0))
        server.listen(3)
        host, port = ("", 0) if kind == "unix" else server.getsockname()
        places: dict[str, tuple[str, int] | str | Path] = {
            "tcp": (host, port),
            "text": f"{host}:{port}",
            "unix": path,
        }
        with idle_connections(places[kind], 3, said=b"hello") as held:
            accepted = [server.accept()[0] for _ in held]
            assert [each.recv(5) for each in accepted] == [b"hello"] * 3
            ended = asyncio.create_task(all_closed(held), name="ended")
            for each in accepted:
                assert not ended.done()
                each.sendall(b"bye")
                each.close()
            await ended
    assert all(each.fileno() == -1 for each in held)
    path.unlink(missing_ok=True)
