"""Which process the agent ends with, or which application it starts."""

import os
from dataclasses import dataclass, field
from datetime import timedelta

from istio_settings import Settings
from mesh_agent.config._flags import Flags

_VARIABLE = "MESH_AGENT_EXIT_WITH"
_STOP_TIMEOUT = timedelta(seconds=20)


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedProcess:
    """A process that others start. process: its id, or the name of its program."""

    process: int | str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationConfig:
    """An application that the agent starts once it is ready.

    environment: the application's.
    stop_timeout: how long it may take to end when the agent is asked to stop; then it is killed.
    """

    command: tuple[str, ...]
    environment: dict[str, str] = field(repr=False)
    stop_timeout: timedelta


def application_config(
    settings: Settings, flags: Flags
) -> FollowedProcess | ApplicationConfig | None:
    """Return what the agent ends with; None if it runs until it is asked to stop."""
    asked = flags.exit_with or settings.text(_VARIABLE)
    name = "--exit-with" if flags.exit_with else _VARIABLE
    stop_timeout = settings.positive_duration("MESH_AGENT_APPLICATION_STOP_TIMEOUT", _STOP_TIMEOUT)
    if flags.command:
        if asked:
            settings.problems.append(
                f"{name} is {asked!r}, and an application follows `--`: the agent ends with the "
                "application that it starts, leave one of both out"
            )
        environment = dict(settings.environ)
        for each in flags.added_variables:
            environment.pop(each, None)
        return ApplicationConfig(
            command=flags.command, environment=environment, stop_timeout=stop_timeout
        )
    if not asked:
        return None
    process: int | str = int(asked) if asked.isascii() and asked.isdecimal() else asked
    if process == os.getpid() or process in (0, 1) or (isinstance(process, str) and "/" in process):
        settings.problems.append(
            f"{name} is {asked!r}, it must be the id of another process, or the name of a program "
            "without its directory"
        )
    return FollowedProcess(process=process)
