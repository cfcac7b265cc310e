"""Settings of the agent's state: where it is, what is kept there, and for how long it counts."""

from datetime import timedelta
from pathlib import Path

import msgspec

import certclient
import xds_proxy
from istio_settings import Settings

_DIRECTORY = "./var/lib/istio/data/mesh-agent"
_CERTIFICATE = "certificate.json"
_CONFIGURATION = "configuration"
_MAX_AGE = timedelta(hours=24)
_MAX_BYTES = 64 * 1024 * 1024
_START_AFTER = timedelta(seconds=5)


class StateConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The agent's state on disk.

    certificate: the file of the workload certificate and its key.
    keeps_certificate: whether there is to be one; if not, one of an earlier run is removed.
    configuration: how Envoy's configuration is saved; None if it is not.
    """

    certificate: Path
    keeps_certificate: bool
    configuration: xds_proxy.SavedConfig | None


def state_config(
    settings: Settings, spiffe_id: certclient.SpiffeId, *, has_authority: bool
) -> StateConfig:
    """Return where state is kept. has_authority: the agent gets its certificate from one."""
    directory = settings.path("MESH_AGENT_STATE_DIRECTORY", _DIRECTORY)
    keeps_certificate = settings.flag("MESH_AGENT_SAVE_CERTIFICATE", default=True)
    keeps_configuration = settings.flag("MESH_AGENT_SAVE_CONFIGURATION", default=True)
    max_age = settings.positive_duration("MESH_AGENT_SAVED_MAX_AGE", _MAX_AGE)
    max_bytes = settings.count("MESH_AGENT_SAVED_MAX_BYTES", _MAX_BYTES)
    start_after = settings.duration("MESH_AGENT_STALE_START_AFTER", _START_AFTER)
    configuration = xds_proxy.SavedConfig(
        directory=directory / _CONFIGURATION,
        owner=(("identity", str(spiffe_id)),),
        max_bytes=max_bytes,
        max_age_s=max_age.total_seconds(),
        start_after_s=start_after.total_seconds(),
    )
    # A gRPC program takes its configuration itself, and asks each time for what it calls then.
    envoy = not settings.flag("DISABLE_ENVOY")
    return StateConfig(
        certificate=directory / _CERTIFICATE,
        keeps_certificate=keeps_certificate and has_authority,
        configuration=configuration if keeps_configuration and envoy else None,
    )
