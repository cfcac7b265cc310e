"""Wait until an agent says that it is ready; used as a container's postStart hook."""

from __future__ import annotations

import time
from typing import Protocol

from mesh_agent_cli._errors import CliError
from mesh_agent_cli._http import Unanswered, send


class Clock(Protocol):
    """The time, and waiting."""

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""

    def sleep(self, seconds: float, /) -> None:
        """Wait."""


def wait_ready(
    url: str,
    *,
    timeout_s: float,
    request_timeout_s: float,
    period_s: float,
    clock: Clock = time,
) -> None:
    """Return once `url` answers 200; the first try is at once, further ones every `period_s`.

    Raises:
        CliError: it did not within `timeout_s`; the text holds the last failure.
    """
    deadline = clock.monotonic() + timeout_s
    while True:
        failure = _failure(url, request_timeout_s)
        if failure is None:
            return
        if clock.monotonic() + period_s > deadline:
            raise CliError(f"{url} was not ready within {timeout_s:g} s: {failure}")
        clock.sleep(period_s)


def _failure(url: str, request_timeout_s: float) -> str | None:
    try:
        answer = send("GET", url, timeout_s=request_timeout_s)
    except Unanswered as error:
        return str(error)
    if answer.status == 200:
        return None
    said = " ".join(answer.body[:500].decode("utf-8", "replace").split())
    return f"status {answer.status}" + (f" ({said})" if said else "")
