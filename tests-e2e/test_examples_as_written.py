"""The examples' pages, followed to the letter: each command as it stands, each answer."""

import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from mesh_e2e import Reader, blocks_of, differences, last_words, own_network

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
pytestmark = pytest.mark.slow
Record = Callable[[str, object], None]


@pytest.mark.parametrize("example", sorted(each.name for each in EXAMPLES.iterdir()))
async def test_each_command_of_an_example_says_what_is_written(
    example: str, tmp_path: Path, record: Record
) -> None:
    if example == "proxyless" and shutil.which("npm") is None:
        pytest.skip("npm is not on this machine, and half of the programs are in Node")
    began = time.monotonic()
    said = ""
    async with AsyncExitStack() as stack:
        # pytest's own has a long name, and the socket of a proxyless workload bears it whole.
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="reader-")))
        folder = place / example
        shutil.copytree(EXAMPLES / example, folder, ignore=shutil.ignore_patterns(".mesh-local"))
        reader = Reader(folder, stack, within=await stack.enter_async_context(own_network()))
        try:
            for block in blocks_of(folder / "README.md"):
                if block.language == "sh":
                    said = await reader.follow(block)
                elif block.language == "text":
                    assert not differences(said, block.text), said
            await reader.stop()
        except BaseException as error:
            error.add_note("".join(reader.transcript))
            error.add_note(last_words(folder.rglob("*.log")))
            raise
    record(f"{example}, s", round(time.monotonic() - began, 1))
    (tmp_path / "transcript.txt").write_text("".join(reader.transcript))
