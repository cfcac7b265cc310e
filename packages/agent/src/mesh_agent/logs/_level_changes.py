"""Levels that are shown and changed while the agent runs, in the words of Envoy's admin page."""

import logging
from urllib.parse import parse_qsl

from mesh_agent.logs._scopes import SCOPES
from mesh_lifecycle import LogLevelError, parse_levels

log = logging.getLogger("mesh_agent")


def levels() -> dict[str, str]:
    """Return the level of each scope; `default` is that of all that are not named."""
    return SCOPES.levels()


def change_levels(query: str) -> None:
    """Set the levels that a query asks for: all of them, or none.

    `level=debug` is for all scopes, `dns=debug` for one, `paths=dns:debug,sds:info` for several.
    Raises `LogLevelError` for a level or a scope that there is not.
    """
    items = []
    try:
        fields = parse_qsl(query, keep_blank_values=True, max_num_fields=100)
    except ValueError as error:
        raise LogLevelError(str(error)) from error
    for name, value in fields:
        if name == "paths":
            items.append(value)
        else:
            items.append(f"{'all' if name == 'level' else name}:{value}")
    wanted = parse_levels(",".join(items))
    for scope, _ in wanted:
        if scope.partition(" ")[0] == "envoy":
            raise LogLevelError(
                "envoy's levels are changed at its own admin interface: POST /logging?level=debug "
                "on port 15000"
            )
        if obstacle := SCOPES.obstacle(scope):
            raise LogLevelError(
                f"log scope {scope!r}: {obstacle}; scopes are all, {', '.join(SCOPES.names)}, and "
                "the names of loggers, as the lines of the log have them"
            )
    SCOPES.set_levels(wanted)
    if wanted:
        log.info("log levels changed", extra={"asked": ",".join(items)})
