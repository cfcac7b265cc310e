"""The examples below the help of each command."""

from collections.abc import Mapping
from types import MappingProxyType

from mesh_command_line import examples

EXAMPLES: Mapping[str, str] = MappingProxyType(
    {
        name: examples(*lines)
        for name, lines in {
            "version": ("mesh-discovery version", "mesh-discovery version -o json"),
            "check": (
                "mesh-discovery check mesh/",
                "mesh-discovery check rules/ --with services/",
                "mesh-discovery check mesh/ --against 127.0.0.1:15000",
                "mesh-discovery check mesh/ -o json",
            ),
            "status": (
                "mesh-discovery status",
                "mesh-discovery status --monitoring-addr 127.0.0.1:15014 -o json",
            ),
            "wait": (
                "mesh-discovery wait --timeout 10s",
                "cp new.yaml mesh/route.yaml && mesh-discovery wait && curl http://shop/",
            ),
            "token": (
                "mesh-discovery token --namespace shop --service-account cart --ttl 1h",
                "mesh-discovery token --dir tokens --output istio-token",
            ),
            "discovery": (
                "mesh-discovery discovery --config-dir mesh/",
                "mesh-discovery discovery --config-dir mesh/ --jwt-issuer https://tokens.example",
            ),
            "replace-root": (
                "mesh-discovery replace-root --ca-dir /var/lib/mesh/cacerts",
                "mesh-discovery replace-root --spread 0s",
            ),
            "revoke": (
                "mesh-discovery revoke 1f3a9c --reason keyCompromise",
                "mesh-discovery revoke --identity spiffe://cluster.local/ns/shop/sa/cart",
            ),
        }.items()
    }
)
