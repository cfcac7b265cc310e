"""The types of the fixtures that the tests of the command share."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint
from typing import Protocol


@dataclass(slots=True)
class Server:
    """Answers in order, the last one again and again; remembers what it was asked."""

    answers: list[tuple[int, bytes]]
    port: int = 0
    asked: list[tuple[str, str, bytes]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


class Serve(Protocol):
    """Runs a `Server` with these answers while the block runs."""

    def __call__(
        self, *answers: tuple[int, bytes], address: tuple[str, int] = ("127.0.0.1", 0)
    ) -> AbstractContextManager[Server]: ...


@dataclass(frozen=True, slots=True)
class Called:
    """How a call of the command ended, and what it printed."""

    status: int
    out: str
    error: str


class Call(Protocol):
    """Runs `mesh-agent` with these words and no plugins unless given some."""

    def __call__(self, *words: str, plugins: Mapping[str, EntryPoint] | None = None) -> Called: ...
