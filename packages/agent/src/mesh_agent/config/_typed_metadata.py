"""Node metadata that the agent's settings make, beside the metadata it is given."""

from collections.abc import Mapping

from envoy_supervisor import JSON
from istio_settings import ProxyConfig, Settings
from mesh_agent.config._control_plane import server_name
from mesh_agent.config._flags import Flags

_SENT_AS_TEXT = ("DNS_PROXY_ADDR", "PROV_CERT", "WORKLOAD_IDENTITY_SOCKET_FILE")
_SENT_AS_FLAGS = ("ENVOY_SKIP_DEPRECATED_LOGS", "EXIT_ON_ZERO_ACTIVE_CONNECTIONS")
_OF_PROXY_CONFIG = (("MESH_ID", "meshId"), ("INTERCEPTION_MODE", "interceptionMode"))


def typed_metadata(
    settings: Settings, *, flags: Flags, proxy: ProxyConfig, version: str
) -> Mapping[str, JSON]:
    """Return the metadata; keys that settings do not give are left out.

    Source: the typed fields of Istio's node metadata; flags are text there.
    """
    metadata: dict[str, JSON] = {"MESH_AGENT_VERSION": version}
    for key, name in _OF_PROXY_CONFIG:
        value = proxy.merged.get(name)
        if isinstance(value, str) and value and not settings.environ.get(f"ISTIO_META_{key}"):
            metadata[key] = value
    if not proxy.plaintext_control_plane:
        metadata["PILOT_SAN"] = [server_name(settings, proxy.discovery_address)]
    for name in _SENT_AS_TEXT:
        if text := settings.environ.get(name):
            metadata[name] = text
    for name in _SENT_AS_FLAGS:
        if settings.environ.get(name):
            metadata[name] = _text(flag=settings.flag(name))
    if flags.sts_port:
        metadata["STS_PORT"] = str(flags.sts_port)
    if flags.outlier_log:
        metadata["OUTLIER_LOG_PATH"] = flags.outlier_log
    if (discovery := _metadata_discovery(settings)) is not None:
        metadata["METADATA_DISCOVERY"] = _text(flag=discovery)
    return metadata


def _metadata_discovery(settings: Settings) -> bool | None:
    """Return whether peers' metadata comes from the control plane; with HBONE it does."""
    for name in ("PEER_METADATA_DISCOVERY", "ISTIO_META_METADATA_DISCOVERY"):
        if settings.environ.get(name):
            return settings.flag(name)
    if settings.environ.get("ISTIO_META_ENABLE_HBONE"):
        return settings.flag("ISTIO_META_ENABLE_HBONE")
    return None


def _text(*, flag: bool) -> str:
    return "true" if flag else "false"
