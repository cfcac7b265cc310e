"""Documents as users write them, and a folder for them."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "support"))

from documents import Documents


@pytest.fixture
def yaml() -> Documents:
    return Documents()


@pytest.fixture
def config_dir(tmp_path: Path) -> Path:
    directory = tmp_path / "config"
    directory.mkdir()
    return directory
