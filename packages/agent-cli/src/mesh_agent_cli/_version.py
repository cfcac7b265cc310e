"""The installed versions, for people and for scripts."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from enum import StrEnum

_DISTRIBUTIONS = ("mesh-agent", "mesh-agent-cli")


class OutputFormat(StrEnum):
    """A form for scripts."""

    YAML = "yaml"
    JSON = "json"


def versions() -> Mapping[str, str]:
    """Return the agent's version, or this command's alone where no agent is installed."""
    from importlib.metadata import PackageNotFoundError, version

    found: dict[str, str] = {}
    for name in _DISTRIBUTIONS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    newest = next(iter(found.values()), "unknown (not installed as a package)")
    return {"version": newest, **found, "python": platform.python_version()}


def render_version(found: Mapping[str, str], *, short: bool, output: OutputFormat | None) -> str:
    """Return the versions as text; `short` counts only without `output`."""
    match output:
        case OutputFormat.JSON:
            return json.dumps({"clientVersion": dict(found)}, indent=2)
        case OutputFormat.YAML:
            # A JSON string is a YAML string.
            lines = [f"  {name}: {json.dumps(value)}" for name, value in found.items()]
            return "\n".join(["clientVersion:", *lines])
        case None:
            if short:
                return found["version"]
            return ", ".join(f"{name} {value}" for name, value in found.items())
