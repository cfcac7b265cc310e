"""The decision whether to serve a socket ourselves or to use the server that is there."""

import asyncio
import os
from pathlib import Path

from mesh_sds._config import DEFAULT_SOCKET_NAME
from mesh_sds._errors import ConfigError, SocketUnusable
from mesh_sds.socket_path._probe import TIMEOUT_S, ForeignSocket, SecretApi, SocketChoice, probe
from mesh_sds.socket_path._socket_file import clear_path

_LOOK_AGAIN_AFTER_S = 0.1
_ENVOY_TAKES = frozenset({SecretApi.SDS, SecretApi.DELTA_SDS})


async def choose_socket(
    directory: Path,
    name: str,
    *,
    default_name: str = DEFAULT_SOCKET_NAME,
    timeout_s: float = TIMEOUT_S,
    wait_s: float = 0.0,
) -> SocketChoice:
    """Decide whether to serve `directory/name` or to use a server that is there already.

    A server there that gives Envoy secrets is used. Without one, the default name is ours to serve,
    and a dead socket is removed. Any other name was set because another process should serve it:
    its server is waited for up to `wait_s`, then it is an error. timeout_s: a server must answer
    within this.

    Raises ConfigError for a name that is a path, SocketUnusable for a path that can be neither
    served nor used.
    """
    path = directory / bare_name(name)
    loop = asyncio.get_running_loop()
    until = loop.time() + wait_s
    while True:
        waits = name != default_name and loop.time() < until
        try:
            found = await probe(path, timeout_s=timeout_s)
        except SocketUnusable:
            if not waits:
                raise
        else:
            if isinstance(found, ForeignSocket):
                if found.apis & _ENVOY_TAKES:
                    return found
                if not waits:
                    raise SocketUnusable(_no_secrets(found))
            elif name == default_name:
                clear_path(path)
                return found
            elif not waits:
                raise SocketUnusable(
                    f"no process serves {path}; start its server first, or leave the name at "
                    f"{default_name!r} to have it served here"
                )
        await asyncio.sleep(_LOOK_AGAIN_AFTER_S)


def bare_name(name: str) -> str:
    """Return `name` if it is the bare name of a file. Raises ConfigError."""
    separators = {"/", os.sep, os.altsep or os.sep}
    if not name or name in {".", ".."} or not separators.isdisjoint(name) or "\0" in name:
        raise ConfigError(
            f"socket name {name!r} is not a bare file name; its directory is fixed, "
            "so a name without path separators is right"
        )
    return name


def _no_secrets(found: ForeignSocket) -> str:
    speaks = (
        f"only the {', '.join(sorted(found.apis))}" if found.apis else "gRPC but no API of secrets"
    )
    return (
        f"{found.path} is served by a process that speaks {speaks}, and Envoy needs SDS there; "
        "stop that process, have it serve SDS, or remove the socket"
    )
