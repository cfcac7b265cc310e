import asyncio
import logging
import os
import signal

import pytest

from mesh_lifecycle import drain_within, stop_signals


async def test_signal_becomes_a_request_to_stop_with_its_name() -> None:
    with stop_signals(signal.SIGUSR1) as stopping:
        assert not stopping.requested
        os.kill(os.getpid(), signal.SIGUSR1)
        assert await stopping.wait() == "SIGUSR1"
        assert stopping.requested


async def test_first_reason_is_kept_and_further_requests_are_counted() -> None:
    with stop_signals(signal.SIGUSR1) as stopping:
        stopping.request("quit asked for")
        stopping.request("SIGTERM")
        assert (stopping.reason, stopping.count) == ("quit asked for", 2)


async def test_handlers_are_removed_at_the_end() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stop_signals():
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before


async def test_drain_that_ends_in_time_is_not_expired() -> None:
    async with drain_within(60, what="relay") as draining:
        assert 0 < draining.remaining_s <= 60
    assert not draining.expired


async def test_drain_that_runs_out_is_cut_and_said(caplog: pytest.LogCaptureFixture) -> None:
    finished = False
    with caplog.at_level(logging.WARNING):
        async with drain_within(0.01, what="relay") as draining:
            await asyncio.Event().wait()
            finished = True
    assert draining.expired
    assert not finished
    assert draining.remaining_s == 0
    assert [getattr(record, "what", None) for record in caplog.records] == ["relay"]


async def test_drain_lets_errors_and_other_timeouts_through() -> None:
    with pytest.raises(TimeoutError, match="mine"):
        async with drain_within(60, what="relay"):
            raise TimeoutError("mine")


async def test_drain_lets_cancellation_through() -> None:
    started = asyncio.Event()

    async def drain() -> None:
        async with drain_within(60, what="relay"):
            started.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(drain())
    await started.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
