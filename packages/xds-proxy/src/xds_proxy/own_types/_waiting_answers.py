"""The agent's answers on one upstream stream, those of a type in order, of which some wait.

A NACK that waits holds up no other type. A later answer of the type waits behind it; an ACK brings
those before it along, as the control plane has sent what is good.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

_MOST_WAITING = 64


class WaitingAnswers:
    """Sends each answer when it is due. send: takes a request to the control plane."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send
        self._waiting: dict[str, deque[bytes]] = {}
        self._due: dict[str, asyncio.TimerHandle] = {}

    def add(self, type_url: str, answer: bytes, *, wait_s: float) -> None:
        """Send an answer, behind those of its type that wait, at once or after a time."""
        waiting = self._waiting.get(type_url)
        if waiting is None:
            if not wait_s:
                self._send(answer)
                return
            waiting = self._waiting[type_url] = deque()
            loop = asyncio.get_running_loop()
            self._due[type_url] = loop.call_later(wait_s, self._send_all, type_url)
        waiting.append(answer)
        if not wait_s or len(waiting) > _MOST_WAITING:
            self._send_all(type_url)

    def drop(self) -> None:
        """The upstream stream is over: nothing that waits is sent."""
        for due in self._due.values():
            due.cancel()
        self._due.clear()
        self._waiting.clear()

    def _send_all(self, type_url: str) -> None:
        self._due.pop(type_url).cancel()
        for answer in self._waiting.pop(type_url):
            self._send(answer)
