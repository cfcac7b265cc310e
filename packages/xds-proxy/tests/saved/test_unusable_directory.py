"""A directory that can't be used: logged once, tried again at long intervals, and nothing else.

Each one is prepared in a mount namespace of its own, where a process saves; its clock is moved by
hand, so that five minutes of tries take a moment.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from accepted import CLUSTER, everything, saved_config
from mesh_testkit import PATIENCE_S
from relays import Messages, RelayStarter
from xds_proxy.testing import control_plane, envoy_stream

SAVER = """
import asyncio, json, logging, os, subprocess, sys
from pathlib import Path
sys.path[:0] = json.loads(sys.argv[2])
from accepted import CLUSTER, everything, saved_config
from envoy.config.core.v3 import base_pb2
from mesh_lifecycle import in_background
from mesh_lifecycle.testing import ManualClock
from xds_proxy.protocol._dialect import STATE_OF_THE_WORLD
from xds_proxy.saved._configuration import SavedConfiguration

logged = []
node = base_pb2.Node(id="node", cluster="cluster").SerializeToString()

class Warnings(logging.Handler):
    def emit(self, record):
        logged.append(f"{record.getMessage()}: {record.reason}")

class Counting(SavedConfiguration):
    tries = 0
    async def write(self):
        self.tries += 1
        return await super().write()

def accept(saved, text):
    saved.on_acceptance(node=node, dialect=STATE_OF_THE_WORLD, type_url=CLUSTER,
                        response=everything(CLUSTER, {"a": text}), whole=True)

async def main():
    logging.getLogger("xds_proxy").addHandler(Warnings())
    directory = Path(sys.argv[1])
    saved = Counting(saved_config(directory), ("istiod:15012",), ManualClock())
    async with in_background(saved.run(), name="saving"):
        accept(saved, "first")
        for second in range(300):
            await saved._clock.advance(1.0)
            await saved._call(lambda: None)  # what runs in the thread has ended
            if second % 50 == 0:
                accept(saved, str(second))
    problem = saved.status.problem
    tries = saved.tries
    if problem:
        subprocess.run(["sh", "-ec", sys.argv[3]], check=True)
        await saved.write()
    await saved.end()
    readable = os.access(directory, os.R_OK | os.X_OK) and os.path.isdir(directory)
    files = sorted(os.listdir(directory)) if readable else []
    print(json.dumps(dict(problem=problem, logged=logged, tries=tries, writes=saved.status.writes,
                          files=files)))

asyncio.run(main())
"""
IS_ROOT = os.geteuid() == 0
WRITTEN = "; the agent must be able to make, read and write it"
RIGHT = f"it must be a directory of user {os.geteuid()} with mode 700, or not be there yet"


class Outcome(NamedTuple):
    problem: str | None
    logged: list[str]
    tries: int
    writes: int
    files: list[str]


def save_in(directory: Path, ground: str, *, afterwards: str = "") -> Outcome:
    """Let a process save in a directory that shell commands prepare, and change afterwards."""
    paths = [each for each in sys.path if "/tests" in each]
    words = [sys.executable, "-c", SAVER, str(directory), json.dumps(paths), afterwards]
    namespace = ["unshare", "--mount"] if IS_ROOT else []
    done = subprocess.run(
        [*namespace, "sh", "-ec", f'{ground}\nexec "$@"', "sh", *words],
        check=False,
        env={**os.environ, "d": str(directory)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S * 2,
    )
    if done.returncode:
        pytest.fail(f"the saving process ended: {done.stderr}")
    return Outcome(**json.loads(done.stdout))


@pytest.mark.parametrize(
    ("ground", "problem"),
    [
        pytest.param("touch $d", f"the directory is not used: it is no directory; {RIGHT}", id="f"),
        pytest.param(
            "mkfifo $d", f"the directory is not used: it is no directory; {RIGHT}", id="fifo"
        ),
        pytest.param(
            "mkdir $d.to; ln -s $d.to $d",
            f"the directory is not used: it is a link; {RIGHT}",
            id="link",
        ),
        pytest.param(
            "ln -s $d.nowhere $d",
            f"the directory is not used: it is a link; {RIGHT}",
            id="dangling link",
        ),
    ],
)
def test_what_is_no_directory_is_logged_once(tmp_path: Path, ground: str, problem: str) -> None:
    outcome = save_in(tmp_path / "s", ground, afterwards="rm $d")
    assert outcome.problem == problem
    assert len(outcome.logged) == 1
    assert outcome.logged[0].endswith(f": {problem}")
    assert outcome.tries < 20, "five minutes of tries"
    assert outcome.writes == 1, "once it is out of the way"


def test_a_file_in_the_place_of_a_parent_is_named(tmp_path: Path) -> None:
    outcome = save_in(tmp_path / "s" / "configuration", f"touch {tmp_path}/s")
    assert outcome.problem is not None
    assert f"{tmp_path}/s is no directory" in outcome.problem
    assert len(outcome.logged) == 1


@pytest.mark.skipif(not IS_ROOT, reason="gives a directory to another user")
@pytest.mark.parametrize("mode", ["700", "777"])
def test_a_directory_of_another_user_is_logged_once(tmp_path: Path, mode: str) -> None:
    outcome = save_in(tmp_path / "s", f"install -d -o 65534 -m {mode} $d")
    assert outcome.problem == (
        "the directory is not used: it belongs to user 65534, and the agent runs as 0"
    )
    assert outcome.logged == [f"configuration is neither saved nor used: {outcome.problem}"]
    assert outcome.tries < 20
    assert outcome.files == []


@pytest.mark.skipif(shutil.which("setpriv") is None and IS_ROOT, reason="there is no setpriv")
@pytest.mark.parametrize("there", ["mkdir -m 0 $d", ":"])
def test_a_directory_that_may_not_be_used_is_logged_once(socket_dir: Path, there: str) -> None:
    """The agent's user may not make the directory, or may not open it.

    Root may do both, unless it has lost the capabilities for that.
    """
    directory = socket_dir / "parent" / "s"
    ground = f"mkdir $(dirname $d); {there}; chmod 555 $(dirname $d)\n"
    if IS_ROOT:
        ground += 'set -- setpriv --bounding-set -dac_override,-dac_read_search -- "$@"'
    outcome = save_in(directory, ground)
    assert len(outcome.logged) == 1
    assert "Permission denied; " in outcome.logged[0]
    assert outcome.tries < 20
    directory.parent.chmod(0o700)
    if directory.is_dir():
        directory.chmod(0o700)


@pytest.mark.skipif(not IS_ROOT, reason="mounts a file system")
@pytest.mark.parametrize("command", ["mkdir -m 700 $d", ":"])
def test_a_read_only_file_system_is_logged_once(tmp_path: Path, command: str) -> None:
    ground = f"mount -t tmpfs tmpfs $(dirname $d); {command}\n"
    ground += "mount -o remount,ro $(dirname $d)"
    outcome = save_in(tmp_path / "s", ground)
    assert outcome.logged == [f"the configuration is not saved: Read-only file system{WRITTEN}"]
    assert outcome.tries < 20


@pytest.mark.skipif(not IS_ROOT, reason="mounts a file system")
@pytest.mark.parametrize("free_pages", [0, 1])
def test_a_full_disk_is_logged_once_and_nothing_is_left_on_it(
    tmp_path: Path, free_pages: int
) -> None:
    """With one page free the clusters can be written, and the list of what is saved can't."""
    ground = f"""
        mount -t tmpfs -o size=64k,mode=700 tmpfs $(dirname $d); mkdir -m 700 $d
        touch $d/../other; dd if=/dev/zero of=$d/../filler bs=4096 count=100 2>/dev/null || true
        truncate -s -{4096 * free_pages} $d/../filler
    """
    outcome = save_in(tmp_path / "s", ground)
    assert len(outcome.logged) == 1
    assert outcome.logged[0].startswith(
        "the configuration is not saved: No space left on device; it takes up to twice the bytes"
    )
    assert outcome.tries < 20
    assert outcome.files == []


@pytest.mark.skipif(not IS_ROOT, reason="mounts a file system")
def test_a_disk_that_has_space_again_is_used(tmp_path: Path) -> None:
    ground = """
        mount -t tmpfs -o size=64k,mode=700 tmpfs $(dirname $d); mkdir -m 700 $d
        dd if=/dev/zero of=$d/../filler bs=4096 count=100 2>/dev/null || true
    """
    outcome = save_in(tmp_path / "s", ground, afterwards="rm $d/../filler")
    assert outcome.problem is not None
    assert outcome.writes == 1
    assert "configuration.list" in outcome.files


@pytest.mark.parametrize("ground", ["file", "link"])
async def test_a_relay_works_without_saving(
    tmp_path: Path, socket_dir: Path, ground: str, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "s"
    if ground == "file":
        directory.write_text("a file")
    else:
        directory.symlink_to(tmp_path / "nowhere")
    start = RelayStarter(socket_dir)
    async with (
        control_plane() as plane,
        start(plane.address, saved=saved_config(directory)) as running,
        envoy_stream(running.socket_path) as envoy,
    ):
        await envoy.send(Messages.request(CLUSTER))
        stream = await plane.accept()
        response = everything(CLUSTER, {"a": "1"})
        await stream.send(response)
        assert await envoy.receive() == response
        await envoy.send(Messages.request(CLUSTER, version="1", nonce="n"))
        await running.until(
            lambda relay: relay.status.saved is not None and relay.status.saved.problem is not None,
            what="what is wrong with the directory",
        )
        await stream.send(everything(CLUSTER, {"a": "2"}, nonce="m"))
        assert await envoy.receive()
    records = [each for each in caplog.records if "saved" in each.getMessage()]
    assert len(records) == 1
    assert records[0].__dict__["directory"] == str(directory)
