"""The layers of Istio's proxy configuration, each with the lines of its fields.

Source: istio.mesh.v1alpha1.ProxyConfig.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from istio_settings._json import JSON
from mesh_configfile import Document, Value, read_document

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
_TYPE_NAMES = {int: "a number", str: "text", dict: "an object", list: "a list", bool: "a boolean"}


class LayerError(ValueError):
    """Layers that can't be used; each problem is a sentence that names the layer and the field."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class Layer(msgspec.Struct, frozen=True, kw_only=True):
    """One source of proxy configuration.

    document: where its fields stand, below `inside`; None for a single annotation or flag.
    many_lines: whether it has more than one line.
    """

    name: str
    values: Mapping[str, JSON]
    document: Document | None = None
    inside: tuple[str, ...] = ()
    many_lines: bool = False

    def place(self, path: tuple[str, ...]) -> str:
        """Return the layer's name and the field's line; may load the YAML library."""
        line = ""
        if self.document is not None and self.many_lines:
            line = f":{self.document.line_of((*self.inside, *path))}"
        return ": ".join((f"{self.name}{line}", *self.inside))

    def known_place(self, path: tuple[str, ...]) -> str:
        """Return the place without loading any library: of JSON, the layer alone."""
        if self.document is not None and self.document.has_lines:
            return self.place(path)
        return ": ".join((self.name, *self.inside))


class LayerField(NamedTuple):
    """A field of a layer; its text is built only when there is a mistake to report."""

    layer: Layer
    path: tuple[str, ...]

    def below(self, key: str) -> "LayerField":
        return LayerField(self.layer, (*self.path, key))

    def __str__(self) -> str:
        return f"{self.layer.place(self.path)}: {'.'.join(self.path)}"


def parse_layer(name: str, text: str) -> Layer:
    """Read one layer's YAML or JSON; raises `LayerError`."""
    document = read_mapping(name, text)
    return _checked(name, text, document, _mapping(document), ())


class MeshFile(NamedTuple):
    """A mesh config file: the layer of its `defaultConfig`, and the fields beside that."""

    layer: Layer
    fields: Mapping[str, JSON]

    def place(self, field: str) -> str:
        """Return a field's name with the file and its line; may load the YAML library."""
        whole = Layer(
            name=self.layer.name,
            values=self.fields,
            document=self.layer.document,
            many_lines=self.layer.many_lines,
        )
        return str(LayerField(whole, (field,)))


def mesh_file(name: str, text: str) -> MeshFile:
    """Read a mesh config file; raises `LayerError`."""
    document = read_mapping(name, text)
    fields = _mapping(document)
    defaults = fields.get("defaultConfig") or {}
    if not isinstance(defaults, dict):
        raise LayerError(f"{name}: defaultConfig must be a mapping of field names to values")
    layer = _checked(name, text, document, defaults, ("defaultConfig",))
    return MeshFile(layer, fields)


def mesh_layer(name: str, text: str) -> Layer:
    """Return the layer in a mesh config file: its `defaultConfig`. Raises `LayerError`."""
    return mesh_file(name, text).layer


def single_layers(
    *,
    discovery_address: str = "",
    status_port: str = "",
    template_file: str = "",
    service_cluster: str = "",
    concurrency: int = 0,
) -> tuple[Layer, ...]:
    """Return the layers of single annotations and flags; empty and zero mean not given."""
    port_annotation = "annotation status.sidecar.istio.io/port"
    if status_port and not (status_port.isascii() and status_port.isdigit()):
        raise LayerError(f"{port_annotation} is {status_port!r}, it must be a port")
    given: tuple[tuple[str, str, JSON], ...] = (
        ("annotation sidecar.istio.io/discoveryAddress", "discoveryAddress", discovery_address),
        (port_annotation, "statusPort", int(status_port or 0)),
        ("flag --templateFile", "proxyBootstrapTemplatePath", template_file),
        ("flag --serviceCluster", "serviceCluster", service_cluster),
        ("flag --concurrency", "concurrency", concurrency),
    )
    return tuple(Layer(name=name, values={key: value}) for name, key, value in given if value)


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
    name: str, text: str, document: Document, values: Mapping[str, Value], inside: tuple[str, ...]
) -> Layer:
    """Make a layer of values whose names and JSON types are right."""
    layer = Layer(
        name=name,
        values=values,
        document=document,
        inside=inside,
        many_lines="\n" in text.strip(),
    )
    problems = [
        f"{layer.place((key,))}: {wrong}"
        for key, value in values.items()
        if (wrong := _mismatch(key, value)) is not None
    ]
    for key, value in _metadata(values).items():
        if isinstance(value, dict | list) or value is None:
            wrong = f"proxyMetadata.{key} is {value!r}, it must be text"
            problems.append(f"{layer.place(('proxyMetadata', key))}: {wrong}")
    if problems:
        raise LayerError(*problems)
    return layer


def _metadata(values: Mapping[str, Value]) -> Mapping[str, Value]:
    metadata = values.get("proxyMetadata")
    return metadata if isinstance(metadata, dict) else {}


def _mismatch(key: str, value: Value) -> str | None:
    if (types := _FIELDS.get(key)) is None:
        return f"{key!r} is not a field of ProxyConfig{_nearest(key)}"
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        wanted = " or ".join(_TYPE_NAMES[kind] for kind in types)
        return f"{key} is {value!r}, it must be {wanted}"
    return None


def _nearest(key: str) -> str:
    import difflib

    close = difflib.get_close_matches(key, _FIELDS, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
