"""The flags, environment and directory of an agent, read back from the page that it shows them on.

With these another process of the machine composes the configuration that the agent has. Values that
the page hides are left out: nothing but what the agent tells others follows from them.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import structs

from mesh_agent.config._flags import Flags
from mesh_agent.config.shown._effective import DEFAULT, HIDDEN, SPELLINGS

_ENVIRONMENT = "env"


class StartedAs(NamedTuple):
    """The words, variables and place that an agent was started with.

    user: the id of the user that it runs as.
    """

    flags: Flags
    environ: Mapping[str, str]
    directory: Path
    user: int


def read_back(page: Mapping[str, object], *, version: str) -> StartedAs | None:
    """Return what the agent of a page `/debug/config` was started with; None if it does not tell.

    version: of `Flags`, which the page does not show.
    """
    process = page.get("process")
    match process:
        case {"directory": str(directory), "user": int(user)}:
            pass
        case _:
            return None
    try:
        flags = msgspec.convert({**dict(_flags(page)), "version": version}, Flags)
    except msgspec.ValidationError:
        return None
    flags = structs.replace(flags, log_target=tuple(flags.log_target))
    return StartedAs(flags, dict(_environ(page)), Path(directory), user)


def _set(page: Mapping[str, object], section: str) -> Iterator[tuple[str, object, str]]:
    """Yield name, value and origin of the values in a section that somebody has set."""
    entries = page.get(section)
    for name, entry in entries.items() if isinstance(entries, dict) else ():
        match entry:
            case {"value": value, "from": str(origin)} if origin != DEFAULT and value != HIDDEN:
                yield name, value, origin
            case _:
                pass


def _flags(page: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    fields = {spelling: field for field, spelling in SPELLINGS.items()}
    for name, value, _ in _set(page, "flags"):
        if name == "type":
            yield "role", value
        elif name == "--log_target" and isinstance(value, str):
            yield fields[name], tuple(value.split(","))
        elif name in fields:
            yield fields[name], value
    match page.get("results"):
        # The one that the agent found, which may have come from its PATH.
        case {"envoy": {"value": str(path)}}:
            yield "envoy_path", path
        case _:
            pass


def _environ(page: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for name, value, origin in _set(page, "variables"):
        if origin == _ENVIRONMENT:
            yield name, value if isinstance(value, str) else json.dumps(value)
    yield "PROXY_CONFIG", json.dumps({name: value for name, value, _ in _set(page, "proxyConfig")})
