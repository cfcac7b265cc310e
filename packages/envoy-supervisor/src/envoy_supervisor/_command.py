"""The command: `python -m envoy_supervisor run -c bootstrap.json` runs a supervised Envoy."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from datetime import timedelta
from pathlib import Path

from envoy_supervisor._config import CrashPolicy, DrainDirection, EnvoyConfig
from envoy_supervisor._envoy import Envoy, running
from envoy_supervisor._errors import EnvoySupervisorError
from envoy_supervisor._exit import Exit
from envoy_supervisor._restart_on_change import restart_on_change, restart_or_log
from envoy_supervisor.handover._hot_restart_files import release_stale
from envoy_supervisor.processes._find_binary import find_envoy
from mesh_lifecycle import Stopping, configure_logging, in_background, stop_signals

log = logging.getLogger("envoy_supervisor")

_TEMPORARY = "envoy-supervisor-"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and returns its exit status."""
    options = _parser().parse_args(arguments)
    configure_logging(options.log_level, as_json=options.log_as_json)
    # Which of its lines Envoy prints is decided by its own level.
    logging.getLogger("envoy_supervisor.envoy").setLevel(logging.DEBUG)
    _sweep(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=f"{_TEMPORARY}{os.getpid()}-") as temporary:
        try:
            config = _config(options, Path(temporary))
            ended = asyncio.run(_run(config, follow=options.follow))
        except EnvoySupervisorError as error:
            sys.stderr.write(f"envoy-supervisor: {error}\n")
            return 1
    if ended is None:
        return 0
    sys.stderr.write(f"envoy-supervisor: {ended.reason}\n")
    # The status that a shell shows for a signal.
    return 128 + ended.signal if ended.signal is not None else ended.code or 0


async def _run(config: EnvoyConfig, *, follow: bool) -> Exit | None:
    """Supervises until a signal comes or Envoy has ended for good; returns None for a signal.

    After a second signal no connection is waited for any more.
    """
    with stop_signals() as stopping:
        body = asyncio.create_task(_supervise(config, stopping, follow=follow), name="supervise")
        hurry = asyncio.create_task(_cancel_at_second(stopping, body), name="second signal")
        try:
            return await body
        except asyncio.CancelledError:
            if stopping.count < 2:
                raise
            return None
        finally:
            hurry.cancel()


async def _supervise(config: EnvoyConfig, stopping: Stopping, *, follow: bool) -> Exit | None:
    async with AsyncExitStack() as stack:
        hangup = stack.enter_context(_hangups())
        envoy = await stack.enter_async_context(running(config))
        if follow:
            service = restart_on_change(envoy, config)
            await stack.enter_async_context(in_background(service, name="follow files"))
        await stack.enter_async_context(
            in_background(_restart_on_hangup(envoy, hangup), name="hangup")
        )
        stop_request = asyncio.create_task(stopping.wait(), name="stop request")
        end = asyncio.create_task(envoy.wait_exit(), name="envoy exit")
        try:
            await asyncio.wait({stop_request, end}, return_when=asyncio.FIRST_COMPLETED)
            if not stopping.requested:
                return end.result()
            log.info("stopping", extra={"reason": stopping.reason})
        finally:
            stop_request.cancel()
            end.cancel()
            await asyncio.wait({stop_request, end})
    return None


async def _cancel_at_second(stopping: Stopping, body: asyncio.Task[Exit | None]) -> None:
    await stopping.wait()
    while stopping.count < 2:  # noqa: ASYNC110 - a count is no event
        await asyncio.sleep(0.05)
    body.cancel()


@contextmanager
def _hangups() -> Iterator[asyncio.Event]:
    """Provides SIGHUP as an event, from before Envoy is started: by default it ends a process."""
    loop = asyncio.get_running_loop()
    wanted = asyncio.Event()
    loop.add_signal_handler(signal.SIGHUP, wanted.set)
    try:
        yield wanted
    finally:
        loop.remove_signal_handler(signal.SIGHUP)


async def _restart_on_hangup(envoy: Envoy, wanted: asyncio.Event) -> None:
    """Looks at the files on each SIGHUP."""
    while True:
        await wanted.wait()
        wanted.clear()
        await restart_or_log(envoy)


def _sweep(directory: Path) -> None:
    """Remove the directories of earlier runs that were killed."""
    for path in directory.glob(f"{_TEMPORARY}*-*"):
        try:
            pid = path.name.removeprefix(_TEMPORARY).split("-")[0]
            if path.stat().st_uid == os.getuid() and not Path("/proc", pid).exists():
                release_stale(path)
                shutil.rmtree(path)
        except OSError as error:
            log.debug("a directory is left", extra={"path": str(path), "error": str(error)})


def _config(options: argparse.Namespace, temporary: Path) -> EnvoyConfig:
    return EnvoyConfig(
        binary=find_envoy(options.envoy, os.environ),
        bootstrap=options.config_path,
        directory=options.directory or temporary,
        termination_drain=timedelta(seconds=options.drain_s),
        minimum_drain=timedelta(seconds=options.minimum_drain_s),
        parent_shutdown_time=timedelta(seconds=options.parent_shutdown_s),
        drain_direction=DrainDirection.ALL,
        hot_restart=options.hot_restart,
        retain_sockets=options.retain_sockets,
        crashes=CrashPolicy(budget=options.crash_budget),
        log_level=options.envoy_log_level,
        concurrency=options.concurrency,
        watched_files=tuple(options.watch),
        extra_args=tuple(options.extra),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m envoy_supervisor", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run = commands.add_parser(
        "run",
        help="run Envoy until SIGTERM or SIGINT",
        description="Run Envoy until SIGTERM or SIGINT; restart it without losing a request when "
        "its files change or SIGHUP comes; start it again when it crashes.",
    )
    add = run.add_argument
    add("-c", "--config-path", type=Path, required=True, metavar="FILE", help="bootstrap (JSON)")
    add("--envoy", type=Path, metavar="PATH", help="the executable; else ENVOY_PATH, PATH, wheel")
    add("--directory", type=Path, metavar="DIR", help="for files while running; else a temporary")
    add("--drain-s", type=_seconds, default=5.0, metavar="S", help="for open connections (5)")
    add("--minimum-drain-s", type=_seconds, default=0.0, metavar="S", help="even if idle (0)")
    add("--parent-shutdown-s", type=_seconds, default=60.0, metavar="S", help="old Envoy's (60)")
    add("--crash-budget", type=int, default=5, metavar="N", help="new starts in 2 min (5); 0: none")
    add("--no-hot-restart", dest="hot_restart", action="store_false", help="never hand over")
    add(
        "--no-retain-sockets",
        dest="retain_sockets",
        action="store_false",
        help="refuse when crashed",
    )
    add("--no-follow", dest="follow", action="store_false", help="ignore changes of files")
    add("--watch", type=Path, action="append", default=[], metavar="FILE", help="follow this too")
    add("--concurrency", type=int, default=0, metavar="N", help="Envoy's worker threads")
    add("--envoy-log-level", default="warning", metavar="LEVEL")
    add("--log-level", default="info", metavar="LEVEL")
    add("--log-as-json", action="store_true")
    add("extra", nargs="*", metavar="-- ARGUMENT", help="more arguments for Envoy")
    return parser


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds < 1e9:
        raise argparse.ArgumentTypeError(f"{text} is not a time in seconds")
    return seconds
