"""The proxy configuration, merged from the layers that an Istio installation writes it in.

Low to high: built-in defaults, the mesh config file's `defaultConfig`, `PROXY_CONFIG`, the pod
annotation `proxy.istio.io/config`, single annotations. A layer replaces whole top-level fields,
but `proxyMetadata`, whose keys are merged. Source: istio.mesh.v1alpha1.ProxyConfig.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType

from envoy_supervisor import JSON
from mesh_configfile import (
    Document,
    DurationBoundsError,
    DurationError,
    Value,
    parse_duration,
    read_document,
    spell_duration,
)

_NUMBER, _TEXT, _OBJECT, _LIST, _FLAG = (int,), (str,), (dict,), (list,), (bool,)

# Every field of the message, by its JSON name, with the JSON types that can hold it.
_FIELDS: Mapping[str, tuple[type, ...]] = MappingProxyType(
    {
        "availabilityZone": _TEXT,
        "binaryPath": _TEXT,
        "caCertificatesPem": _LIST,
        "concurrency": _NUMBER,
        "configPath": _TEXT,
        "connectionSettings": _OBJECT,
        "controlPlaneAuthPolicy": (str, int),
        "customConfigFile": _TEXT,
        "discoveryAddress": _TEXT,
        "drainDuration": _TEXT,
        "envoyAccessLogService": _OBJECT,
        "envoyMetricsService": _OBJECT,
        "envoyMetricsServiceAddress": _TEXT,
        "extraStatTags": _LIST,
        "fileFlushInterval": _TEXT,
        "fileFlushMinSizeKb": _NUMBER,
        "gatewayTopology": _OBJECT,
        "holdApplicationUntilProxyStarts": _FLAG,
        "image": _OBJECT,
        "interceptionMode": (str, int),
        "meshId": _TEXT,
        "parentShutdownDuration": _TEXT,
        "privateKeyProvider": _OBJECT,
        "proxyAdminPort": _NUMBER,
        "proxyBootstrapTemplatePath": _TEXT,
        "proxyHeaders": _OBJECT,
        "proxyMetadata": _OBJECT,
        "proxyStatsMatcher": _OBJECT,
        "readinessProbe": _OBJECT,
        "runtimeValues": _OBJECT,
        "serviceCluster": _TEXT,
        "statNameLength": _NUMBER,
        "statsCompression": (bool, dict),
        "statsdUdpAddress": _TEXT,
        "statusPort": _NUMBER,
        "terminationDrainDuration": _TEXT,
        "tracing": _OBJECT,
        "tracingServiceName": (str, int),
        "zipkinAddress": _TEXT,
    }
)
# Envoy counts these in seconds, in 32 bits, and does not start with more.
_LONGEST_DRAIN = timedelta(seconds=2**32 - 1)
_TYPE_NAMES = {int: "a number", str: "text", dict: "an object", list: "a list", bool: "a boolean"}


class LayerError(ValueError):
    """Layers that can't be used; each problem is a sentence that names the layer and the field."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One source of proxy configuration."""

    name: str
    values: Mapping[str, JSON]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyConfig:
    """The fields the agent acts on, and all fields as they were merged.

    discovery_address: host:port of the control plane.
    drain_duration: how long Envoy takes to shed connections when it drains.
    parent_shutdown_duration: after a hot restart, how long the old Envoy may finish requests.
    termination_drain_duration: how long a stopping agent waits for requests under way.
    concurrency: Envoy's worker threads; None is Envoy's own choice, one a core.
    custom_config_file: a bootstrap to be used as it is; empty for the agent's own.
    merged: every field given, as JSON, for the node metadata.
    origins: by field, the layer it was given in.
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
    custom_config_file: str = ""
    proxy_metadata: Mapping[str, str] = field(default_factory=dict)
    merged: Mapping[str, JSON] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)


def parse_layer(name: str, text: str) -> Layer:
    """Read one layer's YAML or JSON; raises `LayerError`."""
    document = read_mapping(name, text)
    return _checked(name, text, document, _mapping(document), ())


def mesh_layer(name: str, text: str) -> Layer:
    """Returns the layer in a mesh config file: its `defaultConfig`. Raises `LayerError`."""
    document = read_mapping(name, text)
    defaults = _mapping(document).get("defaultConfig", {})
    if not isinstance(defaults, dict):
        raise LayerError(f"{name}: defaultConfig must be a mapping of field names to values")
    return _checked(name, text, document, defaults, ("defaultConfig",))


def read_mapping(name: str, text: str) -> Document:
    """Read a YAML or JSON mapping; empty text is an empty one. Raises `LayerError`."""
    document, problems = read_document(text, file=name)
    if problems:
        raise LayerError(*map(str, problems))
    if document.value is not None and not isinstance(document.value, dict):
        raise LayerError(f"{name}: must be a mapping of field names to values")
    return document


def _mapping(document: Document) -> dict[str, Value]:
    return document.value if isinstance(document.value, dict) else {}


def _checked(
    name: str, text: str, document: Document, values: Mapping[str, Value], path: tuple[str, ...]
) -> Layer:
    """Make a layer of values whose names and JSON types are right."""
    layer = ": ".join((name, *path))
    problems = []
    for key, value in values.items():
        wrong = _mismatch(key, value)
        if wrong is not None and "\n" in text.strip():
            place = f"{name}:{document.line_of((*path, key))}"
            problems.append(": ".join((place, *path, wrong)))
        elif wrong is not None:
            problems.append(f"{layer}: {wrong}")
    if problems:
        raise LayerError(*problems)
    return Layer(name=layer, values=values)


def _mismatch(key: str, value: Value) -> str | None:
    if (types := _FIELDS.get(key)) is None:
        return f"{key!r} is not a field of ProxyConfig{_nearest(key)}"
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        wanted = " or ".join(_TYPE_NAMES[kind] for kind in types)
        return f"{key} is {value!r}, it must be {wanted}"
    return None


def override_layer(
    *, discovery_address: str, status_port: str, service_cluster: str, concurrency: int
) -> Layer:
    """Returns the layer of single annotations and flags; empty and zero mean not given."""
    if status_port and not status_port.isdigit():
        raise LayerError(
            f"annotation status.sidecar.istio.io/port is {status_port!r}, it must be a port"
        )
    given: dict[str, JSON] = {
        "discoveryAddress": discovery_address,
        "statusPort": int(status_port or 0),
        "serviceCluster": service_cluster,
        "concurrency": concurrency,
    }
    return Layer(
        name="annotations and flags", values={key: value for key, value in given.items() if value}
    )


def merge_layers(layers: Iterable[Layer]) -> ProxyConfig:
    """Merge layers, low to high; raises `LayerError` for a value that makes no sense."""
    merged: dict[str, JSON] = {}
    origin: dict[str, str] = {}
    metadata: dict[str, str] = {}
    for layer in layers:
        for key, value in layer.values.items():
            if key == "proxyMetadata" and isinstance(value, dict):
                metadata.update({str(name): str(text) for name, text in value.items()})
                merged[key] = dict(metadata)
            else:
                merged[key] = value
            origin[key] = layer.name
    values = _Values(merged, origin)
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
        custom_config_file=str(merged.get("customConfigFile") or ""),
        proxy_metadata=metadata,
        merged=merged,
        origins=origin,
    )
    if values.problems:
        raise LayerError(*values.problems)
    return config


class _Values:
    """Typed access to merged fields; a problem names the layer that the value came from."""

    def __init__(self, merged: Mapping[str, JSON], origin: Mapping[str, str]) -> None:
        self._merged = merged
        self._origin = origin
        self.problems: list[str] = []

    def _refuse(self, key: str, wanted: str) -> None:
        self.problems.append(
            f"{self._origin[key]}: {key} is {self._merged[key]!r}, it must be {wanted}"
        )

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

    def concurrency(self) -> int | None:
        value = self._merged.get("concurrency")
        if value is None:
            return None
        if not isinstance(value, int) or value < 0:
            self._refuse("concurrency", "a number of worker threads, 0 for one a core")
            return None
        return value or None


def _nearest(key: str) -> str:
    import difflib

    close = difflib.get_close_matches(key, _FIELDS, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
