"""Certificates in a thread, for programs without an event loop; and what is logged on failure."""

import logging
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

from certclient import (
    AuthorityUnavailable,
    Certificates,
    CertificatesInThread,
    FeedClosed,
    NoCertificate,
    RenewalFailed,
    RotationConfig,
    keep_fresh,
)
from certclient.testing import FakeAuthority


def source(
    config: RotationConfig, authority: FakeAuthority
) -> Callable[[], AbstractAsyncContextManager[Certificates]]:
    return lambda: keep_fresh(config, authority)


def test_certificates_are_fresh_while_the_block_runs(
    config: RotationConfig, real_authority: FakeAuthority
) -> None:
    with CertificatesInThread(source(config, real_authority)) as kept:
        first = kept.wait_for_first(timeout_s=60)
        assert kept.latest is first
        renewed = kept.renew()
        assert renewed.serial != first.serial
        assert kept.last_error is None
    assert not [each for each in threading.enumerate() if each.name == "certclient"]
    with pytest.raises(FeedClosed):
        kept.renew()


def test_several_threads_share_them(config: RotationConfig, real_authority: FakeAuthority) -> None:
    serials: list[int] = []
    with CertificatesInThread(source(config, real_authority)) as kept:
        threads = [
            threading.Thread(target=lambda: serials.append(kept.wait_for_first().serial))
            for _ in range(8)
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert len(serials) == 8
    assert len(set(serials)) == 1


def test_the_reason_is_raised_at_the_limit(
    config: RotationConfig, real_authority: FakeAuthority
) -> None:
    real_authority.fail(lambda: AuthorityUnavailable("istiod is away"))
    with CertificatesInThread(source(config, real_authority)) as kept:
        with pytest.raises(RenewalFailed, match="istiod is away"):
            kept.renew()
        with pytest.raises(NoCertificate, match=r"^no certificate within 0\.01 s: istiod is away$"):
            kept.wait_for_first(timeout_s=0.01)


def test_a_source_that_can_not_be_opened_raises_where_it_is_entered() -> None:
    async def opened() -> Certificates:
        raise OSError("no such socket")

    @asynccontextmanager
    async def broken() -> AsyncIterator[Certificates]:
        yield await opened()

    with pytest.raises(OSError, match="no such socket"), CertificatesInThread(broken):
        pass


async def test_before_the_first_answer_the_limit_says_so(
    config: RotationConfig, real_authority: FakeAuthority
) -> None:
    real_authority.hang()
    async with keep_fresh(config, real_authority) as certificates:
        with pytest.raises(NoCertificate, match="the issuer has not answered yet"):
            await certificates.wait_for_first(timeout_s=0.01)


PROGRAM = """
import asyncio
from certclient import AuthorityUnavailable, NoCertificate, RotationConfig, SpiffeId, keep_fresh
from certclient.testing import FakeAuthority

async def main():
    authority = FakeAuthority()
    authority.fail(lambda: AuthorityUnavailable("connection refused by istiod:15012"))
    workload = RotationConfig(spiffe_id=SpiffeId.parse("spiffe://cluster.local/ns/shop/sa/cart"))
    async with keep_fresh(workload, authority) as certificates:
        async for status in certificates.statuses():
            if status.failed_attempts == 2:
                break

asyncio.run(main())
"""


def test_a_program_that_configures_no_logging_sees_the_reason_once() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout == ""
    assert done.stderr == (
        "certificate request failed, there is no valid one: connection refused by istiod:15012\n"
    )


async def test_the_first_failure_is_a_warning_with_the_reason_as_a_field(
    config: RotationConfig, real_authority: FakeAuthority, caplog: pytest.LogCaptureFixture
) -> None:
    real_authority.fail(lambda: AuthorityUnavailable("away"))
    async with keep_fresh(config, real_authority) as certificates:
        with pytest.raises(RenewalFailed):
            await certificates.renew()
    record = next(each for each in caplog.records if each.levelno >= logging.WARNING)
    assert record.getMessage() == "certificate request failed, there is no valid one"
    assert record.__dict__["reason"] == "away"
