"""Who this proxy is, as it tells the control plane: the node id, its cluster and its metadata."""

import ast
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from envoy_supervisor import JSON

log = logging.getLogger(__name__)

_APP_LABELS = ("app", "app.kubernetes.io/name", "service.istio.io/canonical-name")


@dataclass(frozen=True, slots=True, kw_only=True)
class PodInfo:
    """Labels and annotations of the workload, as the platform wrote them to files."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeIdentity:
    """What the node id and metadata are made from.

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
    identity: NodeIdentity, *, service_cluster: str, pod: PodInfo, workload: str
) -> str:
    """The name Envoy reports its own service under: the configured one, the app label's, or so."""
    if service_cluster != "istio-proxy":
        return service_cluster
    app = next((pod.labels[label] for label in _APP_LABELS if pod.labels.get(label)), workload)
    if not identity.namespace:
        return app or "istio-proxy"
    return f"{app or 'istio-proxy'}.{identity.namespace}"


def node_metadata(
    identity: NodeIdentity,
    *,
    environ: Mapping[str, str],
    proxy_config: Mapping[str, JSON],
    proxy_metadata: Mapping[str, str],
    pod: PodInfo,
    version: str,
) -> dict[str, JSON]:
    """Assemble the metadata: raw settings first, then what the agent knows for certain.

    Sources, low to high: `ISTIO_META_*` keys of proxyMetadata, `ISTIO_META_<K>` variables,
    `ISTIO_METAJSON_<X>` objects, typed fields. A bad JSON object is logged and left out.
    """
    metadata: dict[str, JSON] = {}
    labels = {key: text for key, text in pod.labels.items() if key != "pod-template-hash"}
    for source in (proxy_metadata, environ):
        for name, text in sorted(source.items()):
            if name.startswith("ISTIO_META_"):
                metadata[name.removeprefix("ISTIO_META_")] = text
    for name, text in sorted(environ.items()):
        if not name.startswith("ISTIO_METAJSON_"):
            continue
        values = _json_object(name, text)
        if name == "ISTIO_METAJSON_LABELS":
            labels.update({key: str(value) for key, value in values.items()})
        else:
            metadata.update(values)
    metadata.setdefault("ISTIO_VERSION", version)
    metadata.update(
        {
            "NAME": identity.pod_name,
            "NAMESPACE": identity.namespace,
            "INSTANCE_IPS": ",".join(identity.addresses),
            "LABELS": labels,
            "PROXY_CONFIG": dict(proxy_config),
        }
    )
    if identity.service_account:
        metadata["SERVICE_ACCOUNT"] = identity.service_account
    if pod.annotations:
        metadata["ANNOTATIONS"] = dict(pod.annotations)
    return metadata


def _json_object(name: str, text: str) -> Mapping[str, JSON]:
    try:
        values = json.loads(text)
    except ValueError as error:
        log.warning(
            "ignored a variable that is not JSON", extra={"variable": name, "why": str(error)}
        )
        return MappingProxyType({})
    if not isinstance(values, dict):
        log.warning("ignored a variable that is not a JSON object", extra={"variable": name})
        return MappingProxyType({})
    return values


def parse_downward_file(text: str) -> dict[str, str]:
    """Read Kubernetes' downward API form: lines `key="value"` with escapes; odd lines are left out.

    Source: the Kubernetes downward API volume; values are quoted as Go quotes strings, whose
    escapes are Python's too.
    """
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, equals, quoted = line.strip().partition("=")
        if not equals or not key:
            continue
        try:
            value = ast.literal_eval(quoted) if quoted.startswith('"') else quoted
        except (ValueError, SyntaxError):
            log.warning("ignored a line that can't be read", extra={"key": key})
            continue
        if isinstance(value, str):
            found[key] = value
    return found


def locality(labels: Mapping[str, str]) -> tuple[str, str, str]:
    """Region, zone and sub-zone from the locality labels; empty where not given.

    Source: labels topology.istio.io/locality and istio-locality; dots separate unless there is
    a slash.
    """
    text = labels.get("topology.istio.io/locality") or labels.get("istio-locality") or ""
    parts = text.split("/" if "/" in text else ".") if text else []
    region, zone, sub_zone = [*parts, "", "", ""][:3]
    return region, zone, sub_zone
