"""What one subscriber may ask for."""

import logging
from pathlib import Path

import grpc
import pytest

from mesh_sds import SdsConfig, serving
from mesh_sds.testing import FakeSecrets, subscriber


@pytest.mark.parametrize("delta", [False, True], ids=["state of the world", "delta"])
async def test_a_stream_names_so_many_secrets_and_no_more_however_many_requests_it_takes(
    socket_path: Path, secrets: FakeSecrets, caplog: pytest.LogCaptureFixture, *, delta: bool
) -> None:
    async with serving(SdsConfig(socket_path=socket_path, max_names=3), secrets):
        with caplog.at_level(logging.WARNING):
            for _ in range(3):
                async with subscriber(socket_path, delta=delta) as stream:
                    await stream.ask("a", "b")
                    await stream.ask("b", "c", "d")
                    await stream.ask("b", "c", "d", "e")
                    code, message = await stream.ended()
                    assert code is grpc.StatusCode.INVALID_ARGUMENT
                    assert message is not None
                    assert message.startswith("4 names of")
    assert [record.message for record in caplog.records] == ["requests refused"]


@pytest.mark.parametrize("delta", [False, True], ids=["state of the world", "delta"])
async def test_names_that_one_stream_makes_the_server_keep_are_bounded_in_bytes(
    socket_path: Path, secrets: FakeSecrets, *, delta: bool
) -> None:
    config = SdsConfig(socket_path=socket_path, max_names=100_000)
    async with serving(config, secrets), subscriber(socket_path, delta=delta) as stream:
        await stream.ask(*(f"a-name-that-does-not-exist-{number:050}" for number in range(20_000)))
        code, message = await stream.ended()
        assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert message is not None
        assert "at most 8.0 MiB are kept" in message
