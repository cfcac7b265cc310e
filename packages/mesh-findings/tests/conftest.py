"""Models of documents as users write them, of which findings are."""

import sys
from pathlib import Path

import pytest

sys.path.extend(
    str(Path(__file__).parents[2] / each / "tests" / "support")
    for each in ("istio-config", "mesh-model", "envoy-config", "mesh-findings")
)

from documents import Documents
from models import Models


@pytest.fixture
def yaml() -> Documents:
    return Documents()


@pytest.fixture
def model_of(tmp_path: Path) -> Models:
    return Models(tmp_path)
