"""Bootstraps of an Envoy in front of an application, and changes to them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from envoy_supervisor import EnvoyConfig


def http_listener(port: int, *, inbound: bool = True) -> dict[str, Any]:
    types = "type.googleapis.com/envoy.extensions.filters"
    route = {"match": {"prefix": "/"}, "route": {"cluster": "application", "timeout": "0s"}}
    return {
        "name": f"listener_{port}",
        "traffic_direction": "INBOUND" if inbound else "OUTBOUND",
        "address": {"socket_address": {"address": "127.0.0.1", "port_value": port}},
        "filter_chains": [
            {
                "filters": [
                    {
                        "name": "http",
                        "typed_config": {
                            "@type": (
                                f"{types}.network.http_connection_manager.v3.HttpConnectionManager"
                            ),
                            "stat_prefix": "inbound",
                            "route_config": {
                                "virtual_hosts": [
                                    {"name": "all", "domains": ["*"], "routes": [route]}
                                ]
                            },
                            "http_filters": [
                                {
                                    "name": "router",
                                    "typed_config": {"@type": f"{types}.http.router.v3.Router"},
                                }
                            ],
                        },
                    }
                ]
            }
        ],
    }


def proxy_bootstrap(
    listeners: list[dict[str, Any]], application: int, admin: Path
) -> dict[str, Any]:
    address = {"socket_address": {"address": "127.0.0.1", "port_value": application}}
    return {
        "admin": {"address": {"pipe": {"path": str(admin)}}},
        "static_resources": {
            "listeners": listeners,
            "clusters": [
                {
                    "name": "application",
                    "type": "STATIC",
                    "connect_timeout": "60s",
                    "load_assignment": {
                        "cluster_name": "application",
                        "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}],
                    },
                }
            ],
        },
    }


def edited(config: EnvoyConfig) -> Any:
    """Read the bootstrap file, to be edited and saved."""
    assert isinstance(config.bootstrap, Path)
    return json.loads(config.bootstrap.read_text())


def saved(config: EnvoyConfig, bootstrap: Any) -> EnvoyConfig:
    """Write the bootstrap file anew."""
    assert isinstance(config.bootstrap, Path)
    config.bootstrap.write_text(json.dumps(bootstrap))
    return config


def changed(config: EnvoyConfig, node: str) -> EnvoyConfig:
    """Write the bootstrap file anew, with another node; the change itself means nothing."""
    return saved(config, {**edited(config), "node": {"id": node, "cluster": "c"}})


def listener_of(bootstrap: Any) -> Any:
    return bootstrap["static_resources"]["listeners"][0]
