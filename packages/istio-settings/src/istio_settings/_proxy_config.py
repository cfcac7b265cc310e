"""The proxy configuration, merged from the layers that an Istio installation writes it in.

Low to high: built-in defaults, the mesh config file's `defaultConfig`, `PROXY_CONFIG`, the pod
annotation `proxy.istio.io/config`, single annotations, flags. A layer replaces whole top-level
fields, but `proxyMetadata`, whose keys are merged. Source: istio.mesh.v1alpha1.ProxyConfig.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import timedelta

import msgspec

from istio_settings._json import JSON
from istio_settings._layers import Layer, LayerError, LayerField
from istio_settings._node import BY_APP_LABEL, SERVICE_NAMINGS
from mesh_configfile import (
    DurationBoundsError,
    DurationError,
    parse_duration,
    spell_duration,
)

# Envoy counts these in seconds, in 32 bits, and does not start with more.
_LONGEST_DRAIN = timedelta(seconds=2**32 - 1)


class MergeError(LayerError):
    """Layers that do not make a configuration; `config` has defaults for what is wrong."""

    def __init__(self, config: "ProxyConfig", *problems: str) -> None:
        super().__init__(*problems)
        self.config = config


class ProxyConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The fields the agent acts on, and all fields as they were merged.

    discovery_address: host:port of the control plane.
    drain_duration: how long Envoy takes to shed connections when it drains.
    parent_shutdown_duration: after a hot restart, how long the old Envoy may finish requests.
    termination_drain_duration: how long a stopping agent waits for requests under way.
    concurrency: Envoy's worker threads; None is Envoy's own choice, one a core.
    all_cores: whether `concurrency` is given as 0.
    custom_config_file, template_path: bootstraps to be used as they are, the first if both are
        given; empty for the agent's own.
    file_flush_interval: how often Envoy writes its files.
    service_naming: how Envoy's own service is called, see `SERVICE_NAMINGS`.
    merged: every field given, as JSON, for the node metadata.
    origins: by field, where it was given last.
    metadata_origins: by key of `proxy_metadata`, the layer it was given in last.
    """

    config_path: str = "./etc/istio/proxy"
    binary_path: str = "/usr/local/bin/envoy"
    service_cluster: str = "istio-proxy"
    discovery_address: str = "istiod.istio-system.svc:15012"
    plaintext_control_plane: bool = False
    drain_duration: timedelta = timedelta(seconds=45)
    parent_shutdown_duration: timedelta = timedelta(seconds=60)
    termination_drain_duration: timedelta = timedelta(seconds=5)
    proxy_admin_port: int = 15000
    status_port: int = 15020
    concurrency: int | None = None
    all_cores: bool = False
    custom_config_file: str = ""
    template_path: str = ""
    file_flush_interval: timedelta = timedelta(seconds=1)
    service_naming: str = BY_APP_LABEL
    proxy_metadata: Mapping[str, str] = msgspec.field(default_factory=dict)
    merged: Mapping[str, JSON] = msgspec.field(default_factory=dict)
    origins: Mapping[str, LayerField] = msgspec.field(default_factory=dict)
    metadata_origins: Mapping[str, str] = msgspec.field(default_factory=dict)

    def place(self, key: str) -> LayerField:
        """Return where a field was given."""
        return self.origins.get(key) or LayerField(Layer(name="proxy config", values={}), (key,))


def merge_layers(layers: Iterable[Layer]) -> ProxyConfig:
    """Merge layers, low to high; raises `MergeError` for values that make no sense."""
    merged: dict[str, JSON] = {}
    origins: dict[str, LayerField] = {}
    metadata: dict[str, str] = {}
    metadata_origins: dict[str, str] = {}
    for layer in layers:
        for key, value in layer.values.items():
            origins[key] = LayerField(layer, (key,))
            if key == "proxyMetadata" and isinstance(value, dict):
                metadata.update({name: _text(text) for name, text in value.items()})
                metadata_origins.update({name: layer.known_place((key, name)) for name in value})
                merged[key] = dict(metadata)
            else:
                merged[key] = value
    values = _Values(merged, origins)
    defaults = ProxyConfig()
    config = ProxyConfig(
        config_path=values.text("configPath", defaults.config_path),
        binary_path=values.text("binaryPath", defaults.binary_path),
        service_cluster=values.text("serviceCluster", defaults.service_cluster),
        discovery_address=values.address("discoveryAddress", defaults.discovery_address),
        plaintext_control_plane=values.auth_policy_is_none(),
        drain_duration=values.duration("drainDuration", defaults.drain_duration),
        parent_shutdown_duration=values.duration(
            "parentShutdownDuration", defaults.parent_shutdown_duration
        ),
        termination_drain_duration=values.duration(
            "terminationDrainDuration", defaults.termination_drain_duration
        ),
        proxy_admin_port=values.port("proxyAdminPort", defaults.proxy_admin_port),
        status_port=values.port("statusPort", defaults.status_port),
        concurrency=values.concurrency(),
        all_cores=merged.get("concurrency") == 0,
        custom_config_file=str(merged.get("customConfigFile") or ""),
        template_path=str(merged.get("proxyBootstrapTemplatePath") or ""),
        file_flush_interval=values.duration("fileFlushInterval", defaults.file_flush_interval),
        service_naming=values.service_naming(),
        proxy_metadata=metadata,
        merged=merged,
        origins=origins,
        metadata_origins=metadata_origins,
    )
    if values.problems:
        raise MergeError(config, *values.problems)
    return config


def _text(value: JSON) -> str:
    """Return a value of `proxyMetadata` as the variable that injection would make of it."""
    return value if isinstance(value, str) else json.dumps(value)


class _Values:
    """Typed access to merged fields; a problem names the layer that the value came from."""

    def __init__(self, merged: Mapping[str, JSON], origins: Mapping[str, LayerField]) -> None:
        self._merged = merged
        self._origins = origins
        self.problems: list[str] = []

    def _refuse(self, key: str, wanted: str) -> None:
        self.problems.append(f"{self._origins[key]} is {self._merged[key]!r}, it must be {wanted}")

    def text(self, key: str, default: str) -> str:
        value = self._merged.get(key, default)
        if not isinstance(value, str) or not value:
            self._refuse(key, "text that is not empty")
            return default
        return value

    def port(self, key: str, default: int) -> int:
        value = self._merged.get(key, default)
        if not isinstance(value, int) or not 0 < value < 65536:
            self._refuse(key, "a port, 1 to 65535")
            return default
        return value

    def duration(self, key: str, default: timedelta) -> timedelta:
        value = self._merged.get(key)
        if value is None:
            return default
        try:
            return parse_duration(str(value), most=_LONGEST_DRAIN)
        except DurationBoundsError:
            self._refuse(key, f"from 0s to {spell_duration(_LONGEST_DRAIN)}")
        except DurationError as error:
            self._refuse(key, f"a duration such as 45s{error.hint}")
        return default

    def address(self, key: str, default: str) -> str:
        value = self.text(key, default)
        host, colon, port = value.rpartition(":")
        if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
            self._refuse(key, "host:port")
            return default
        return value

    def auth_policy_is_none(self) -> bool:
        value = self._merged.get("controlPlaneAuthPolicy", "MUTUAL_TLS")
        if value not in ("NONE", "MUTUAL_TLS", 0, 1):
            self._refuse("controlPlaneAuthPolicy", "NONE or MUTUAL_TLS")
        return value in ("NONE", 0)

    def service_naming(self) -> str:
        value = self._merged.get("tracingServiceName", BY_APP_LABEL)
        if isinstance(value, int) and 0 <= value < len(SERVICE_NAMINGS):
            return SERVICE_NAMINGS[value]
        if value not in SERVICE_NAMINGS:
            self._refuse("tracingServiceName", f"one of {', '.join(SERVICE_NAMINGS)}")
            return BY_APP_LABEL
        return str(value)

    def concurrency(self) -> int | None:
        value = self._merged.get("concurrency")
        if value is None:
            return None
        if not isinstance(value, int) or value < 0:
            self._refuse("concurrency", "a number of worker threads, 0 for one a core")
            return None
        return value or None
