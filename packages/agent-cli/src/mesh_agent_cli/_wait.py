"""Wait until an agent says that it is ready; used as a container's postStart hook."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from mesh_agent_cli._errors import CliError
from mesh_agent_cli._http import Unanswered, send

_MAX_REASON_BYTES = 16 << 10


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
    explained_at: str | None = None,
    is_ready_alone: Callable[[], bool] = lambda: False,
    clock: Clock = time,
) -> None:
    """Return once `url` answers 200; the first try is at once, further ones every `period_s`.

    explained_at: where the agent says why it is not ready, for one whose Envoy does not answer.
    is_ready_alone: asked after each try that failed; says that the agent is ready and has no Envoy.

    Raises:
        CliError: it did not within `timeout_s`; the text says why not, or else the last failure.
    """
    deadline = clock.monotonic() + timeout_s
    while True:
        failure = _failure(url, request_timeout_s)
        if failure is None or is_ready_alone():
            return
        if clock.monotonic() + period_s > deadline:
            if explained_at is not None:
                failure = _explanation(explained_at, request_timeout_s) or failure
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


def _explanation(url: str, request_timeout_s: float) -> str | None:
    """Return the agent's own sentence; None if it gives none, or is ready by now."""
    try:
        answer = send("GET", url, timeout_s=request_timeout_s, max_bytes=_MAX_REASON_BYTES)
    except Unanswered:
        return None
    said = " ".join(answer.body.decode("utf-8", "replace").split())
    return said if answer.status == 503 and said else None
