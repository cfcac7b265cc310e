"""The settings of an agent for a gRPC application that takes its configuration itself."""

import os
from datetime import timedelta
from pathlib import Path

from istio_settings import Settings
from mesh_listening import LONGEST_SOCKET_PATH_BYTES

_BOOTSTRAP = "./etc/istio/proxy/grpc-bootstrap.json"
_REFRESH = "MESH_AGENT_GRPC_REFRESH_INTERVAL"
_LEAST_REFRESH = timedelta(seconds=1)
"""gRPC's own."""


def grpc_bootstrap_file(settings: Settings, socket: Path) -> Path | None:
    """Return where the bootstrap is written; None where there is an Envoy. socket: the relay's."""
    if not settings.flag("DISABLE_ENVOY"):
        return None
    # The agent listens by the path as it stands, which may be shorter; its application runs
    # elsewhere, and needs the whole.
    path = socket.absolute()
    if (length := len(os.fsencode(path))) > LONGEST_SOCKET_PATH_BYTES:
        settings.problems.append(
            f"the path of the configuration socket, {path}, is {length} bytes long, and "
            f"applications can connect to at most {LONGEST_SOCKET_PATH_BYTES}: run the agent in a "
            "directory with a shorter name, or name another one in the proxy config's configPath"
        )
    return settings.path("GRPC_XDS_BOOTSTRAP", _BOOTSTRAP)


def grpc_refresh(settings: Settings) -> timedelta | None:
    """Return how often the application reads its certificate; None: by the lifetime."""
    if not settings.text(_REFRESH):
        return None
    value = settings.duration(_REFRESH, _LEAST_REFRESH)
    if value < _LEAST_REFRESH:
        settings.problems.append(
            f"{_REFRESH} is {settings.text(_REFRESH)!r}, it must be 1s or longer"
        )
    return value
