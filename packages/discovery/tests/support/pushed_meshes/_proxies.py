"""Proxies of different shapes."""

from collections.abc import Mapping
from itertools import count

from envoy_config import Proxy
from proxies import proxy_of
from xds_server import Node

_NUMBERS = count(1)


def sidecar(
    namespace: str = "a",
    *,
    address: str = "",
    labels: Mapping[str, str] | None = None,
    mode: str = "REDIRECT",
    **metadata: str,
) -> Proxy:
    return _proxy("sidecar", namespace, address, labels, INTERCEPTION_MODE=mode, **metadata)


def router(namespace: str = "a", *, labels: Mapping[str, str] | None = None) -> Proxy:
    return _proxy("router", namespace, "", labels)


def _proxy(
    kind: str, namespace: str, address: str, labels: Mapping[str, str] | None, **metadata: str
) -> Proxy:
    number = next(_NUMBERS)
    address = address or f"10.250.{number // 250}.{number % 250 + 1}"
    return proxy_of(
        Node(
            id=f"{kind}~{address}~p{number}.{namespace}~{namespace}.svc.cluster.local",
            metadata={"NAMESPACE": namespace, "LABELS": dict(labels or {}), **metadata},
            region="r1",
            zone="z1",
        )
    )
