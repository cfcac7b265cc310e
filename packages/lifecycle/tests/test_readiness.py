import asyncio
import signal

import pytest

from mesh_lifecycle import Readiness, stop_signals


def test_ready_only_when_every_condition_is_set() -> None:
    readiness = Readiness()
    seen = [readiness.ready]
    envoy, names = readiness.register("envoy"), readiness.register("names")
    seen.append(readiness.ready)
    envoy.set()
    seen.append(readiness.ready)
    names.set()
    seen.append(readiness.ready)
    assert seen == [True, False, False, True]


def test_reasons_name_what_is_missing_in_order_of_registration() -> None:
    readiness = Readiness()
    envoy = readiness.register("envoy")
    names = readiness.register("names")
    envoy.unset("not live, current state is DRAINING")
    assert readiness.reasons() == ("envoy: not live, current state is DRAINING", "names: not yet")
    names.set()
    assert readiness.reasons() == ("envoy: not live, current state is DRAINING",)


async def test_waiting_ends_when_the_last_condition_is_set_and_unset_counts() -> None:
    readiness = Readiness()
    first, second = readiness.register("first"), readiness.register("second")
    waiting = asyncio.create_task(readiness.wait_ready())
    first.set()
    first.unset("gone again")
    second.set()
    await asyncio.sleep(0)
    assert not waiting.done()
    first.set()
    await asyncio.wait([waiting])
    assert waiting.done()


def test_a_name_can_be_registered_once() -> None:
    readiness = Readiness()
    readiness.register("envoy")
    with pytest.raises(ValueError, match="'envoy' is registered already"):
        readiness.register("envoy")


async def test_a_service_that_is_asked_to_stop_is_not_ready() -> None:
    with stop_signals(signal.SIGUSR1) as stopping:
        readiness = Readiness(stopping)
        readiness.register("envoy").set()
        seen = [readiness.ready]
        stopping.request("SIGTERM")
        seen.append(readiness.ready)
        assert seen == [True, False]
        assert readiness.reasons() == ("stopping: SIGTERM",)


def test_the_first_moment_of_being_ready_is_kept() -> None:
    readiness = Readiness()
    envoy, names = readiness.register("envoy"), readiness.register("names")
    envoy.set()
    seen = [readiness.first_ready_at]
    names.set()
    seen.append(readiness.first_ready_at)
    envoy.unset("gone")
    envoy.set()
    seen.append(readiness.first_ready_at)
    assert seen[0] is None
    assert seen[1] is not None
    assert seen[1] == seen[2]
