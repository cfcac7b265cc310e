"""A real Envoy that takes its configuration from a relay's socket."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path


@asynccontextmanager
async def running_envoy(
    binary: Path,
    socket_path: Path,
    api_type: str,
    *,
    hot_restart: tuple[str, ...] = ("--disable-hot-restart",),
    admin: Path | None = None,
) -> AsyncIterator[None]:
    """Run an Envoy that asks for clusters and listeners over ADS; killed at the end."""
    source = {"ads": {}, "resource_api_version": "V3"}
    relay = {"address": {"pipe": {"path": str(socket_path)}}}
    http2: dict[str, object] = {"explicit_http_config": {"http2_protocol_options": {}}}
    bootstrap = {
        "node": {"id": "sidecar~127.0.0.1~web.default~default.svc.cluster.local", "cluster": "web"},
        **({"admin": {"address": {"pipe": {"path": str(admin)}}}} if admin else {}),
        "dynamic_resources": {
            "ads_config": {
                "api_type": api_type,
                "transport_api_version": "V3",
                "set_node_on_first_message_only": True,
                "grpc_services": [{"envoy_grpc": {"cluster_name": "xds-grpc"}}],
            },
            "cds_config": source,
            "lds_config": source,
        },
        "static_resources": {
            "clusters": [
                {
                    "name": "xds-grpc",
                    "type": "STATIC",
                    "connect_timeout": "1s",
                    "typed_extension_protocol_options": {
                        "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                            "@type": "type.googleapis.com/"
                            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                            **http2,
                        }
                    },
                    "load_assignment": {
                        "cluster_name": "xds-grpc",
                        "endpoints": [{"lb_endpoints": [{"endpoint": relay}]}],
                    },
                }
            ]
        },
    }
    process = await asyncio.create_subprocess_exec(
        str(binary),
        *hot_restart,
        *("--concurrency", "1", "--log-level", "error"),
        *("--config-yaml", json.dumps(bootstrap)),
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield
    finally:
        process.kill()  # asked to stop, it would ask its parent of a hot restart to stop, too
        _, said = await process.communicate()
        sys.stdout.write(said.decode(errors="replace"))  # shown with a failed test
