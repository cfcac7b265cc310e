"""Ports that no process listens at any more."""

from __future__ import annotations

import socket

from mesh_testkit import PATIENCE_S, until


def is_refused(port: int) -> bool:
    """Say whether no process listens there."""
    try:
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S):
            return False
    except ConnectionRefusedError:
        return True


async def until_refused(port: int) -> None:
    """Wait until no process listens there any more."""
    await until(lambda: is_refused(port), what=f"port {port} to refuse connections")
