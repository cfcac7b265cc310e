"""The support modules on the path, a certificate authority, and a starter of relays."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "support"))

from mesh_testkit.certificates import Authority
from relays import RelayStarter


@pytest.fixture
def authority() -> Authority:
    return Authority()


@pytest.fixture
def start_relay(socket_dir: Path) -> RelayStarter:
    return RelayStarter(socket_dir)
