"""The settings of gRPC applications that take their configuration themselves."""

import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import msgspec

import envoy_supervisor
import xds_proxy
from istio_settings import Settings, SettingWithoutEffect
from mesh_listening import LONGEST_SOCKET_PATH_BYTES

_VARIABLE = "GRPC_XDS_BOOTSTRAP"
_BOOTSTRAP = "./etc/istio/proxy/grpc-bootstrap.json"
_SOCKET = "GRPC"
_REFRESH = "MESH_AGENT_GRPC_REFRESH_INTERVAL"
_LEAST_REFRESH = timedelta(seconds=1)
"""gRPC's own."""
GRPC_STREAMS = 256
"""A program has a stream for each target that it calls, and one for its server."""


class GrpcBesideEnvoy(msgspec.Struct, frozen=True, kw_only=True):
    """How gRPC applications beside an Envoy get their configuration.

    bootstrap: the file that they read. relay: as Envoy's, at a socket of its own, so that their
    streams are not taken for an Envoy's. is_asked_for: GRPC_XDS_BOOTSTRAP names the file, so that
    the agent is nothing without it; else it is there as it is with Istio's agent.
    """

    bootstrap: Path
    relay: xds_proxy.RelayConfig
    is_asked_for: bool


def serves_grpc(settings: Settings) -> bool:
    """Return whether gRPC applications are known to read what the agent writes."""
    return settings.flag("DISABLE_ENVOY") or bool(settings.text(_VARIABLE))


def grpc_bootstrap_file(settings: Settings, socket: Path) -> Path | None:
    """Return where the bootstrap is written; None where there is an Envoy. socket: the relay's."""
    if not settings.flag("DISABLE_ENVOY"):
        return None
    if (text := _too_long(socket)) is not None:
        settings.problems.append(text)
    return settings.path(_VARIABLE, _BOOTSTRAP)


def grpc_beside_envoy(
    settings: Settings, relay: xds_proxy.RelayConfig, envoy: envoy_supervisor.EnvoyConfig
) -> GrpcBesideEnvoy | None:
    """Return how gRPC applications are served beside an Envoy; None if they are not, or can't be.

    relay: Envoy's.
    """
    if settings.flag("DISABLE_ENVOY"):
        return None
    is_asked_for = bool(settings.text(_VARIABLE))
    socket = relay.socket_path.with_name(_SOCKET)
    if not isinstance(envoy.bootstrap, envoy_supervisor.BootstrapConfig):
        if is_asked_for:
            reason = "the node stands in an Envoy's bootstrap of your own, which is not read"
            settings.without_effect.append(SettingWithoutEffect(_VARIABLE, reason))
        return None
    if (text := _too_long(socket)) is not None:
        if is_asked_for:
            settings.problems.append(text)
        return None
    # As with the certificate's files: in a pod the application is another user.
    mode = 0o666 if is_asked_for and settings.in_kubernetes else 0o600
    return GrpcBesideEnvoy(
        bootstrap=settings.path(_VARIABLE, _BOOTSTRAP),
        relay=replace(relay, socket_path=socket, socket_mode=mode, max_streams=GRPC_STREAMS),
        is_asked_for=is_asked_for,
    )


def _too_long(socket: Path) -> str | None:
    """Return what is wrong with the path of a socket that applications connect to.

    The agent listens by the path as it stands, which may be shorter; its application runs
    elsewhere, and needs the whole.
    """
    path = socket.absolute()
    if (length := len(os.fsencode(path))) <= LONGEST_SOCKET_PATH_BYTES:
        return None
    return (
        f"the path of the configuration socket, {path}, is {length} bytes long, and "
        f"applications can connect to at most {LONGEST_SOCKET_PATH_BYTES}: run the agent in a "
        "directory with a shorter name, or name another one in the proxy config's configPath"
    )


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
