"""A connected proxy: who and where it is, read from its node once a stream.

Node ids and metadata keys are Istio's; a machine without Kubernetes says with three more where
its listeners go in interception mode NONE (APP_ADDRESS, OUTBOUND_BIND_ADDRESS, INSTANCE_IPS).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from mesh_discovery._addresses import is_ip
from xds_server import Node


class NodeError(ValueError):
    """A node that can't be served; the message says why and what would be right."""


class NotServedError(NodeError):
    """A sound node that wants what this control plane does not make."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """One proxy; equal ones get equal configuration."""

    id: str
    is_sidecar: bool
    addresses: tuple[str, ...]
    namespace: str
    domain: str
    """The DNS suffix of its own names, as in `default.svc.cluster.local`."""
    labels: tuple[tuple[str, str], ...] = ()
    service_account: str = ""
    app_address: str = "127.0.0.1"
    outbound_address: str = "127.0.0.1"


def parse_proxy(node: Node, *, domain_suffix: str = "cluster.local") -> Proxy:
    """Read a node, `type~address~id~domain`; raises `NodeError`."""
    parts = node.id.split("~")
    if len(parts) != 4:
        raise NodeError(f"node id {node.id!r} is not type~address~id~domain")
    kind, address, _, domain = parts
    if kind not in ("sidecar", "router"):
        raise NodeError(f"node id {node.id!r}: the type is not sidecar or router")
    metadata = node.metadata
    mode = _text(metadata, "INTERCEPTION_MODE") or "NONE"
    if kind == "sidecar" and mode != "NONE":
        raise NotServedError(
            f"interception mode {mode} is not served here; set INTERCEPTION_MODE to NONE"
        )
    listed = [each.strip() for each in _text(metadata, "INSTANCE_IPS").split(",") if each.strip()]
    addresses = tuple(dict.fromkeys(each for each in listed or [address] if is_ip(each)))
    if not addresses:
        raise NodeError(f"node {node.id!r} has no valid address in INSTANCE_IPS or its id")
    namespace = _text(metadata, "NAMESPACE") or domain.partition(".")[0]
    if not namespace:
        raise NodeError(f"node {node.id!r} names no namespace in NAMESPACE or its domain")
    return Proxy(
        id=node.id,
        is_sidecar=kind == "sidecar",
        addresses=addresses,
        namespace=namespace,
        domain=domain or f"{namespace}.svc.{domain_suffix}",
        labels=_labels(metadata),
        service_account=_text(metadata, "SERVICE_ACCOUNT"),
        app_address=_address(metadata, "APP_ADDRESS"),
        outbound_address=_address(metadata, "OUTBOUND_BIND_ADDRESS"),
    )


def _text(metadata: Mapping[str, object], key: str) -> str:
    value = metadata.get(key)
    if isinstance(value, list):
        return ",".join(str(each) for each in value)
    return value if isinstance(value, str) else ""


def _address(metadata: Mapping[str, object], key: str) -> str:
    address = _text(metadata, key)
    if address and not is_ip(address):
        raise NodeError(f"node metadata {key} is {address!r}, which is not an IP address")
    return address or "127.0.0.1"


def _labels(metadata: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    labels = metadata.get("LABELS")
    if not isinstance(labels, dict):
        return ()
    return tuple(sorted((str(key), str(value)) for key, value in labels.items()))
