"""Running an application: its exit status, its signals, its files, and starts that fail."""

import asyncio
import os
import signal
import sys
import textwrap
from pathlib import Path

import pytest

from mesh_lifecycle.processes import Application, ApplicationError, start_application
from mesh_testkit import PATIENCE_S, until


def start(*command: str, **environment: str) -> Application:
    return start_application(command, environment={"PATH": os.environ["PATH"], **environment})


async def ended(application: Application) -> int:
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await application.wait()
    finally:
        application.close()


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", textwrap.dedent(code))


@pytest.mark.parametrize(
    ("script", "status"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137), ("kill $$", 143)]
)
async def test_the_exit_status_is_the_shell_s(script: str, status: int) -> None:
    application = start("/bin/sh", "-c", script)
    assert await ended(application) == status
    assert application.exit_status == status


@pytest.mark.parametrize(
    ("name", "status", "reason"),
    [
        ("no-such-program", 127, "no such program"),
        ("/no/such/program", 127, "no such program"),
        ("/etc/hostname/program", 127, "no such program"),
        ("/etc/passwd", 126, "permission denied"),
        ("/etc", 126, "permission denied"),
    ],
)
async def test_a_program_that_can_not_be_started_is_reported_in_a_sentence(
    name: str, status: int, reason: str
) -> None:
    with pytest.raises(
        ApplicationError, match=f"the application {name} can't be .*{reason}"
    ) as raised:
        start(name)
    assert raised.value.exit_status == status


async def test_a_file_that_is_no_program_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("no program\n")
    path.chmod(0o755)
    with pytest.raises(ApplicationError, match="no program for this machine") as raised:
        start(str(path))
    assert raised.value.exit_status == 126


async def test_the_application_has_none_of_this_process_s_files(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.set_inheritable(write, True)
    output = tmp_path / "files"
    code = f"""
        import os
        there = os.listdir("/proc/self/fd")
        open({str(output)!r}, "w").write(" ".join(sorted(there)))
    """
    try:
        assert await ended(start(*python(code))) == 0
    finally:
        os.close(read)
        os.close(write)
    assert set(output.read_text().split()) <= {"0", "1", "2", "3"}, "3 is the listing's own"


async def test_the_application_has_the_environment_it_is_given(tmp_path: Path) -> None:
    output = tmp_path / "environment"
    assert await ended(start("/bin/sh", "-c", f"env > {output}", GREETING="hello")) == 0
    lines = output.read_text().splitlines()
    assert "GREETING=hello" in lines
    assert not [line for line in lines if line.startswith("PYTEST")]


async def test_signals_reach_the_application(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    application = start(
        "/bin/sh", "-c", f"trap 'exit 9' USR1; : > {ready}; while :; do sleep 0.05; done"
    )
    await until(ready.exists, what="the application's start")
    application.signal(signal.SIGUSR1)
    assert await ended(application) == 9
    application.signal(signal.SIGUSR1)  # of an application that has ended: nothing happens


async def test_an_application_that_is_asked_to_end_has_time_for_it(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    script = f"trap 'sleep 0.2; exit 4' TERM; : > {ready}; while :; do sleep 0.05; done"
    application = start("/bin/sh", "-c", script)
    await until(ready.exists, what="the application's start")
    try:
        assert await application.stop(number=signal.SIGTERM, within_s=PATIENCE_S) == 4
    finally:
        application.close()


async def test_a_deaf_application_is_killed_with_what_it_started(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    script = f"trap '' TERM; sleep 1000 & echo $! > {ready}; wait"
    application = start("/bin/sh", "-c", script)
    await until(lambda: ready.exists() and ready.read_text().endswith("\n"), what="its start")
    child = int(ready.read_text())
    try:
        assert await application.stop(number=signal.SIGTERM, within_s=0.2) == 137
    finally:
        application.close()
    await until(lambda: not _lives(child), what="its child's end")


async def test_a_suspended_application_is_woken_to_end(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    application = start("/bin/sh", "-c", f": > {ready}; exec sleep 1000")
    await until(ready.exists, what="the application's start")
    application.signal(signal.SIGSTOP)
    try:
        assert await application.stop(number=signal.SIGTERM, within_s=PATIENCE_S) == 143
    finally:
        application.close()


async def test_a_stop_that_is_cancelled_kills_the_application(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    application = start("/bin/sh", "-c", f"trap '' TERM; : > {ready}; while :; do sleep 0.05; done")
    await until(ready.exists, what="the application's start")
    stopping = asyncio.create_task(application.stop(number=signal.SIGTERM, within_s=1000))
    await asyncio.sleep(0.1)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    assert await ended(application) == 137


@pytest.mark.parametrize("killed", [False, True])
async def test_the_application_gets_a_signal_when_its_parent_is_gone(
    tmp_path: Path, *, killed: bool
) -> None:
    output = tmp_path / "pid"
    code = f"""
        import asyncio, os
        from mesh_lifecycle.processes import start_application
        async def main():
            application = start_application(["/bin/sleep", "1000"], environment=dict(os.environ))
            open({str(output)!r}, "w").write(f"{{application.pid}}\\n")
            {"await asyncio.sleep(1000)" if killed else "os._exit(0)"}
        asyncio.run(main())
    """
    parent = await asyncio.create_subprocess_exec(*python(code))
    await until(lambda: output.exists() and output.read_text().endswith("\n"), what="its start")
    pid = int(output.read_text())
    if killed:
        parent.kill()
    await parent.wait()
    await until(lambda: not _lives(pid), what="the application's end")


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
