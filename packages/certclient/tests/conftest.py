"""What the tests here share: an identity, keys and answers issued by the fake authority."""

import sys
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "support"))

from certclient import Certificate, RotationConfig, SpiffeId
from certclient.testing import FakeAuthority, issued
from mesh_lifecycle.testing import ManualClock


@pytest.fixture
def record(
    record_property: Callable[[str, object], None], capsys: pytest.CaptureFixture[str]
) -> Callable[[str, object], None]:
    """Keep a figure: in the test's report, and on the terminal."""

    def keep(name: str, value: object) -> None:
        record_property(name, value)
        with capsys.disabled():
            sys.stdout.write(f"\n    {name}: {value}")

    return keep


@pytest.fixture
def spiffe_id() -> SpiffeId:
    return SpiffeId.for_service_account(
        trust_domain="cluster.local", namespace="shop", service_account="cart"
    )


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def authority(clock: ManualClock) -> FakeAuthority:
    return FakeAuthority(clock=clock)


@pytest.fixture
def config(spiffe_id: SpiffeId) -> RotationConfig:
    return RotationConfig(spiffe_id=spiffe_id, lifetime=timedelta(hours=1), jitter=0)


@pytest.fixture
def real_authority() -> FakeAuthority:
    """One whose certificates are valid by the real clock."""
    return FakeAuthority(intermediates=1)


@pytest.fixture
def issue(
    real_authority: FakeAuthority, spiffe_id: SpiffeId
) -> Callable[[], Awaitable[Certificate]]:
    async def issue() -> Certificate:
        return await issued(real_authority, spiffe_id)

    return issue
