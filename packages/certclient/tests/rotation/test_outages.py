"""What an authority in trouble is asked, and how often. Each test prints the intervals it saw:

pytest packages/certclient/tests/rotation/test_outages.py
"""

import asyncio
import itertools
import json
import logging
import socket
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import takewhile
from pathlib import Path

import grpc
import pytest

from certclient import (
    AuthorityUnavailable,
    RetryingAuthority,
    RotationConfig,
    SigningRefused,
    keep_fresh,
)
from certclient.testing import FakeAuthority, fake_istio_ca
from mesh_lifecycle import Backoff
from mesh_lifecycle.testing import ManualClock

Record = Callable[[str, object], None]
CART = "spiffe://cluster.local/ns/shop/sa/cart"


def intervals(times: Sequence[float]) -> list[float]:
    return [after - before for before, after in itertools.pairwise(times)]


def written(seconds: Sequence[float]) -> str:
    shown = " ".join(f"{each:.2f}" for each in seconds[:24])
    return f"{shown}{' ...' if len(seconds) > 24 else ''} s"


# A whole process and the real clock.


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """An authority in trouble: how to call it, and when it was asked."""

    options: tuple[str, ...]
    asked_at: Sequence[float]
    enough: asyncio.Event


Troubled = Callable[[Path], AbstractAsyncContextManager[Trouble]]


def answering(*answers: grpc.StatusCode | None, call_timeout: str = "60s") -> Troubled:
    """Say these, None being nothing at all, and sign in the end."""

    @asynccontextmanager
    async def trouble(_directory: Path) -> AsyncIterator[Trouble]:
        enough = asyncio.Event()
        async with fake_istio_ca(FakeAuthority()) as ca:
            ca.answers = list(answers)
            waiting = asyncio.create_task(ca.wait_asked(len(answers) + 1))
            waiting.add_done_callback(lambda _: enough.set())
            yield Trouble(
                options=("--ca", ca.address, "--plaintext", "--call-timeout", call_timeout),
                asked_at=ca.asked_at,
                enough=enough,
            )
            waiting.cancel()

    return trouble


def resetting(times: int) -> Troubled:
    """Reset each connection in the middle of its TLS handshake."""

    @asynccontextmanager
    async def trouble(directory: Path) -> AsyncIterator[Trouble]:
        came: list[float] = []
        enough = asyncio.Event()

        async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(5)
            came.append(asyncio.get_running_loop().time())
            sock: socket.socket = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            writer.transport.abort()
            if len(came) >= times:
                enough.set()

        (directory / "root.pem").write_bytes(FakeAuthority().root_pem)
        async with await asyncio.start_server(reset, "127.0.0.1", 0) as server:
            address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
            yield Trouble(
                options=("--ca", address, "--ca-root", str(directory / "root.pem")),
                asked_at=came,
                enough=enough,
            )

    return trouble


_WITH_THE_REASON = 6


@pytest.mark.parametrize(
    ("troubled", "tries"),
    [
        pytest.param(answering(*[grpc.StatusCode.UNAVAILABLE] * 5), 5, id="UNAVAILABLE five times"),
        pytest.param(
            answering(*[grpc.StatusCode.PERMISSION_DENIED] * 4), 1, id="PERMISSION_DENIED"
        ),
        pytest.param(resetting(13), _WITH_THE_REASON, id="reset in the TLS handshake"),
    ],
)
async def test_a_process_asks_an_authority_in_trouble_now_and_then(
    troubled: Troubled,
    tries: int,
    tmp_path: Path,
    record: Record,
    request: pytest.FixtureRequest,
) -> None:
    """tries: the quick tries that one attempt makes."""
    found = intervals(await asked_of(troubled, tmp_path))
    record(request.node.callspec.id, written(found))
    # One connection a try, and none in between; where none comes about, the last try is followed by
    # one that finds out why. Tries are at least a tenth of a second apart and attempts half a
    # second, less the jitter of a tenth and of a half.
    for number, interval in enumerate(found, start=1):
        if number % tries != tries - 1 or tries != _WITH_THE_REASON:
            assert interval >= (0.08 if number % tries else 0.2)


@pytest.mark.slow
async def test_a_process_asks_a_silent_authority_now_and_then(
    tmp_path: Path, record: Record
) -> None:
    started = asyncio.get_running_loop().time()
    asked_at = await asked_of(answering(*[None] * 6, call_timeout="0.5s"), tmp_path)
    record("silence", written(intervals(asked_at)))
    # An authority that is late to look at one try may see the next right after it; but six of half
    # a second each, and what is between them, were over before it could see the seventh.
    assert asked_at[6] - started >= 3


async def asked_of(troubled: Troubled, directory: Path) -> Sequence[float]:
    """When a process asked an authority in trouble."""
    async with asyncio.timeout(60), troubled(directory) as trouble:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "certclient", "watch", "--json", *trouble.options),
            *("--spiffe-id", CART),
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            await trouble.enough.wait()
        finally:
            process.terminate()
            output, _ = await process.communicate()
    assert json.loads(output.splitlines()[0])["event"] == "error"
    return trouble.asked_at


# Two hours of an outage, by a clock that the test controls.


def silent(authority: FakeAuthority) -> None:
    authority.hang()


def away(authority: FakeAuthority) -> None:
    authority.fail(lambda: AuthorityUnavailable("ca:15012 answered UNAVAILABLE: away"))


def denied(authority: FakeAuthority) -> None:
    authority.fail(lambda: SigningRefused("ca:15012 answered PERMISSION_DENIED: who are you"))


FAILED = {
    "certificate request failed, there is no valid one",
    "certificate renewal failed, keeping the current one",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """How an authority fails whom, the longest pause between attempts, and how many at most."""

    trouble: Callable[[FakeAuthority], None]
    certificate: bool
    longest_s: float
    attempts: int

    @property
    def lasts_s(self) -> float:
        return 7200.0 if self.certificate else 1800.0

    def __str__(self) -> str:
        return f"{self.trouble.__name__}, with{'' if self.certificate else 'out'} a certificate"


# Who has no certificate looks for an authority that is away every three seconds, and asks one that
# refuses every thirty; up to four tenths less, so that a mesh does not ask in step. Five quick
# tries of an attempt take a second and a half, a silent one a minute.
@pytest.mark.parametrize(
    "outage",
    [
        Outage(trouble=away, certificate=True, longest_s=60, attempts=140),
        Outage(trouble=away, certificate=False, longest_s=3, attempts=560),
        Outage(trouble=silent, certificate=True, longest_s=60, attempts=75),
        Outage(trouble=silent, certificate=False, longest_s=3, attempts=36),
        Outage(trouble=denied, certificate=True, longest_s=60, attempts=140),
        Outage(trouble=denied, certificate=False, longest_s=30, attempts=110),
    ],
    ids=str,
)
async def test_the_pauses_of_a_long_outage_grow_and_are_bounded(
    outage: Outage,
    config: RotationConfig,
    clock: ManualClock,
    record: Record,
    caplog: pytest.LogCaptureFixture,
) -> None:
    authority = FakeAuthority(clock=clock)
    config = replace(config, lifetime=timedelta(hours=6), backoff=Backoff(jitter=0))
    caplog.set_level(logging.DEBUG, logger="certclient")
    tries = Backoff(initial_s=0.1, maximum_s=2.0, multiplier=2.0, jitter=0)
    retrying = RetryingAuthority(authority, backoff=tries, clock=clock)
    if not outage.certificate:
        outage.trouble(authority)
    async with keep_fresh(config, retrying, clock=clock) as certificates:
        await clock.settle()
        outage.trouble(authority)
        await clock.advance(3 * 3600 if outage.certificate else 0)
        caplog.clear()
        await clock.advance(outage.lasts_s)
        assert (certificates.latest is not None) is outage.certificate
    pauses = [vars(line)["next_attempt_in_s"] for line in caplog.records if line.message in FAILED]
    record(f"{outage}: {len(pauses)} attempts in {outage.lasts_s / 60:g} min", written(pauses))
    # Without a certificate the longest pauses vary.
    shortest_s = outage.longest_s if outage.certificate else outage.longest_s * 0.6
    growing = list(takewhile(lambda pause: pause < shortest_s, pauses))
    assert growing == sorted(growing)
    assert pauses[0] < 1
    assert all(shortest_s <= pause <= outage.longest_s for pause in pauses[len(growing) :])
    assert len(growing) < len(pauses) <= outage.attempts
