"""A mesh on this machine, for tests with Envoys."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from planes._envoys import Envoy
from planes._processes import Plane


@dataclass(frozen=True)
class Lab:
    """All that a mesh on this machine needs."""

    config_dir: Path
    plane: Callable[..., Awaitable[Plane]]
    envoy: Callable[..., Awaitable[Envoy]]
    app: Callable[..., Awaitable[int]]
    secrets: Callable[..., Awaitable[Path]]
    session: aiohttp.ClientSession

    def write(self, **documents: str) -> None:
        for name, text in documents.items():
            (self.config_dir / f"{name}.yaml").write_text(text)
