"""The server: generators on one side, streams on the other, changes pushed in between."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from prometheus_client import CollectorRegistry

from ._admission import Admit
from ._config import ServerConfig
from ._generator import Client, Generator
from ._push import PushRequest
from ._status import ClientStatus

C = TypeVar("C")


def _build_nothing(_request: PushRequest) -> None:
    """Generators that work on live state have nothing to build."""


def _always(_client: Client[C], _request: PushRequest) -> bool:
    return True


class XdsServer(Generic[C]):
    """Serves what its generators make, and pushes it again when told of a change."""

    def __init__(
        self,
        generators: Mapping[str, Generator[C]],
        *,
        admit: Admit[C],
        config: ServerConfig = ServerConfig(),  # noqa: B008  immutable
        build: Callable[[PushRequest], None] = _build_nothing,
        needs_push: Callable[[Client[C], PushRequest], bool] = _always,
        registry: CollectorRegistry | None = None,
    ) -> None:
        self._generators = generators
        self._admit = admit
        self._config = config
        self._build = build
        self._needs_push = needs_push
        self._registry = registry

    def notify(self, request: PushRequest) -> None:
        """Something changed. Changes are gathered, built once, then pushed to who needs them."""
        raise NotImplementedError

    def push_now(self, request: PushRequest) -> None:
        """As `notify`, but without gathering: built before this returns, then pushed."""
        raise NotImplementedError

    def mark_ready(self) -> None:
        """The first state is complete. Until then streams are refused with UNAVAILABLE."""
        raise NotImplementedError

    def clients(self) -> tuple[ClientStatus, ...]:
        """Every stream and what it has been sent, refused and accepted."""
        raise NotImplementedError
