"""The bootstrap file of gRPC applications that take their configuration themselves.

It names the relay's socket and the certificate's files; its form is in gRFC A27.

gRPC reads the certificate's files at intervals that the bootstrap gives. Istio always gives 900 s,
and a certificate whose successor comes less than that before its end would end in use. So here it
is a quarter of the time that is left of a certificate when its successor comes, and 900 s at most.
"""

import asyncio
import json
import logging
import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from msgspec import structs

import certclient
import envoy_supervisor
from envoy_supervisor import JSON
from mesh_agent._config import AgentConfig
from mesh_agent._errors import BootstrapNotWritten
from mesh_filewatch import ReadTimedOut, run_in_thread

log = logging.getLogger(__name__)

_MODE = 0o644
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_SECOND = timedelta(seconds=1)
_LONGEST_REFRESH = timedelta(seconds=900)
_LEFT_OF_MOUNTED = 0.2
_SHORTER = 0.75
"""A lifetime that is shorter by less is the one asked for, less the time that it took to come."""
_INBOUND_LISTENER = "xds.istio.io/grpc/lds/inbound/%s"


def grpc_bootstrap(config: AgentConfig, refresh: timedelta | None = None) -> Mapping[str, JSON]:
    """Return the bootstrap of gRPC's own xDS clients (gRFC A27), with the names of Istio's.

    refresh: how often they are to read the certificate's files; as often as a certificate of the
    lifetime that is asked for makes it necessary.
    """
    refresh = refresh or refresh_interval(config, config.rotation.lifetime)
    envoy = config.envoy.bootstrap
    if not isinstance(envoy, envoy_supervisor.BootstrapConfig):
        raise TypeError(
            "the gRPC bootstrap needs the node, which a bootstrap of the user's own does not give"
        )
    locality: dict[str, JSON] = {
        name: text for name, text in structs.asdict(envoy.locality).items() if text
    }
    bootstrap: dict[str, JSON] = {
        "xds_servers": [
            {
                "server_uri": f"unix://{config.relay.socket_path.absolute()}",
                "channel_creds": [{"type": "insecure"}],
                "server_features": ["xds_v3"],
            }
        ],
        "node": {
            "id": envoy.node_id,
            "metadata": {**envoy.node_metadata, "GENERATOR": "grpc"},
            "locality": locality,
        },
        "server_listener_resource_name_template": _INBOUND_LISTENER,
    }
    if config.output is not None:
        files = certclient.FilesConfig.in_directory(config.output.directory.absolute())
        bootstrap["certificate_providers"] = {
            "default": {
                "plugin_name": "file_watcher",
                "config": {
                    "certificate_file": str(files.certificate_path),
                    "private_key_file": str(files.key_path),
                    "ca_certificate_file": str(files.root_path),
                    "refresh_interval": f"{refresh // _SECOND}s",
                },
            }
        }
    return bootstrap


def refresh_interval(config: AgentConfig, lifetime: timedelta) -> timedelta:
    """Return how often an application has to read the files of certificates that live so long."""
    if config.grpc_refresh is not None:
        return config.grpc_refresh
    rotation = config.rotation
    left = lifetime * max(0.0, rotation.grace_ratio - rotation.jitter)
    if config.authority is None:
        # The platform renews the files that it mounts when it likes.
        left = lifetime * _LEFT_OF_MOUNTED
    return min(_LONGEST_REFRESH, max(_SECOND, left / 4))


async def keep_refresh_interval(
    config: AgentConfig, path: Path, certificates: certclient.Certificates
) -> None:
    """Write the bootstrap again when a certificate lives shorter than was expected; never returns.

    Applications read the file when they start: those that have read it before are to be started
    again, and the log says so.
    """
    written = refresh_interval(config, config.rotation.lifetime)
    serial = None
    async for certificate in certificates.changes():
        if certificate is None or config.output is None or certificate.serial == serial:
            continue
        serial = certificate.serial
        begin = datetime.now(UTC) if config.authority is not None else certificate.not_before
        lifetime = certificate.not_after - begin
        needed = refresh_interval(config, lifetime)
        if needed > written * _SHORTER:
            continue
        log.warning(
            "certificates are valid for less time than was asked for: gRPC applications that "
            "run already read them too seldom and have to be restarted",
            extra={
                "lifetime_s": round(lifetime.total_seconds()),
                "refresh_interval_s": needed // _SECOND,
                "refresh_interval_before_s": written // _SECOND,
                "bootstrap": str(path),
            },
        )
        await write_grpc_bootstrap(path, grpc_bootstrap(config, needed))
        written = needed
    # Rotation has stopped; a background task that returned would count as failed.
    await asyncio.Event().wait()


async def write_grpc_bootstrap(path: Path, bootstrap: Mapping[str, JSON]) -> None:
    try:
        await run_in_thread(partial(_write, path, bootstrap), path=path)
    except ReadTimedOut as error:
        raise BootstrapNotWritten(f"{path} can't be written: {error.strerror}") from error


def _write(path: Path, bootstrap: Mapping[str, JSON]) -> None:
    part = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.unlink(missing_ok=True)  # left by an agent that was killed
        with os.fdopen(os.open(part, _CREATE, _MODE), "w", encoding="utf-8") as file:
            json.dump(bootstrap, file, indent=2)
        part.chmod(_MODE)  # whatever the umask
        part.replace(path)
    except OSError as error:
        raise BootstrapNotWritten(f"{path} can't be written: {error.strerror}") from error


def files_needed(config: AgentConfig, bootstrap_path: Path) -> tuple[Path, ...]:
    """Return the files without which the application can't start."""
    if config.output is None:
        return (bootstrap_path,)
    files = certclient.FilesConfig.in_directory(config.output.directory)
    return bootstrap_path, files.certificate_path, files.key_path, files.root_path
