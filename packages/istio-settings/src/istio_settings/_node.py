"""The node that the control plane is sent: the proxy's id, cluster, locality and metadata."""

import json
import logging
import re
from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from istio_settings._json import JSON

log = logging.getLogger(__name__)

_METADATA = "ISTIO_META_"
_JSON_METADATA = "ISTIO_METAJSON_"
_JSON_LABELS = "ISTIO_METAJSON_LABELS"
# Ports of Envoy's own listeners, which the control plane must not use for other listeners.
_PORTS = (
    "ENVOY_STATUS_PORT",
    "ENVOY_PROMETHEUS_PORT",
    "ENVOY_SECURE_METRICS_PORT",
    "ENVOY_SECURE_MERGED_METRICS_PORT",
)
_CANONICAL_NAME = "service.istio.io/canonical-name"
_APP_LABELS = ("app", "app.kubernetes.io/name", _CANONICAL_NAME)
ISTIO_VERSION = "1.30.0"
"""The release of Istio whose proxies the control plane is to take this one for. Control planes go
by it in what they send; see docs/decisions."""

BY_APP_LABEL, BY_CANONICAL_NAME, BY_CANONICAL_NAME_AND_NAMESPACE = SERVICE_NAMINGS = (
    "APP_LABEL_AND_NAMESPACE",
    "CANONICAL_NAME_ONLY",
    "CANONICAL_NAME_AND_NAMESPACE",
)
"""How Envoy's own service may be called. Source: ProxyConfig.TracingServiceName."""


class PodInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Labels and annotations of the workload, as the platform wrote them to files."""

    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    annotations: Mapping[str, str] = msgspec.field(default_factory=dict)


class NodeIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that the node id and metadata are built from.

    role: `sidecar` or `router`.
    addresses: the workload's own IP addresses, the main one first; at least one.
    domain: DNS domain of the workload's services, `<namespace>.svc.cluster.local`.
    """

    role: str
    addresses: tuple[str, ...]
    pod_name: str
    namespace: str
    service_account: str
    domain: str

    @property
    def node_id(self) -> str:
        return f"{self.role}~{self.addresses[0]}~{self.pod_name}.{self.namespace}~{self.domain}"


def cluster_name(
    identity: NodeIdentity,
    *,
    service_cluster: str,
    labels: Mapping[str, str],
    workload: str,
    naming: str = BY_APP_LABEL,
) -> str:
    """Return the name of Envoy's own service: as configured, else by the labels or the workload.

    naming: one of `SERVICE_NAMINGS`.
    """
    if service_cluster != "istio-proxy":
        return service_cluster
    names = _APP_LABELS if naming == BY_APP_LABEL else (_CANONICAL_NAME,)
    app = next((labels[label] for label in names if labels.get(label)), workload)
    if naming == BY_CANONICAL_NAME:
        return app or "istio-proxy"
    if not identity.namespace:
        return app or "istio-proxy"
    return f"{app or 'istio-proxy'}.{identity.namespace}"


def node_metadata(
    identity: NodeIdentity,
    *,
    environ: Mapping[str, str],
    proxy_config: Mapping[str, JSON],
    pod: PodInfo,
    typed: Mapping[str, JSON] = MappingProxyType({}),
) -> dict[str, JSON]:
    """Return the metadata: raw settings first, then typed fields over them.

    Sources, low to high: `ISTIO_META_<K>` variables, `ISTIO_METAJSON_<X>` objects, typed fields.
    A bad JSON object is logged and left out.

    environ: the variables, those of proxyMetadata among them. typed: further typed fields.
    """
    metadata: dict[str, JSON] = {
        name.removeprefix(_METADATA): text
        for name, text in sorted(environ.items())
        if name.startswith(_METADATA)
    }
    for name, text in sorted(environ.items()):
        if name.startswith(_JSON_METADATA) and name != _JSON_LABELS:
            metadata.update(_json_object(name, text))
    metadata.setdefault("ISTIO_VERSION", ISTIO_VERSION)
    metadata.update(
        {
            **typed,
            "NAME": identity.pod_name,
            "NAMESPACE": identity.namespace,
            "INSTANCE_IPS": ",".join(identity.addresses),
            "LABELS": workload_labels(environ, pod),
            "PROXY_CONFIG": dict(proxy_config),
        }
    )
    if static := _static_labels(environ):
        metadata["STATIC_LABELS"] = static
    if identity.service_account:
        metadata["SERVICE_ACCOUNT"] = identity.service_account
    if pod.annotations:
        metadata["ANNOTATIONS"] = dict(pod.annotations)
    for name in _PORTS:
        text = environ.get(name, "")
        if text.isascii() and text.isdigit() and 0 < int(text) < 65536:
            metadata[name] = int(text)
    return metadata


def workload_labels(environ: Mapping[str, str], pod: PodInfo) -> dict[str, str]:
    """Return the workload's labels: those of `ISTIO_METAJSON_LABELS`, and the pod's over them."""
    return {
        **_static_labels(environ),
        **{key: text for key, text in pod.labels.items() if key != "pod-template-hash"},
    }


def _static_labels(environ: Mapping[str, str]) -> dict[str, str]:
    values = _json_object(_JSON_LABELS, environ.get(_JSON_LABELS, "{}"))
    return {
        key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()
    }


def _json_object(name: str, text: str) -> Mapping[str, JSON]:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        log.warning(
            "ignored a variable that is not JSON", extra={"variable": name, "why": str(error)}
        )
        return MappingProxyType({})
    if not isinstance(values, dict):
        log.warning("ignored a variable that is not a JSON object", extra={"variable": name})
        return MappingProxyType({})
    return values


# A text in double quotes, as Go writes it: https://go.dev/ref/spec#String_literals
_SIMPLE = {
    b"a": b"\a",
    b"b": b"\b",
    b"f": b"\f",
    b"n": b"\n",
    b"r": b"\r",
    b"t": b"\t",
    b"v": b"\v",
    b"\\": b"\\",
    b'"': b'"',
}
_ESCAPE = re.compile(
    rb"""\\(?:(?P<simple>[abfnrtv\\"])|x(?P<byte>[0-9a-fA-F]{2})|(?P<octal>[0-3][0-7]{2})"""
    rb"|(?:u(?P<short>[0-9a-fA-F]{4})|U(?P<long>00(?:0[0-9a-fA-F]|10)[0-9a-fA-F]{4})))"
)
_QUOTED = re.compile(rb'"(?:[^"\\]|' + re.sub(rb"\?P<\w+>", b"?:", _ESCAPE.pattern) + rb')*"')


def parse_downward_file(text: str) -> dict[str, str]:
    """Read Kubernetes' downward API form: lines `key="value"` with escapes; odd lines are left out.

    Source: the Kubernetes downward API volume; values are quoted as Go quotes strings, so a value
    of several lines stands on one.
    """
    found: dict[str, str] = {}
    for line in text.split("\n"):
        key, equals, quoted = line.strip().partition("=")
        if not equals or not key:
            continue
        value = _unquoted(quoted) if quoted.startswith('"') else quoted
        if value is None:
            log.warning(
                "ignored a label or annotation: its value must be quoted as in Go",
                extra={"key": key},
            )
        else:
            found[key] = value
    return found


def _unquoted(text: str) -> str | None:
    content = text.encode("utf-8", "surrogateescape")
    if not _QUOTED.fullmatch(content):
        return None
    return _ESCAPE.sub(_meant, content[1:-1]).decode("utf-8", "replace")


def _meant(escape: re.Match[bytes]) -> bytes:
    if (simple := escape["simple"]) is not None:
        return _SIMPLE[simple]
    if (byte := escape["byte"]) is not None:
        return bytes.fromhex(byte.decode())
    if (octal := escape["octal"]) is not None:
        return bytes([int(octal, 8)])
    return chr(int(escape["short"] or escape["long"], 16)).encode("utf-8", "replace")


def locality(labels: Mapping[str, str]) -> tuple[str, str, str]:
    """Return region, zone and sub-zone from the locality labels; empty where not given.

    Source: labels topology.istio.io/locality and istio-locality; dots separate unless there is
    a slash.
    """
    text = labels.get("topology.istio.io/locality") or labels.get("istio-locality") or ""
    parts = text.split("/" if "/" in text else ".") if text else []
    region, zone, sub_zone = [*parts, "", "", ""][:3]
    return region, zone, sub_zone
