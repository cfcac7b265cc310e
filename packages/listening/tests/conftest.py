import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "support"))


@pytest.fixture
def socket_path(socket_dir: Path) -> Path:
    return socket_dir / "listening" / "socket"
