"""What became of fuzzers' processes, read from their output and described in lines."""

from __future__ import annotations

import base64
import re
import shlex
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from workspace import ROOT

LONGEST_SHOWN_BYTES = 2048
_LONGEST_SENTENCE = 400
_EXECUTED = re.compile(r"^stat::number_of_executed_units:\s*(\d+)", re.MULTILINE)
_MEMORY = re.compile(r"^stat::peak_rss_mb:\s*(\d+)", re.MULTILINE)
_RAISED = re.compile(
    r"^ === Uncaught Python exception: ===\n(.+(?:\n(?!Traceback).+)*)", re.MULTILINE
)
_FRAME = re.compile(r'^  File "(.+)", line (\d+), in ', re.MULTILINE)
_LIBFUZZERS_ERROR = re.compile(r"ERROR: libFuzzer: (.+)")
_WRITTEN_TO = re.compile(r"Test unit written to (.+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a fuzzer failed, in one sentence. found: the file of its input. output: its end."""

    sentence: str
    found: Path | None
    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one fuzzer. memory_mb: the most that it had."""

    name: str
    file: Path
    executions: int
    memory_mb: int
    seconds: float
    kept: int
    failure: Failure | None


def outcome_of(
    done: subprocess.CompletedProcess[str], *, name: str, file: Path, seconds: float, kept: int
) -> Outcome:
    """Read the output of a fuzzer's process."""
    return Outcome(
        name=name,
        file=file,
        executions=_number(_EXECUTED, done.stderr),
        memory_mb=_number(_MEMORY, done.stderr),
        seconds=seconds,
        kept=kept,
        failure=None if done.returncode == 0 else _failure(done),
    )


def _number(pattern: re.Pattern[str], output: str) -> int:
    found = pattern.search(output)
    return int(found[1]) if found else 0


def _failure(done: subprocess.CompletedProcess[str]) -> Failure:
    # An input that is only slow is written, too; the one that ended the process is the last.
    written = _WRITTEN_TO.findall(done.stderr)
    return Failure(
        sentence=_sentence(done),
        found=Path(written[-1]) if written else None,
        output=done.stdout[-2000:] + done.stderr[-6000:],
    )


def _sentence(done: subprocess.CompletedProcess[str]) -> str:
    """Return what was raised and where, or what libFuzzer says, or else the last line."""
    if raised := _RAISED.search(done.stdout):
        frames = _FRAME.findall(done.stdout, raised.end())
        where = f" ({_from_root(Path(frames[-1][0]))}:{frames[-1][1]})" if frames else ""
        return raised[1].replace("\n", " ")[:_LONGEST_SENTENCE] + where
    if error := _LIBFUZZERS_ERROR.search(done.stderr):
        return error[1]
    if done.returncode < 0:
        return f"ended by {signal.Signals(-done.returncode).name}"
    lines = (done.stdout + done.stderr).splitlines()
    last = next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
    return f"{last[:_LONGEST_SENTENCE]} (exit status {done.returncode})"


def description_of(outcome: Outcome) -> str:
    """Return the line of one fuzzer, with the end of its output if it has failed."""
    said = "failed" if outcome.failure else "ok"
    kept = f", {outcome.kept} inputs kept" if outcome.kept else ""
    line = (
        f"{outcome.name:40} {outcome.executions:>12,} executions"
        f" {outcome.seconds:6.0f} s {outcome.memory_mb:6} MB  {said}{kept}"
    )
    return f"{line}\n{outcome.failure.output}" if outcome.failure else line


def summary(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the last lines: who has only the end of the output learns all that is to be done."""
    total = sum(each.executions for each in outcomes)
    failed = [(each, each.failure) for each in outcomes if each.failure is not None]
    lines = [f"fuzz: {total:,} executions, {len(failed)} of {len(outcomes)} parsers failed"]
    for outcome, failure in failed:
        lines.append(f"fuzz: {outcome.name}: {failure.sentence}")
        again = _from_root(outcome.file)
        if failure.found is not None:
            found = _from_root(failure.found)
            lines += [f"  input: {found}{_shown(failure.found.read_bytes())}"]
            again = f"--one {again} {shlex.quote(found)}"
        lines.append(f"  again: python tools/fuzz.py {again}")
    return lines


def _shown(data: bytes) -> str:
    """Return an input as a line of a corpus, so that it is not lost with the machine it is on."""
    if len(data) > LONGEST_SHOWN_BYTES:
        return f", {len(data)} bytes"
    return f", in base64 {base64.b64encode(data).decode()}"


def _from_root(file: Path) -> str:
    return str(file.relative_to(ROOT) if file.is_relative_to(ROOT) else file)
