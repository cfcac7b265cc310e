"""What the tests here share."""

import pytest

from mesh_sds.testing import FakeSecrets


@pytest.fixture
def secrets() -> FakeSecrets:
    return FakeSecrets()
