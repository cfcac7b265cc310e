"""Certificates are renewed under load, and no request fails; for longer in soak_identity.py."""

from collections.abc import Callable
from pathlib import Path

import pytest

from mesh_e2e import renewing_early, rotate

pytestmark = pytest.mark.slow


async def test_certificates_rotate_under_load(
    tmp_path: Path, record: Callable[[str, object], None]
) -> None:
    outcome = await rotate(tmp_path, lifetime_s=40, seconds=300, enough=4, environ=renewing_early())
    record("through two Envoys", outcome.through_envoys.summary())
    record("new TLS handshakes", outcome.handshakes.summary())
    record("serials presented", len(outcome.presented))
    assert outcome.through_envoys.failures == []
    assert outcome.handshakes.failures == []
    assert len(outcome.presented) >= 4
    assert len(set(outcome.presented)) == len(outcome.presented), "a serial came back"
    in_their_order = [serial for serial in outcome.issued if serial in outcome.presented]
    assert outcome.presented == in_their_order
