"""The support modules on the path, a certificate authority, and a starter of relays."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "support"))

from relays import Authority, RelayStarter, new_authority


@pytest.fixture
def authority() -> Authority:
    return new_authority()


@pytest.fixture
def start_relay(socket_dir: Path) -> RelayStarter:
    return RelayStarter(socket_dir)
