"""Explains why an Envoy ended, in one sentence that a person can act on."""

from __future__ import annotations

import logging
import os
import signal as signals
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from envoy_supervisor._config import CrashPolicy
from envoy_supervisor._exit import Exit, ExitCause
from envoy_supervisor.handover._hot_restart_files import SHARED_MEMORY
from envoy_supervisor.processes._memory_cgroup import MemoryWatch
from envoy_supervisor.processes._output_log import LogLine

MAX_MESSAGE_CHARACTERS = 400
BY_ITSELF = "envoy exited by itself (something told it to)"
_SIGNALS = frozenset(int(number) for number in signals.Signals)


def explain_exit(
    returncode: int,
    output: Sequence[LogLine],
    *,
    asked_to_exit: bool,
    memory: MemoryWatch | None = None,
) -> Exit:
    """Return how a process ended, from its return code (negative: a signal) and last output."""
    cause, reason = (
        _after_signal(-returncode, output, asked_to_exit=asked_to_exit, memory=memory)
        if returncode < 0
        else _after_exit(returncode, output, asked_to_exit=asked_to_exit)
    )
    return Exit(
        code=returncode if returncode >= 0 else None,
        signal=-returncode if returncode < 0 else None,
        cause=cause,
        reason=reason,
    )


def _after_signal(
    number: int, output: Sequence[LogLine], *, asked_to_exit: bool, memory: MemoryWatch | None
) -> tuple[ExitCause, str]:
    name = signals.Signals(number).name if number in _SIGNALS else f"signal {number}"
    if number == signals.SIGKILL:
        if asked_to_exit:
            return ExitCause.STOPPED, "envoy did not exit in time and was killed"
        if memory is not None and memory.killed():
            return ExitCause.OUT_OF_MEMORY, (
                f"envoy was killed because its memory cgroup ran out ({memory.figures()}); raise "
                "the memory limit or reduce what envoy is configured with"
            )
        figures = f" ({memory.figures()})" if memory is not None else ""
        return ExitCause.KILLED, (
            "envoy was killed by SIGKILL, which did not come from here: most often that is the "
            f"kernel when the machine or container is out of memory{figures}"
        )
    if number in (signals.SIGTERM, signals.SIGINT):
        return ExitCause.STOPPED, f"envoy was ended by {name}"
    if number == signals.SIGBUS and _is_full(SHARED_MEMORY):
        # A file system provides the pages of a mapped file when they are first written to.
        return ExitCause.CRASHED, (
            f"envoy crashed with {name} because {SHARED_MEMORY} is full; make room there, or "
            "switch hot restart off, which needs it"
        )
    return ExitCause.CRASHED, _with_last_message(f"envoy crashed with {name}", output)


def _is_full(directory: Path) -> bool:
    try:
        return os.statvfs(directory).f_bavail == 0
    except OSError:
        return False


def _after_exit(
    code: int, output: Sequence[LogLine], *, asked_to_exit: bool
) -> tuple[ExitCause, str]:
    if code == 0:
        reason = "envoy was stopped" if asked_to_exit else BY_ITSELF
        return ExitCause.STOPPED, reason
    text = last_message(output)
    # Envoy gives its reasons only as text: the comparisons below choose the cause, and the text
    # itself is always part of the reason.
    if "error while loading shared libraries" in text or "GLIBC_" in text:
        return (
            ExitCause.MISSING_LIBRARY,
            f"envoy cannot run on this system, a library is missing: {text}",
        )
    if "Address already in use" in text:
        return ExitCause.PORT_IN_USE, f"envoy could not listen, the port is in use: {text}"
    if code == 1 and any("initializing config" in line.text for line in output):
        return ExitCause.BAD_CONFIGURATION, f"envoy refused its configuration: {text}"
    if code == 1 and any(line.text.startswith("PARSE ERROR") for line in output):
        return ExitCause.BAD_CONFIGURATION, f"envoy refused its arguments: {text}"
    return ExitCause.FAILED, _with_last_message(f"envoy exited with status {code}", output)


def with_budget(end: Exit, policy: CrashPolicy, *, crashes: int) -> Exit:
    """Add to the reason of the last crash that the crash budget is used up."""
    if not 0 < policy.budget < crashes:
        return end
    count = "one new start" if policy.budget == 1 else f"{policy.budget} new starts"
    spent = f"the crash budget of {count} in {policy.window_s:g} s is used up"
    return replace(end, reason=f"{end.reason}; {spent}")


def last_message(output: Sequence[LogLine]) -> str:
    """Return the output's last critical record, else its last line."""
    critical = [line.text for line in output if line.component and line.level >= logging.CRITICAL]
    text = critical[-1] if critical else output[-1].text if output else ""
    # Envoy quotes the whole configuration behind some complaints, keys and all.
    return text if len(text) <= MAX_MESSAGE_CHARACTERS else f"{text[:MAX_MESSAGE_CHARACTERS]} ..."


def _with_last_message(sentence: str, output: Sequence[LogLine]) -> str:
    text = last_message(output)
    return f"{sentence}: {text}" if text else sentence
