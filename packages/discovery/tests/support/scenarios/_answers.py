"""Answers to requests: status, headers and body, and what the echo server saw of the request."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Seen:
    """A request as it came to an echo server.

    path: as in the request line, with its query. headers: names in lower case; of several of one
    name the last. header_list: all of them. peer: the address it came from.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    header_list: tuple[tuple[str, str], ...]
    peer: str
    body: str = ""

    @property
    def host(self) -> str:
        return self.headers.get("host", "")


@dataclass(frozen=True)
class Answer:
    """An answer; `version` and `seen` only if an echo server gave it."""

    status: int
    headers: Mapping[str, str]
    body: str
    header_list: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def echoed(self) -> dict[str, Any]:
        try:
            found = json.loads(self.body)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def version(self) -> str:
        """The version of the echo server that answered, or empty."""
        return str(self.echoed.get("version", ""))

    @property
    def seen(self) -> Seen:
        found = self.echoed
        assert "version" in found, f"no echo server answered: {self}"
        listed = tuple((name, value) for name, value in found["headers"])
        return Seen(
            method=found["method"],
            path=found["path"],
            headers={name.lower(): value for name, value in listed},
            header_list=listed,
            peer=found["peer"],
            body=found["body"],
        )
