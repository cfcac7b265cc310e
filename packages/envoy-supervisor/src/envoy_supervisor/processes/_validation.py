"""Has Envoy validate a configuration before the Envoy that serves is replaced."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from envoy_supervisor._errors import EnvoySupervisorError, RestartRefused
from envoy_supervisor.handover._hot_restart_files import read_base_id
from envoy_supervisor.processes._arguments import LOG_FORMAT
from envoy_supervisor.processes._exit_reason import explain_exit
from envoy_supervisor.processes._output_log import RECENT_LINES, parse_line
from envoy_supervisor.processes._subprocess import spawn
from envoy_supervisor.processes._version import Version, bootstrap_file

CHECK_TIMEOUT_S = 60.0
MAX_OUTPUT_BYTES = 1 << 20


async def refusal_reason(version: Version, directory: Path) -> str | None:
    """Return why Envoy would refuse this version, in its own words; None if it would not."""
    with bootstrap_file(version, directory / "envoy-check.json") as path:
        code, output = await run(
            [
                str(version.config.binary),
                *("--mode", "validate", "--disable-hot-restart"),
                *("-c", str(path)),
                *(() if version.sets_log_format else ("--log-format", LOG_FORMAT)),
                "--allow-unknown-static-fields",
                *version.config.extra_args,
            ]
        )
    if code == 0:
        return None
    lines = [parse_line(line) for line in output.splitlines()[-RECENT_LINES:] if line.strip()]
    return explain_exit(code, lines, asked_to_exit=False).reason


async def check_handover(old: Path, new: Path, base_id_file: Path | None) -> None:
    """Raise `RestartRefused` if a new binary cannot take over from an old one.

    base_id_file: that of the Envoy that serves; None if none does.
    """
    if base_id_file is not None and read_base_id(base_id_file) is None:
        raise RestartRefused(
            f"{base_id_file} has no base id of the envoy to take over from (was the disk full when "
            "that one started?): stop it and start it again"
        )
    if new != old and (of_new := await hot_restart_version(new)) != (
        of_old := await hot_restart_version(old)
    ):
        raise RestartRefused(
            f"{new} cannot take over from {old}: their hot restart versions differ "
            f"({of_new} and {of_old})"
        )


async def hot_restart_version(binary: Path) -> str:
    """Return a binary's hot restart version; binaries of different ones cannot hand over."""
    code, output = await run([str(binary), "--hot-restart-version"])
    if code != 0:
        raise EnvoySupervisorError(f"{binary} --hot-restart-version exited with status {code}")
    return output.decode("utf-8", "replace").strip()


async def run(command: Sequence[str]) -> tuple[int, bytes]:
    """Run a short-lived program to its end; returns its return code and output."""
    process = spawn(command)
    output = bytearray()

    def keep(data: bytes) -> None:
        output.extend(data)
        del output[:-MAX_OUTPUT_BYTES]

    process.listen(keep, lambda: None)
    try:
        await asyncio.wait({process.exited}, timeout=CHECK_TIMEOUT_S)
    finally:
        if not process.exited.done():
            await process.kill()
    return process.exited.result(), bytes(output)
