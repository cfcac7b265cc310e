"""Finds the faults of what a proxy is given: by Envoy's own rules, and by an Envoy."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from google.protobuf import any_pb2

from drawn_meshes._field_rules import broken_rules
from drawn_meshes._refused import refused
from drawn_meshes._static import static_bootstrap
from envoy_config import Proxy, PushContext, parse_outbound_cluster
from istio_config.kinds.protocol import Protocol
from mesh_discovery.comparison._differences import endpoints_asked_for, routes_asked_for
from mesh_discovery.comparison._expected import expected_of
from proxies import proxy_of
from xds_server import Node, Resource


def faults(context: PushContext, node: Node) -> Iterator[str]:
    """Yield what Envoy's rules say against the resources of a proxy."""
    proxy = proxy_of(node)
    found = expected_of(context, proxy)
    listeners = context.listeners(proxy).resources
    clusters = context.clusters(proxy).resources
    endpoints = context.endpoints(proxy, endpoints_asked_for(found["cluster"])).resources
    routes = context.routes(proxy, routes_asked_for(found["listener"])).resources
    for kind, resources in (
        ("listener", listeners),
        ("cluster", clusters),
        ("endpoint", endpoints),
        ("route", routes),
    ):
        names = [each.name for each in resources]
        if len(names) != len(set(names)):
            yield f"{kind}: one name twice in {sorted(names)}"
        for each in resources:
            yield from (f"{kind} {each.name} {text}" for text in _broken(each))
            yield from (f"{kind} {text}" for text in refused(kind, found[kind][each.name]))
    missing = routes_asked_for(found["listener"]) - found["route"].keys()
    if missing:
        yield f"no routes {sorted(missing)}"
    yield from _lost_clusters(context, proxy, found)


def _broken(resource: Resource) -> Iterator[str]:
    return broken_rules(any_pb2.Any(type_url=resource.type_url, value=resource.body))


def _lost_clusters(
    context: PushContext, proxy: Proxy, found: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    """Yield the clusters of known services that connections are forwarded to and that are lost.

    Rules may name unknown hosts and subsets: the connection ends then, as at Istio's.
    """
    services = context.scope(proxy).services
    for name, listener in found["listener"].items():
        for chain in (*listener.get("filter_chains", ()), listener.get("default_filter_chain", {})):
            for each in chain.get("filters", ()):
                cluster = each.get("typed_config", {}).get("cluster")
                if not isinstance(cluster, str) or cluster in found["cluster"]:
                    continue
                parsed = parse_outbound_cluster(cluster)
                service = services.get(parsed.host) if parsed is not None else None
                port = service.port(parsed.port) if service is not None and parsed else None
                there = port is not None and port.protocol is not Protocol.UDP
                if parsed is None or (there and not parsed.subset):
                    yield f"listener {name}: no cluster {cluster}"


def envoy_says(binary: Path, context: PushContext, node: Node) -> str:
    """Return what an Envoy says against the resources of a proxy; nothing if it takes them."""
    resources = expected_of(context, proxy_of(node))
    bootstrap = static_bootstrap(resources, node={"id": node.id, "cluster": node.cluster})
    with TemporaryDirectory() as directory:
        file = Path(directory, "envoy.json")
        file.write_text(json.dumps(bootstrap))
        done = subprocess.run(
            [binary, "--mode", "validate", "--config-path", file, "--log-level", "error"],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    return "" if done.returncode == 0 else f"exit code {done.returncode}: {done.stderr[-2000:]}"
