"""Shows a screen again and again, as `watch` does: on a terminal in place, else block by block."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime

from mesh_agent_cli._errors import CliError
from mesh_agent_cli.screens._terminal import Screen, Tone, screen, toned

_CLEAR = "\x1b[H\x1b[2J\x1b[3J"


def watch(
    render: Callable[[Screen], str],
    *,
    every_s: float,
    as_lines: bool = False,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Show what `render` returns until interrupted; an agent that does not answer is waited for.

    as_lines: without headings and clearing, for scripts that read line by line; then errors go to
    standard error.
    """
    while True:
        out = screen()
        try:
            shown = render(out)
        except CliError as error:
            if as_lines:
                print(error, file=sys.stderr)  # noqa: T201 - this is what a command does
                sleep(every_s)
                continue
            shown = toned(str(error), Tone.BAD, out)
        if as_lines:
            _write(f"{shown}\n")
        else:
            heading = f"{datetime.now(UTC):%H:%M:%S} UTC, every {every_s:g} s\n"
            _write(f"{_CLEAR if out.terminal else ''}{heading}{shown}\n\n")
        sleep(every_s)


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
