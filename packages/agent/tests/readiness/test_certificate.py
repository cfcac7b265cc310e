"""Readiness with and without a certificate."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

import certclient
from certclient.testing import FakeAuthority
from mesh_agent.readiness._certificate import certificate_condition
from mesh_lifecycle import Condition, Readiness
from mesh_lifecycle.testing import ManualClock

LIFETIME = timedelta(hours=1)


def denied() -> Exception:
    return certclient.SigningRefused("istiod:15012 answered UNAUTHENTICATED: token has expired")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def authority(clock: ManualClock) -> FakeAuthority:
    return FakeAuthority(clock=clock)


@pytest.fixture
def condition() -> Condition:
    return Readiness().register("certificate")


@pytest.fixture
async def certificates(
    authority: FakeAuthority, clock: ManualClock, condition: Condition
) -> AsyncIterator[certclient.Certificates]:
    config = certclient.RotationConfig(
        spiffe_id=certclient.SpiffeId.parse("spiffe://cluster.local/ns/shop/sa/web"),
        lifetime=LIFETIME,
    )
    async with (
        certclient.keep_fresh(config, authority, clock=clock) as kept,
        certclient.with_trust(kept, clock=clock) as certificates,
        certificate_condition(certificates, condition),
    ):
        yield certificates


async def until(
    condition: Condition, reason: str | None, certificates: certclient.Certificates
) -> None:
    async for _ in certificates.statuses():
        if condition.reason == reason:
            return


async def test_a_workload_is_not_ready_before_its_first_certificate(
    certificates: certclient.Certificates, authority: FakeAuthority, condition: Condition
) -> None:
    authority.fail(denied)
    await until(condition, f"there is none yet: {denied()}", certificates)
    authority.answer()
    certificates.request_renewal()


async def test_a_lost_identity_is_reported_with_the_reason_and_a_new_one_makes_ready_again(
    certificates: certclient.Certificates,
    authority: FakeAuthority,
    condition: Condition,
    clock: ManualClock,
) -> None:
    await certificates.wait_for_first()
    await until(condition, None, certificates)
    authority.fail(denied)
    await clock.advance(LIFETIME.total_seconds() / 2 + 60)
    assert certificates.last_error == str(denied())
    await until(condition, None, certificates)  # a renewal that fails takes nothing away
    await clock.advance(LIFETIME.total_seconds() / 2)
    assert condition.reason == f"it expired and was not renewed: {denied()}"
    authority.answer()
    await clock.advance(60)  # one that refuses is asked twice a minute
    await until(condition, None, certificates)
