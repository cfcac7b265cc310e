"""The types of this folder's fixtures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from envoy_supervisor import EnvoyConfig
from envoy_supervisor.testing import FakeEnvoy, FakeEnvoyFiles

FreePort = Callable[[], int]
Get = Callable[[int], AbstractAsyncContextManager[asyncio.Task[bytes]]]


class SlowApplication:
    """AdminAnswered each request only when `release` is set."""

    def __init__(self) -> None:
        self.arrived = asyncio.Event()
        self.release = asyncio.Event()
        self.port = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                if not head.startswith(b"GET /quick"):
                    self.arrived.set()
                    await self.release.wait()
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ndone")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


class ProxyConfig(Protocol):
    def __call__(self, listen: int, application: int, **changes: Any) -> EnvoyConfig: ...


class WithoutControlPlane(Protocol):
    def __call__(self, rendered: dict[str, Any]) -> EnvoyConfig: ...


class Fake(Protocol):
    def __call__(
        self, behaviour: FakeEnvoy = ..., **changes: Any
    ) -> tuple[EnvoyConfig, FakeEnvoyFiles]: ...
