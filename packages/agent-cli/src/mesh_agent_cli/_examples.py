"""The examples below the help of each command."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mesh_command_line import examples

EXAMPLES: Mapping[str, str] = MappingProxyType(
    {
        name: examples(*lines)
        for name, lines in {
            "wait": (
                "mesh-agent wait",
                "mesh-agent wait --timeoutSeconds 10 --address 127.0.0.2",
            ),
            "version": ("mesh-agent version --short", "mesh-agent version -o json"),
            "request": (
                "mesh-agent request GET stats?filter=upstream_rq",
                "mesh-agent request POST 'logging?level=debug'",
                "mesh-agent request GET healthz/ready --debug-port 15020",
            ),
            "status": (
                "mesh-agent status",
                "mesh-agent status --watch 5",
                "mesh-agent status -o json | jq .xds.types",
            ),
            "certs": ("mesh-agent certs", "mesh-agent certs --envoy-port 15000 -o json"),
            "dns": (
                "mesh-agent dns reviews.shop",
                "mesh-agent dns _http._tcp.reviews.shop.svc.cluster.local SRV",
            ),
        }.items()
    }
)
