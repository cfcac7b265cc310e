"""What the status says of the token."""

import os
import time
from collections.abc import Mapping
from pathlib import Path

import jwt

import certclient
from mesh_agent.identity import _token_status
from mesh_testkit import PATIENCE_S


async def describe_token(authority: certclient.IstioCaConfig | None) -> Mapping[str, object]:
    return await _token_status.describe_token(authority, timeout_s=PATIENCE_S)


def authority(path: Path | None) -> certclient.IstioCaConfig:
    return certclient.IstioCaConfig(address="x:1", root_certificate=None, token_path=path)


async def test_a_tokens_fault_is_reported_and_a_good_ones_is_none(tmp_path: Path) -> None:
    path = tmp_path / "token"
    assert await describe_token(authority(path)) == {"path": str(path), "fault": "does not exist"}
    for ends_in_s, fault in ((-720, "expired 12 min ago"), (3600, None)):
        key = "a key of thirty-two bytes or more"
        path.write_text(jwt.encode({"exp": time.time() + ends_in_s}, key, algorithm="HS256"))
        assert await describe_token(authority(path)) == {"path": str(path), "fault": fault}


async def test_a_fifo_in_its_place_blocks_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "token")
    described = await describe_token(authority(tmp_path / "token"))
    assert "FIFO" in str(described["fault"])


async def test_without_a_token_there_is_nothing_to_tell() -> None:
    assert await describe_token(authority(None)) == {}
    assert await describe_token(None) == {}
