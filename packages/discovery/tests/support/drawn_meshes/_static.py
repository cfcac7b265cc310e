"""A bootstrap that holds all resources of a proxy, so that Envoy can judge them without xDS."""

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]


def static_bootstrap(resources: Mapping[str, Mapping[str, Json]], *, node: Json) -> Json:
    """Return a bootstrap with these resources; routes and endpoints stand where they are used."""
    routes = resources["route"]
    clusters = [
        _in_place(_with_endpoints(cluster, resources["endpoint"]), routes)
        for cluster in resources["cluster"].values()
    ]
    listeners = [_in_place(listener, routes) for listener in resources["listener"].values()]
    return {
        "node": node,
        "dynamic_resources": {
            "ads_config": {
                "api_type": "GRPC",
                "transport_api_version": "V3",
                "grpc_services": [{"envoy_grpc": {"cluster_name": "xds-grpc"}}],
            }
        },
        "static_resources": {
            "clusters": [*map(_agent_cluster, ("xds-grpc", "sds-grpc")), *clusters],
            "listeners": listeners,
        },
        "bootstrap_extensions": [
            {
                "name": "envoy.bootstrap.internal_listener",
                "typed_config": {
                    "@type": "type.googleapis.com/envoy.extensions.bootstrap"
                    ".internal_listener.v3.InternalListener"
                },
            }
        ],
    }


def _agent_cluster(name: str) -> Json:
    return {
        "name": name,
        "type": "STATIC",
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": "type.googleapis.com/"
                "envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                "explicit_http_config": {"http2_protocol_options": {}},
            }
        },
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [
                {"lb_endpoints": [{"endpoint": {"address": {"pipe": {"path": "/nowhere"}}}}]}
            ],
        },
    }


def _with_endpoints(cluster: Json, endpoints: Mapping[str, Json]) -> Json:
    if cluster.get("type") != "EDS":
        return cluster
    fields = {key: value for key, value in cluster.items() if key != "eds_cluster_config"}
    name = cluster.get("eds_cluster_config", {}).get("service_name") or cluster["name"]
    return {**fields, "type": "STATIC", "load_assignment": endpoints[name]}


_SECRETS = {
    "resource_api_version": "V3",
    "api_config_source": {
        "api_type": "GRPC",
        "transport_api_version": "V3",
        "grpc_services": [{"envoy_grpc": {"cluster_name": "sds-grpc"}}],
    },
}


def _in_place(value: Any, routes: Mapping[str, Json]) -> Any:
    """Put routes where a connection manager refers to them, and ask the agent for all secrets.

    Envoy 1.36 and 1.40 die of secrets over ADS in `--mode validate`.
    """
    if isinstance(value, list):
        return [_in_place(each, routes) for each in value]
    if not isinstance(value, dict):
        return value
    fields = {key: _in_place(each, routes) for key, each in value.items()}
    if "rds" in fields:
        fields["route_config"] = routes[fields.pop("rds")["route_config_name"]]
    if "ads" in fields.get("sds_config", {}):
        fields["sds_config"] = _SECRETS
    return fields
