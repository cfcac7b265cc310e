"""Generators and servers that the tests of this package share."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mesh_lifecycle.testing import ManualClock
from xds_server import (
    ServerConfig,
    XdsServer,
)
from xds_server.testing import admit_all

sys.path.insert(0, str(Path(__file__).parent / "support"))

from server_pki import Pki
from xds_state import ALL_TYPES, Core, Make, Running, State, names_in


@pytest.fixture(scope="session")
def make() -> Make:
    return Make()


@pytest.fixture
def state() -> State:
    return State()


@pytest.fixture
def running(state: State) -> Running:
    """Start a server over `state`, ready by default."""

    @asynccontextmanager
    async def start(
        *, config: ServerConfig | None = None, ready: bool = True, **options: Any
    ) -> AsyncIterator[XdsServer[None]]:
        server: XdsServer[None] = XdsServer(
            options.pop("generators", dict.fromkeys(ALL_TYPES, state)),
            admit=options.pop("admit", admit_all),
            config=config or ServerConfig(debounce_quiet_s=0.01),
            **options,
        )
        if ready:
            server.set_ready()
        async with server.running():
            yield server

    return start


@pytest.fixture(scope="session")
def names() -> Callable[[Any], list[str]]:
    return names_in


@pytest.fixture
def sotw(state: State) -> Core:
    return Core(state, delta=False)


@pytest.fixture
def delta(state: State) -> Core:
    return Core(state, delta=True)


async def settle() -> None:
    """Let every task run until all of them wait."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(name="settle")
def settle_fixture() -> Callable[[], Awaitable[None]]:
    return settle


@pytest.fixture(scope="session")
def new_core() -> Callable[..., tuple[Core, State]]:
    """A core with a state of its own, as often as wanted."""

    def new(*, delta: bool) -> tuple[Core, State]:
        state = State()
        return Core(state, delta=delta), state

    return new


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    return Pki(tmp_path)
