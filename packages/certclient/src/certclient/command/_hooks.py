"""Notifies a program of new certificate files, by a command or a signal."""

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from signal import Signals

from certclient._errors import HookFailed
from certclient.command._process import run_to_end
from certclient.x509._certificate import Certificate
from mesh_filewatch import fetch_bytes

log = logging.getLogger("certclient")

_MAX_PID_FILE_BYTES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class HookConfig:
    """The hooks after each new certificate: a command, a signal, or both.

    command: its words; run without a shell, with CERTCLIENT_SPIFFE_ID, CERTCLIENT_SERIAL,
        CERTCLIENT_NOT_AFTER and CERTCLIENT_DIRECTORY in its environment.
    signal, pid_file: the signal is sent to the process whose number is in the file.
    """

    command: tuple[str, ...] = ()
    signal: Signals | None = None
    pid_file: Path | None = None
    timeout_s: float = 60.0


async def run_hooks(
    config: HookConfig, certificate: Certificate, *, directory: Path | None
) -> None:
    """Run all hooks; raises HookFailed with the first failure, after trying the others."""
    failures = []
    if config.command:
        try:
            await _run(config.command, _environment(certificate, directory), config.timeout_s)
        except HookFailed as error:
            failures.append(error)
    if config.signal is not None and config.pid_file is not None:
        try:
            await _send(config.signal, config.pid_file)
        except HookFailed as error:
            failures.append(error)
    if failures:
        raise failures[0]


def _environment(certificate: Certificate, directory: Path | None) -> Mapping[str, str]:
    return {
        **os.environ,
        "CERTCLIENT_SPIFFE_ID": str(certificate.spiffe_id),
        "CERTCLIENT_SERIAL": f"{certificate.serial:x}",
        "CERTCLIENT_NOT_AFTER": certificate.not_after.isoformat(),
        "CERTCLIENT_DIRECTORY": str(directory or ""),
    }


async def _run(words: Sequence[str], environment: Mapping[str, str], timeout_s: float) -> None:
    name = words[0]
    try:
        code = await run_to_end(words, environment=environment, timeout_s=timeout_s)
    except TimeoutError as error:
        raise HookFailed(f"{name} was still running after {timeout_s:g} s and was ended") from error
    except OSError as error:
        raise HookFailed(f"{name} cannot be run: {error.strerror}") from error
    if code != 0:
        how = f"exited with {code}" if code > 0 else f"was killed by signal {-code}"
        raise HookFailed(f"{name} {how}")
    log.debug("renewal command ran", extra={"command": name})


async def _send(which: Signals, pid_file: Path) -> None:
    try:
        text = (await fetch_bytes(pid_file, max_bytes=_MAX_PID_FILE_BYTES)).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise HookFailed(f"pid file {pid_file} cannot be read: {error}") from error
    if not text.isdigit() or int(text) < 1:
        raise HookFailed(f"pid file {pid_file} holds {text[:40]!r}, a process number is needed")
    try:
        os.kill(int(text), which)
    except (OSError, OverflowError) as error:
        raise HookFailed(f"{which.name} not sent to process {text}: {error}") from error
    log.debug("renewal signal sent", extra={"signal": which.name, "pid": int(text)})
