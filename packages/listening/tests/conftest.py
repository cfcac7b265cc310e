import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "support"))


@pytest.fixture(autouse=True)
def _refusing_ends_with_the_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """However far apart a slow machine lets refusals come, they are one time of refusing."""
    monkeypatch.setattr("mesh_listening.acceptors._refusal_log._QUIET_S", 3600.0)


@pytest.fixture
def socket_path(socket_dir: Path) -> Path:
    return socket_dir / "listening" / "socket"
