"""The Unix sockets between the agent and its Envoy, and the one for gateway credentials."""

from pathlib import Path

from istio_settings import ProxyConfig, Settings
from mesh_sds import DEFAULT_SOCKET_NAME

_SDS_DIRECTORY = "./var/run/secrets/workload-spiffe-uds"
_GATEWAY_CREDENTIALS = "./var/run/secrets/credential-uds/socket"


def sds_socket(settings: Settings) -> Path:
    name = settings.text("WORKLOAD_IDENTITY_SOCKET_FILE", DEFAULT_SOCKET_NAME)
    if name != Path(name).name:
        settings.problems.append(
            f"WORKLOAD_IDENTITY_SOCKET_FILE is {name!r}, it must be the name of a file in "
            f"{_SDS_DIRECTORY}, without separators"
        )
    return settings.under(_SDS_DIRECTORY) / name


def gateway_credentials_socket(settings: Settings) -> Path:
    return settings.under(_GATEWAY_CREDENTIALS)


def xds_socket(settings: Settings, proxy: ProxyConfig) -> Path:
    return settings.under(proxy.config_path) / "XDS"
