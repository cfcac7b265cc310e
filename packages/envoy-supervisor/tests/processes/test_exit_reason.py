from __future__ import annotations

import pytest

from envoy_supervisor import ExitCause
from envoy_supervisor.processes._exit_reason import explain_exit
from envoy_supervisor.processes._output_log import LogLine, parse_line

REFUSED = (
    b"[critical][main] error `no such field: 'addres'` initializing config 'b.json'",
    b"no such field: 'addres'",
)
IN_USE = (
    b"[critical][main] error `cannot bind '127.0.0.1:80': Address already in use` initializing",
)
LIBRARY = (b"envoy: error while loading shared libraries: libatomic.so.1: cannot open",)


def lines(*output: bytes) -> list[LogLine]:
    return [parse_line(line) for line in output]


@pytest.mark.parametrize(
    ("returncode", "output", "asked_to_exit", "cause", "words"),
    [
        (0, (), True, ExitCause.STOPPED, "envoy was stopped"),
        (0, (), False, ExitCause.STOPPED, "exited by itself"),
        (1, REFUSED, False, ExitCause.BAD_CONFIGURATION, "refused its configuration: error `no"),
        (1, IN_USE, False, ExitCause.PORT_IN_USE, "cannot bind '127.0.0.1:80'"),
        (127, LIBRARY, False, ExitCause.MISSING_LIBRARY, "libatomic.so.1"),
        (1, (b"PARSE ERROR: Argument: --x",), False, ExitCause.BAD_CONFIGURATION, "arguments"),
        (3, (b"last words",), False, ExitCause.FAILED, "exited with status 3: last words"),
        (3, (), False, ExitCause.FAILED, "exited with status 3"),
        (-11, (b"[critical][main] bad",), False, ExitCause.CRASHED, "crashed with SIGSEGV: bad"),
        (-15, (), True, ExitCause.STOPPED, "ended by SIGTERM"),
        (-9, (), True, ExitCause.STOPPED, "did not exit in time and was killed"),
        (-9, (), False, ExitCause.KILLED, "out of memory"),
        (-60, (), False, ExitCause.CRASHED, "signal 60"),
    ],
)
def test_the_reason_is_one_sentence_with_envoys_own_words(
    returncode: int,
    output: tuple[bytes, ...],
    *,
    asked_to_exit: bool,
    cause: ExitCause,
    words: str,
) -> None:
    outcome = explain_exit(returncode, lines(*output), asked_to_exit=asked_to_exit)
    assert outcome.cause is cause
    assert words in outcome.reason
    assert "\n" not in outcome.reason
    assert (outcome.code, outcome.signal) == (
        (returncode, None) if returncode >= 0 else (None, -returncode)
    )
