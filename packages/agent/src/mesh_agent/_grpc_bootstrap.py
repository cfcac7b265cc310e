"""The bootstrap file of a gRPC application that takes its configuration itself.

It names the relay's socket and the certificate's files; its form is in gRFC A27.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path

import certclient
import envoy_supervisor
from envoy_supervisor import JSON
from mesh_agent._config import AgentConfig
from mesh_agent._errors import BootstrapNotWritten
from mesh_filewatch import ReadTimedOut, run_in_thread

_MODE = 0o644
_INBOUND_LISTENER = "xds.istio.io/grpc/lds/inbound/%s"


def grpc_bootstrap(config: AgentConfig) -> Mapping[str, JSON]:
    """Returns the bootstrap of gRPC's own xDS clients (gRFC A27), with the names of Istio's."""
    envoy = config.envoy.bootstrap
    if not isinstance(envoy, envoy_supervisor.BootstrapConfig):
        raise TypeError(
            "the gRPC bootstrap needs the node, which a bootstrap of the user's own does not give"
        )
    locality: dict[str, JSON] = {
        name: text for name, text in asdict(envoy.locality).items() if text
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
                    "refresh_interval": "900s",
                },
            }
        }
    return bootstrap


async def write_grpc_bootstrap(path: Path, bootstrap: Mapping[str, JSON]) -> None:
    try:
        await run_in_thread(partial(_write, path, bootstrap), path=path)
    except ReadTimedOut as error:
        raise BootstrapNotWritten(f"{path} can't be written: {error.strerror}") from error


def _write(path: Path, bootstrap: Mapping[str, JSON]) -> None:
    import tempfile  # not above: it loads the archive formats, which few agents need

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(bootstrap, file, indent=2)
        Path(name).chmod(_MODE)
        Path(name).replace(path)
    except OSError as error:
        raise BootstrapNotWritten(f"{path} can't be written: {error.strerror}") from error


def files_needed(config: AgentConfig, bootstrap_path: Path) -> tuple[Path, ...]:
    """Returns the files without which the application can't start."""
    if config.output is None:
        return (bootstrap_path,)
    files = certclient.FilesConfig.in_directory(config.output.directory)
    return bootstrap_path, files.certificate_path, files.key_path, files.root_path
