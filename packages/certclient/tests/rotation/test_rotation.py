"""Rotation against a clock that the tests turn and an authority that does as they say."""

import asyncio
import errno
import itertools
import logging
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from certclient import (
    AuthorityUnavailable,
    Certificate,
    Certificates,
    FeedClosed,
    RenewalFailed,
    RetryingAuthority,
    RotationConfig,
    SigningRefused,
    keep_fresh,
)
from certclient.rotation._retry_on_change import retry_on_change
from certclient.rotation._rotation import _Rotation
from certclient.testing import FakeAuthority, Fault
from mesh_lifecycle import Backoff, SystemClock, in_background
from mesh_lifecycle.testing import ManualClock
from mesh_testkit import PATIENCE_S, until

LIFETIME_S = 3600.0
HALF = LIFETIME_S / 2


def away() -> Exception:
    return AuthorityUnavailable("ca.example:15012 answered UNAVAILABLE: connection refused")


def denied() -> Exception:
    return SigningRefused("ca.example:15012 answered PERMISSION_DENIED: who are you")


@pytest.fixture
async def certificates(
    config: RotationConfig, authority: FakeAuthority, clock: ManualClock
) -> AsyncIterator[Certificates]:
    async with keep_fresh(config, authority, clock=clock) as certificates:
        await clock.settle()
        yield certificates


@asynccontextmanager
async def collecting(certificates: Certificates) -> AsyncIterator[list[Certificate | None]]:
    """Gather everything a subscriber is sent."""
    collected: list[Certificate | None] = []

    async def collect() -> None:
        changes = certificates.changes()
        while True:
            collected.append(await anext(changes))

    task = asyncio.create_task(collect())
    try:
        yield collected
    finally:
        task.cancel()
        await asyncio.wait([task])


def gaps(authority: FakeAuthority) -> Iterator[float]:
    for before, after in itertools.pairwise(request.at for request in authority.requests):
        yield after - before


async def test_the_certificate_is_renewed_at_half_life_with_a_fresh_key(
    certificates: Certificates, authority: FakeAuthority, clock: ManualClock
) -> None:
    async with collecting(certificates) as collected:
        await clock.advance(HALF - 5)
        assert len(authority.requests) == 1
        await clock.advance(10)
        assert len(authority.requests) == 2
        first, second = collected
    assert first is not None
    assert second is not None
    assert second is certificates.latest
    assert second.serial != first.serial
    assert second.private_key_pem != first.private_key_pem
    assert {request.lifetime for request in authority.requests} == {timedelta(seconds=LIFETIME_S)}


async def test_a_long_run_of_renewals_never_lapses(
    config: RotationConfig, authority: FakeAuthority, clock: ManualClock
) -> None:
    config = replace(config, lifetime=timedelta(seconds=60), jitter=0.1)
    async with keep_fresh(config, authority, clock=clock) as certificates:
        await clock.settle()
        for _ in range(60):
            await clock.advance(60)
            assert certificates.latest is not None
            assert certificates.latest.not_after.timestamp() > clock.now()
    assert 60 * 1.6 < len(authority.requests) < 60 * 2.6


async def test_a_subscriber_who_comes_late_gets_the_newest_at_once(
    certificates: Certificates,
) -> None:
    assert await anext(certificates.changes()) is certificates.latest
    assert await certificates.wait_for_first() is certificates.latest


async def test_ten_concurrent_asks_make_one_request(
    certificates: Certificates, authority: FakeAuthority, clock: ManualClock
) -> None:
    before = certificates.latest
    asks = [asyncio.create_task(certificates.renew()) for _ in range(10)]
    await clock.settle()
    renewed = {(await ask).serial for ask in asks}
    assert len(renewed) == 1
    assert certificates.latest is not before
    assert len(authority.requests) == 2


async def test_ten_who_wait_for_the_first_make_one_request(
    config: RotationConfig, authority: FakeAuthority, clock: ManualClock
) -> None:
    authority.hang()
    async with keep_fresh(config, authority, clock=clock) as certificates:
        waiters = [asyncio.create_task(certificates.wait_for_first()) for _ in range(10)]
        asks = [asyncio.create_task(certificates.renew()) for _ in range(10)]
        await clock.settle()
        certificates.request_renewal()
        authority.answer()
        got = await asyncio.gather(*waiters, *asks)
    assert {certificate.serial for certificate in got} == {got[0].serial}
    assert len(authority.requests) == 1


async def test_a_failed_renewal_keeps_the_old_certificate(
    certificates: Certificates,
    authority: FakeAuthority,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, logger="certclient")
    before = certificates.latest
    authority.fail(away)
    await clock.advance(HALF + 100)
    assert certificates.latest is before
    assert "connection refused" in str(certificates.last_error)
    message = "certificate renewal failed, keeping the current one"
    failures = [r for r in caplog.records if r.message == message]
    assert [r.levelname for r in failures][:2] == ["WARNING", "DEBUG"], "the first, and repeats"
    attempts = [vars(r)["attempt"] for r in failures]
    assert attempts == list(range(1, len(attempts) + 1))
    assert all(0 < vars(r)["next_attempt_in_s"] <= 60 for r in failures)
    authority.answer()
    await clock.advance(62)
    assert certificates.latest is not before
    assert certificates.last_error is None
    assert certificates.status.failed_attempts == 0


@pytest.mark.parametrize("fault", list(Fault))
async def test_a_wrong_answer_never_reaches_subscribers(
    fault: Fault, certificates: Certificates, authority: FakeAuthority, clock: ManualClock
) -> None:
    async with collecting(certificates) as collected:
        authority.answer_wrongly(fault)
        with pytest.raises(RenewalFailed):
            await certificates.renew()
        await clock.advance(HALF + 100)
        assert collected == [certificates.latest]


@pytest.mark.parametrize("error", [away, denied])
async def test_an_outage_is_never_a_tight_loop(
    error: type[Exception], certificates: Certificates, authority: FakeAuthority, clock: ManualClock
) -> None:
    del certificates
    authority.fail(error)
    await clock.advance(LIFETIME_S + 900)
    waits = list(gaps(authority))[1:]
    assert min(waits) >= 0.2
    assert len(waits) < (LIFETIME_S + 900) / 2.5


async def test_an_unrenewed_certificate_is_withdrawn_at_its_end(
    certificates: Certificates,
    authority: FakeAuthority,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with collecting(certificates) as collected:
        authority.fail(away)
        await clock.advance(LIFETIME_S - 1)
        assert collected == [certificates.latest]
        await clock.advance(2)
        assert collected[1:] == [None]
        assert certificates.status.certificate is collected[-1]
        assert [r.levelno for r in caplog.records if "expired" in r.message] == [logging.ERROR]

        await clock.advance(600)
        authority.answer()
        await clock.advance(5)
        assert certificates.latest is not None
        assert collected[-1] is certificates.latest
        assert len(collected) == 3


async def test_a_hanging_authority_cannot_keep_an_expired_certificate_in_use(
    certificates: Certificates, authority: FakeAuthority, clock: ManualClock
) -> None:
    authority.hang()
    await clock.advance(LIFETIME_S + 2)
    assert certificates.latest is None
    assert certificates.last_error is not None
    assert "no answer within" in certificates.last_error
    authority.answer()
    await clock.advance(5)
    assert certificates.latest is not None


async def test_an_attempt_that_times_out_after_a_failed_try_has_both_reasons(
    config: RotationConfig, authority: FakeAuthority, clock: ManualClock
) -> None:
    authority.fail(away)
    backoff = Backoff(initial_s=1, maximum_s=1, jitter=0)
    retrying = RetryingAuthority(authority, backoff=backoff, clock=clock)
    config = replace(config, answer_timeout_s=10)
    async with keep_fresh(config, retrying, clock=clock) as certificates:
        await clock.advance(0.5)
        authority.hang()
        await clock.advance(10)
        assert certificates.last_error == (
            "no answer within 10.0 s, and the try before failed: "
            "ca.example:15012 answered UNAVAILABLE: connection refused"
        )


async def test_certificates_of_ten_seconds_survive_a_short_outage(
    config: RotationConfig, authority: FakeAuthority, clock: ManualClock
) -> None:
    config = replace(config, lifetime=timedelta(seconds=10))
    async with keep_fresh(config, authority, clock=clock) as certificates:
        await clock.settle()
        for _ in range(30):
            authority.fail(away)
            await clock.advance(4)
            assert certificates.latest is not None
            authority.answer()
            await clock.advance(6)
            assert certificates.latest is not None
            assert certificates.last_error is None


async def test_certificates_of_ten_seconds_survive_a_silent_try(
    config: RotationConfig, authority: FakeAuthority, clock: ManualClock
) -> None:
    config = replace(config, lifetime=timedelta(seconds=10))
    async with keep_fresh(config, authority, clock=clock) as certificates:
        await clock.settle()
        authority.hang()
        await clock.advance(5.5)
        authority.fail(away)
        await clock.advance(0.1)
        authority.answer()
        await clock.advance(3)
        assert certificates.latest is not None
        assert certificates.last_error is None


@pytest.mark.parametrize("jump_s", [3 * 86400.0, -86400.0, HALF + 100])
async def test_a_clock_that_jumps_renews_within_five_seconds_and_once(
    jump_s: float, certificates: Certificates, authority: FakeAuthority, clock: ManualClock
) -> None:
    before = certificates.latest
    await clock.advance(61)
    clock.jump(jump_s)
    await clock.advance(5)
    assert len(authority.requests) == 2
    assert certificates.latest is not None
    assert certificates.latest is not before
    await clock.advance(600)
    assert len(authority.requests) == 2


async def test_a_machine_that_slept_through_its_backoff_asks_at_once(
    certificates: Certificates, authority: FakeAuthority, clock: ManualClock
) -> None:
    authority.fail(away)
    await clock.advance(HALF + 100)
    asked = len(authority.requests)
    authority.answer()
    clock.jump(600)
    await clock.advance(5)
    assert len(authority.requests) == asked + 1
    assert certificates.last_error is None


async def test_small_corrections_of_the_clock_change_nothing(
    certificates: Certificates, authority: FakeAuthority, clock: ManualClock
) -> None:
    for step in (1.5, -1.5, 0.3, -0.3) * 10:
        clock.jump(step)
        await clock.advance(10)
    assert certificates.latest is not None
    assert len(authority.requests) == 1


async def test_asking_does_not_defeat_the_backoff(
    config: RotationConfig, authority: FakeAuthority, clock: ManualClock
) -> None:
    authority.fail(denied)
    async with keep_fresh(config, authority, clock=clock) as certificates:
        for _ in range(1000):
            certificates.request_renewal()
            await clock.advance(0.01)
    assert len(authority.requests) <= 12


async def test_the_authority_gives_less_than_asked_and_that_is_what_counts(
    config: RotationConfig, clock: ManualClock
) -> None:
    authority = FakeAuthority(clock=clock, lifetime=timedelta(seconds=100))
    async with keep_fresh(config, authority, clock=clock) as certificates:
        await clock.advance(53)
        assert len(authority.requests) == 2
        assert certificates.latest is not None


async def test_a_key_that_was_never_certified_is_used_again_after_an_outage(
    config: RotationConfig, authority: FakeAuthority, clock: ManualClock
) -> None:
    authority.fail(away)
    async with keep_fresh(config, authority, clock=clock) as certificates:
        await clock.advance(60)
        authority.answer()
        await clock.advance(5)
        await certificates.renew()
    keys = [request.csr.public_key() for request in authority.requests]
    assert all(key == keys[0] for key in keys[:-1])
    assert keys[-1] != keys[0]


async def test_a_bug_in_the_authority_does_not_end_rotation(
    config: RotationConfig, authority: FakeAuthority, clock: ManualClock
) -> None:
    authority.fail(lambda: KeyError("bug"))
    async with keep_fresh(config, authority, clock=clock) as certificates:
        await clock.settle()
        assert certificates.last_error == "unexpected KeyError"
        authority.fail(asyncio.CancelledError)
        await clock.advance(5)
        assert certificates.last_error == "unexpected RuntimeError"
        authority.answer()
        await clock.advance(60)
        assert certificates.latest is not None


async def test_a_machine_without_file_descriptors_is_logged_in_one_line(
    config: RotationConfig,
    authority: FakeAuthority,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    authority.fail(lambda: OSError(errno.EMFILE, "Too many open files"))
    async with keep_fresh(config, authority, clock=clock) as certificates:
        await clock.settle()
        assert certificates.last_error == "OSError: [Errno 24] Too many open files"
        assert not any(record.exc_info for record in caplog.records)
        authority.answer()
        await clock.advance(60)
        assert certificates.latest is not None


async def test_a_new_root_arrives_with_the_leaf_that_needs_it(
    certificates: Certificates, authority: FakeAuthority
) -> None:
    before = await certificates.wait_for_first()
    authority.change_root()
    after = await certificates.renew()
    assert after.trust_bundle_pem == authority.root_pem
    assert after.trust_bundle_pem != before.trust_bundle_pem


async def test_stopping_ends_what_subscribers_wait_for(
    config: RotationConfig, authority: FakeAuthority, clock: ManualClock
) -> None:
    authority.hang()
    async with keep_fresh(config, authority, clock=clock) as certificates:
        first = asyncio.create_task(certificates.wait_for_first())
        renewal = asyncio.create_task(certificates.renew())
        changes = [change async for change in _stopped_soon(certificates)]
        await clock.settle()
    for waiting in (first, renewal):
        with pytest.raises(FeedClosed):
            await waiting
    assert changes == []
    assert [change async for change in certificates.changes()] == []


async def _stopped_soon(certificates: Certificates) -> AsyncIterator[Certificate | None]:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            yield await anext(certificates.changes())


async def test_no_key_and_no_request_is_logged_even_at_debug_level(
    config: RotationConfig,
    authority: FakeAuthority,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    async with keep_fresh(config, authority, clock=clock) as certificates:
        certificate = await certificates.wait_for_first()
        authority.answer_wrongly(Fault.OTHER_KEY)
        await clock.advance(LIFETIME_S + 900)
        body = certificate.private_key_pem.splitlines()[1].decode()
    shown = "\n".join(repr(vars(record)) for record in caplog.records)
    assert "certificate renewed" in shown
    assert body not in shown
    assert "BEGIN" not in shown


def test_a_configuration_that_cannot_work_is_refused(config: RotationConfig) -> None:
    with pytest.raises(ValueError, match="lifetime must be at least 1 s"):
        replace(config, lifetime=timedelta(milliseconds=10))
    with pytest.raises(ValueError, match="between 0 and 1"):
        replace(config, grace_ratio=1.5)
    with pytest.raises(ValueError, match="above 0"):
        replace(config, answer_timeout_s=0)


async def test_an_authority_that_says_no_is_asked_every_few_seconds_once_the_identity_is_lost(
    config: RotationConfig,
    authority: FakeAuthority,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with keep_fresh(config, authority, clock=clock) as certificates:
        await clock.settle()
        authority.fail(denied)
        await clock.advance(LIFETIME_S + 2)
        assert certificates.latest is None
        caplog.clear()
        caplog.set_level(logging.DEBUG, logger="certclient")
        await clock.advance(900)
        waits = [
            record.__dict__["next_attempt_in_s"]
            for record in caplog.records
            if record.message == "certificate request failed, there is no valid one"
        ]
        assert len(waits) > 20
        assert max(waits) <= 30
        assert len(set(waits)) > 10  # not all workloads of a mesh in step
        authority.answer()
        await clock.advance(30)
        assert certificates.latest is not None


async def test_a_file_that_is_mended_is_a_reason_to_try_at_once(
    config: RotationConfig, real_authority: FakeAuthority, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    patient = replace(config, backoff=Backoff(initial_s=900, maximum_s=900, jitter=0))
    async with (
        asyncio.timeout(PATIENCE_S),
        keep_fresh(patient, real_authority, depends_on=[token]) as certificates,
    ):
        first = await certificates.wait_for_first()
        real_authority.fail(denied)
        certificates.request_renewal()
        await until(lambda: certificates.last_error is not None, what="the refusal")
        # The next attempt of its own accord is a quarter of an hour away.
        asked = len(real_authority.requests)
        while len(real_authority.requests) == asked:
            token.write_text(f"still wrong {len(real_authority.requests)}")
            await asyncio.sleep(0.05)
        real_authority.answer()
        (tmp_path / "new").write_text("good")
        (tmp_path / "new").replace(token)
        await until(lambda: certificates.latest is not first, what="a new certificate")
        assert certificates.last_error is None


async def test_a_change_during_an_attempt_that_fails_is_followed_by_another(
    config: RotationConfig, real_authority: FakeAuthority, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    patient = replace(config, backoff=Backoff(initial_s=900, maximum_s=900, jitter=0))
    rotation = _Rotation(
        patient, real_authority, clock=SystemClock(), rng=random.Random(), earlier=None
    )
    noticed = 0

    def retry() -> None:
        nonlocal noticed
        noticed += 1
        rotation.retry_now()

    certificates = rotation.certificates
    async with (
        asyncio.timeout(PATIENCE_S),
        in_background(rotation.run(), name="rotation"),
        in_background(retry_on_change(certificates, [token], retry=retry), name="retry on change"),
    ):
        await certificates.wait_for_first()
        real_authority.fail(denied)
        certificates.request_renewal()
        await until(lambda: certificates.last_error is not None, what="the refusal")
        real_authority.hang()
        asked = len(real_authority.requests)
        while len(real_authority.requests) == asked:
            token.write_text(f"wrong {noticed}")
            await asyncio.sleep(0.05)
        # Under way, and it has read the file; now the right one comes.
        before = noticed
        token.write_text("right")
        await until(lambda: noticed > before, what="the change")
        assert len(real_authority.requests) == asked + 1
        real_authority.fail(denied)
        await until(lambda: len(real_authority.requests) >= asked + 2, what="another attempt")
        rotation.close()
