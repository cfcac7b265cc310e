"""A whole process whose clock jumps, that is stopped, and that has a key to keep."""

import asyncio
import json
import logging
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest

from certclient import IstioCaConfig, RotationConfig, istio_ca, keep_fresh
from certclient.testing import FakeAuthority, FakeIstioCa, fake_istio_ca

CART = "spiffe://cluster.local/ns/shop/sa/cart"
LIBFAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
"""Where there is one, the tests are run a second time with the whole process's clock shifted."""

WITH_A_CLOCK = (sys.executable, str(Path(__file__).with_name("machine_with_a_clock.py")))
COMMAND = (sys.executable, "-m", "certclient")
Record = Callable[[str, object], None]


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


@dataclass(frozen=True, slots=True)
class Shifted:
    """How to run a certclient whose clock can be set."""

    file: Path
    command: tuple[str, ...]
    environment: Mapping[str, str]


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


@pytest.fixture(params=["clock of its own", *(["libfaketime"] if LIBFAKETIME else [])])
def shifted(request: pytest.FixtureRequest, tmp_path: Path) -> Shifted:
    """Make a certclient whose wall clock is off by the seconds that a file holds."""
    file = tmp_path / "shift"
    if request.param == "libfaketime":
        return Shifted(
            file,
            COMMAND,
            {
                "LD_PRELOAD": str(LIBFAKETIME),
                "FAKETIME_TIMESTAMP_FILE": str(file),
                "FAKETIME_NO_CACHE": "1",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
                "DONT_FAKE_MONOTONIC": "1",
            },
        )
    return Shifted(file, (*WITH_A_CLOCK, str(file)), {})


@asynccontextmanager
async def machine(shifted: Shifted, *, lifetime: str) -> AsyncIterator[tuple[Machine, FakeIstioCa]]:
    clock = ShiftedClock()
    shifted.file.write_text("+0")
    async with asyncio.timeout(60), fake_istio_ca(FakeAuthority(clock=clock)) as ca:
        process = await asyncio.create_subprocess_exec(
            *(*shifted.command, "watch", "--json", "--ca", ca.address),
            *("--plaintext", "--spiffe-id", CART, "--lifetime", lifetime),
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, **shifted.environment},
        )
        try:
            yield Machine(process, clock, shifted.file), ca
        finally:
            if process.returncode is None:
                process.kill()
            if process.stdout is not None:
                await process.stdout.read()
            await process.wait()


@pytest.mark.parametrize("shift_s", [3 * 86400, -86400], ids=["+3 days", "-1 day"])
async def test_a_clock_that_is_set_renews_once(
    shifted: Shifted, shift_s: float, record: Record
) -> None:
    async with machine(shifted, lifetime="24h") as (machine_, ca):
        first = await machine_.certificate()
        started = time.monotonic()
        machine_.set_clock(shift_s)
        assert await machine_.certificate() != first
        record("clock set -> renewed", f"{time.monotonic() - started:.2f} s")
        machine_.process.send_signal(signal.SIGTERM)
        assert await machine_.process.wait() == 0
        assert len(ca.asked_at) == 2


async def test_a_machine_that_slept_ten_minutes_renews_once(
    shifted: Shifted, record: Record
) -> None:
    """Stopped, with the wall clock going on: to the process it is a suspend."""
    async with machine(shifted, lifetime="15m") as (machine_, ca):
        first = await machine_.certificate()
        machine_.process.send_signal(signal.SIGSTOP)
        machine_.set_clock(600)
        resumed = time.monotonic()
        machine_.process.send_signal(signal.SIGCONT)
        assert await machine_.certificate() != first
        record("awake -> renewed", f"{time.monotonic() - resumed:.2f} s")
        machine_.process.send_signal(signal.SIGTERM)
        assert await machine_.process.wait() == 0
        assert len(ca.asked_at) == 2


def core_limit(pid: int) -> str:
    """The size that a process's core file may have."""
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    return next(line.split()[4] for line in lines if line.startswith("Max core file size"))


async def test_a_known_key_is_in_no_log_repr_output_argument_or_core_file(
    config: RotationConfig,
    real_authority: FakeAuthority,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    (tmp_path / "token").write_text("canary-token-0123456789")
    seen: list[str] = []
    keys: list[bytes] = []
    async with asyncio.timeout(60), fake_istio_ca(real_authority) as ca:
        client = IstioCaConfig(
            address=ca.address, root_certificate=None, token_path=tmp_path / "token"
        )
        async with istio_ca(client) as issuer, keep_fresh(config, issuer) as certificates:
            first = await certificates.wait_for_first()
            ca.answers = [grpc.StatusCode.UNAVAILABLE]
            second = await certificates.renew()
            seen.append(
                repr((certificates.status, first, second, client, config, vars(certificates)))
            )
            keys += [first.private_key_pem, second.private_key_pem]
        for json_wanted in ((), ("--json",)):
            # Of its own: a certificate that is there and valid is taken up again.
            output = tmp_path / f"out{''.join(json_wanted)}"
            process = await asyncio.create_subprocess_exec(
                *(*COMMAND, "watch", "--ca", ca.address, "--plaintext", *json_wanted),
                *("--spiffe-id", CART, "--token", tmp_path / "token", "--output", output),
                *("--log-level", "debug", "--on-renew", "cat /proc/self/environ"),
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            outputs: list[bytes] = []
            try:
                assert process.stdout is not None
                assert process.stderr is not None
                outputs.append(await process.stdout.readline())
                outputs.append(await process.stderr.readuntil(b"CERTCLIENT_SERIAL="))
                files = [Path(f"/proc/{process.pid}/{name}") for name in ("cmdline", "environ")]
                seen += [file.read_text() for file in files]
                assert core_limit(process.pid) == "0"
            finally:
                process.terminate()
                outputs += await process.communicate()
            seen += [text.decode() for text in outputs]
            keys.append((output / "key.pem").read_bytes())
    seen += [f"{record.getMessage()} {vars(record)}" for record in caplog.records]
    assert len(set(keys)) == 4
    for text in seen:
        for key in keys:
            assert not any(line in text for line in key.decode().splitlines()[1:-1])
        assert "canary-token" not in text
    for expected in ("certificate renewed", "CERTCLIENT_SERIAL=", '"event": "certificate"'):
        assert any(expected in text for text in seen), expected
