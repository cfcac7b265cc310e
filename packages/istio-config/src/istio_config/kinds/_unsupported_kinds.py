"""The kinds of objects that Istio reads and this control plane does not.

They are known by name, so that they are not called unknown and can be accepted on request.

Source: Istio's API reference, with the kinds of the Kubernetes Gateway API that Istio reads.
"""

from mesh_configfile import Value

_NETWORKING = "networking.istio.io"
_GATEWAY_API = "gateway.networking.k8s.io"

UNSUPPORTED_KINDS = frozenset(
    {
        (_NETWORKING, "ProxyConfig"),
        ("extensions.istio.io", "TrafficExtension"),
        ("extensions.istio.io", "WasmPlugin"),
        (_GATEWAY_API, "BackendTLSPolicy"),
        (_GATEWAY_API, "ListenerSet"),
        (_GATEWAY_API, "UDPRoute"),
    }
)


def is_unsupported_kind(api_version: Value, kind: Value) -> bool:
    """Return whether Istio reads objects of this kind, and this control plane does not."""
    group = api_version.rpartition("/")[0] if isinstance(api_version, str) else ""
    return any(kind == name and group in ("", known) for known, name in UNSUPPORTED_KINDS)
