"""A whole process whose clock jumps, that is stopped, and whose authority misbehaves."""

import asyncio
import itertools
import json
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest

from certclient import IstioCaConfig, RotationConfig, SpiffeId, istio_ca, keep_fresh
from certclient.testing import FakeAuthority, FakeIstioCa, fake_istio_ca

LIBRARY = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
needs_faketime = pytest.mark.skipif(
    LIBRARY is None, reason="libfaketime is not installed (apt-get install libfaketime)"
)
CART = "spiffe://cluster.local/ns/shop/sa/cart"

log = logging.getLogger(__name__)


class ShiftedClock:
    """The wall clock of a machine whose clock was set."""

    def __init__(self) -> None:
        self.shift_s = 0.0

    def now(self) -> float:
        return time.time() + self.shift_s

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Machine:
    """A `certclient watch` under a clock that can be set."""

    def __init__(
        self, process: asyncio.subprocess.Process, clock: ShiftedClock, file: Path
    ) -> None:
        self.process = process
        self._clock = clock
        self._file = file

    def set_clock(self, shift_s: float) -> None:
        self._clock.shift_s = shift_s
        temporary = self._file.with_suffix(".new")
        temporary.write_text(f"{shift_s:+.0f}")
        temporary.replace(self._file)

    async def certificate(self) -> str:
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            facts = json.loads(line)
            if facts["event"] == "certificate":
                return str(facts["serial"])
        raise AssertionError("the command ended")


@asynccontextmanager
async def machine(tmp_path: Path, *, lifetime: str) -> AsyncIterator[tuple[Machine, FakeIstioCa]]:
    clock = ShiftedClock()
    shift = tmp_path / "shift"
    shift.write_text("+0")
    async with asyncio.timeout(60), fake_istio_ca(FakeAuthority(clock=clock)) as ca:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "certclient", "watch", "--json", "--ca", ca.address),
            *("--plaintext", "--spiffe-id", CART, "--lifetime", lifetime),
            stdout=asyncio.subprocess.PIPE,
            env={
                **os.environ,
                "LD_PRELOAD": str(LIBRARY),
                "FAKETIME_TIMESTAMP_FILE": str(shift),
                "FAKETIME_NO_CACHE": "1",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
                "DONT_FAKE_MONOTONIC": "1",
            },
        )
        try:
            yield Machine(process, clock, shift), ca
        finally:
            if process.returncode is None:
                process.kill()
            if process.stdout is not None:
                await process.stdout.read()
            await process.wait()


@needs_faketime
@pytest.mark.parametrize("shift_s", [3 * 86400, -86400], ids=["+3 days", "-1 day"])
async def test_a_clock_that_is_set_renews_once(tmp_path: Path, shift_s: float) -> None:
    async with machine(tmp_path, lifetime="24h") as (machine_, ca):
        first = await machine_.certificate()
        started = time.monotonic()
        machine_.set_clock(shift_s)
        assert await machine_.certificate() != first
        log.info("renewed", extra={"after_s": round(time.monotonic() - started, 2)})
        machine_.process.send_signal(signal.SIGTERM)
        assert await machine_.process.wait() == 0
        assert len(ca.asked_at) == 2


@needs_faketime
async def test_a_machine_that_slept_ten_minutes_renews_once(tmp_path: Path) -> None:
    """Stopped, with the wall clock going on: to the process it is a suspend."""
    async with machine(tmp_path, lifetime="15m") as (machine_, ca):
        first = await machine_.certificate()
        machine_.process.send_signal(signal.SIGSTOP)
        machine_.set_clock(600)
        machine_.process.send_signal(signal.SIGCONT)
        assert await machine_.certificate() != first
        machine_.process.send_signal(signal.SIGTERM)
        assert await machine_.process.wait() == 0
        assert len(ca.asked_at) == 2


def gaps(ca: FakeIstioCa) -> list[float]:
    found = [after - before for before, after in itertools.pairwise(ca.asked_at)]
    log.info("requests", extra={"gaps_s": [round(gap, 2) for gap in found]})
    return found


@asynccontextmanager
async def asking(
    config: RotationConfig, authority: FakeAuthority, *, timeout_s: float = 10.0
) -> AsyncIterator[FakeIstioCa]:
    async with asyncio.timeout(60), fake_istio_ca(authority) as ca:
        client = IstioCaConfig(address=ca.address, root_certificate=None, timeout_s=timeout_s)
        ca.answers = []
        yield ca
        async with istio_ca(client) as issuer, keep_fresh(config, issuer) as certificates:
            await certificates.wait_for_first()


@pytest.mark.parametrize(
    ("answers", "timeout_s"),
    [
        ([grpc.StatusCode.UNAVAILABLE] * 5, 10.0),
        ([grpc.StatusCode.PERMISSION_DENIED] * 2, 10.0),
        ([None, None], 0.3),
    ],
    ids=["UNAVAILABLE five times", "PERMISSION_DENIED", "silence"],
)
async def test_an_authority_that_fails_is_asked_again_and_never_in_a_tight_loop(
    config: RotationConfig,
    real_authority: FakeAuthority,
    answers: list[grpc.StatusCode | None],
    timeout_s: float,
) -> None:
    async with asking(config, real_authority, timeout_s=timeout_s) as ca:
        ca.answers = list(answers)
    assert len(ca.asked_at) == len(answers) + 1
    # The quick tries of one attempt begin at a tenth of a second, less its jitter.
    assert min(gaps(ca)) >= 0.08


async def test_connections_that_are_reset_in_their_handshake_are_spaced(
    config: RotationConfig, tmp_path: Path
) -> None:
    came: list[float] = []
    enough = asyncio.Event()

    async def reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(5)
        came.append(time.monotonic())
        sock: socket.socket = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        writer.transport.abort()
        if len(came) >= 4:
            enough.set()

    (tmp_path / "root.pem").write_bytes(FakeAuthority().root_pem)
    server = await asyncio.start_server(reset, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    client = IstioCaConfig(address=address, root_certificate=tmp_path / "root.pem")
    async with (
        asyncio.timeout(60),
        server,
        istio_ca(client) as issuer,
        keep_fresh(config, issuer) as certificates,
    ):
        await enough.wait()
        assert certificates.latest is None
    found = [after - before for before, after in itertools.pairwise(came)]
    log.info("connections", extra={"gaps_s": [round(gap, 2) for gap in found]})
    assert min(found) >= 0.08


async def test_a_known_key_is_in_no_log_repr_or_argument(
    config: RotationConfig,
    real_authority: FakeAuthority,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    (tmp_path / "token").write_text("canary-token-0123456789")
    async with asyncio.timeout(60), fake_istio_ca(real_authority) as ca:
        client = IstioCaConfig(
            address=ca.address, root_certificate=None, token_path=tmp_path / "token"
        )
        async with istio_ca(client) as issuer, keep_fresh(config, issuer) as certificates:
            first = await certificates.wait_for_first()
            ca.answers = [grpc.StatusCode.UNAVAILABLE]
            second = await certificates.renew()
            reprs = repr((certificates.status, first, second, client, config, vars(certificates)))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "certclient", "watch", "--ca", ca.address, "--plaintext"),
            *("--spiffe-id", CART, "--token", tmp_path / "token", "--output", tmp_path / "out"),
            *("--log-level", "debug", "--on-renew", "tr '\\0' '\\n' < /proc/self/environ"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        await process.stdout.readline()
        command_line = Path(f"/proc/{process.pid}/cmdline").read_text()
        process.send_signal(signal.SIGTERM)
        out, err = await process.communicate()
    seen = "".join(
        (
            reprs,
            command_line,
            out.decode(),
            err.decode(),
            *(f"{record.getMessage()} {vars(record)}" for record in caplog.records),
        )
    )
    written = (tmp_path / "out" / "key.pem").read_text()
    keys = [first.private_key_pem.decode(), second.private_key_pem.decode(), written]
    assert SpiffeId.parse(CART) == first.spiffe_id
    assert "certificate renewed" in seen
    for key in keys:
        for line in key.splitlines()[1:-1]:
            assert line not in seen
    assert "canary-token" not in seen
