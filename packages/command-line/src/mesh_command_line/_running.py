"""One run of a command: its exit status, and one sentence for whatever ends it early."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress

from mesh_command_line._errors import CommandError

INTERRUPTED = 130
"""The exit status of a shell's command that Ctrl-C ended."""


def exit_status(
    run: Callable[[], object],
    *,
    name: str,
    wrong_call: Callable[[Exception], str | None] = lambda _: None,
) -> int:
    """Call `run` and return the exit status: what it returns if that is a number, or 0.

    name: the command's, which begins each sentence on standard error. wrong_call: says what is
    wrong with the call if an exception means that, and None if it does not.

    An output whose reader has gone ends the command with 1 and without a word: a reader such
    as `head` has left because it has enough.
    """
    try:
        try:
            result = run()
        finally:  # also after an exit that `run` itself asks for
            sys.stdout.flush()
    except CommandError as error:
        say(str(error), name=name)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _write_nothing_more()
        return 1
    except Exception as error:
        if (sentence := wrong_call(error)) is None:
            raise
        say(sentence, name=name)
        return 2
    return result if isinstance(result, int) else 0


def say(sentence: str, *, name: str) -> None:
    """Print a sentence on standard error, as the command of this name."""
    print(f"{name}: {sentence}", file=sys.stderr)  # noqa: T201 - this is what a command does


def _write_nothing_more() -> None:
    # Python would report the closed pipe once more, when it flushes its streams at exit.
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
