"""The examples' pages, followed to the letter: each command as it stands, each answer."""

import os
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


def _why_no_networks() -> str | None:
    """Return why workloads can't have networks of their own here; None if they can."""
    missing = [each for each in ("ip", "nft", "curl") if shutil.which(each) is None]
    if missing:
        return f"needs {', '.join(missing)}"
    return None if os.getuid() == 0 else "networks of workloads need root here"


@pytest.mark.parametrize("example", sorted(each.name for each in EXAMPLES.iterdir()))
async def test_each_command_of_an_example_says_what_is_written(
    example: str, tmp_path: Path, record: Record
) -> None:
    if example == "proxyless" and shutil.which("npm") is None:
        pytest.skip("npm is not on this machine, and half of the programs are in Node")
    if example == "unmodified" and (why := _why_no_networks()) is not None:
        pytest.skip(why)
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
                if "redis" in block.text and shutil.which("redis-server") is None:
                    said = block.shell  # what it would say isn't compared either
                elif block.language == "sh":
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
