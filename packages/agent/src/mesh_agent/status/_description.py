"""The agent's status as JSON, for people and for `mesh-agent status`."""

import json
import os
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec import structs

import envoy_supervisor
import xds_proxy
from mesh_agent.identity._token_status import describe_token
from mesh_agent.readiness._refusals import short_name_of_type
from mesh_agent.readiness._warming import describe_warming
from mesh_agent.status._parts import AgentParts
from mesh_agent.status._process_metrics import process_age_s

if TYPE_CHECKING:
    from mesh_dnsproxy import DnsServer


_MOST_REFUSED = 32


async def describe(parts: AgentParts) -> Mapping[str, object]:
    """Return everything that the agent knows of itself; values are JSON or have a `str` form."""
    config, readiness, learned = parts.config, parts.readiness, parts.learned_roots
    return {
        "workload": f"{config.identity.pod_name}.{config.identity.namespace}",
        "node_id": config.identity.node_id,
        "spiffe_id": str(config.spiffe_id),
        "agent": _describe_agent(),
        "ready": readiness.ready,
        "reasons": readiness.reasons(),
        "conditions": readiness.conditions(),
        "details": readiness.details(),
        "certificate": parts.secrets.describe(),
        "envoy_certificate": {} if parts.served is None else parts.served.describe(),
        "learned_roots": {} if learned is None else learned.describe(),
        "token": await describe_token(config.authority),
        "xds": _describe_xds(config.relay.upstream.address, parts.relay.status),
        "adaptations": [] if parts.adapter is None else parts.adapter.describe(),
        "envoy": await _describe_envoy(parts),
        "proxy_configs": parts.start_differences.describe(),
        "health_check": {} if parts.health is None else parts.health.describe(),
        "token_exchange": {} if parts.tokens is None else parts.tokens.describe(),
        "wasm": {} if parts.wasm is None else parts.wasm.describe(),
        "names": {} if parts.dns is None else describe_dns(parts.dns),
    }


def _describe_agent() -> Mapping[str, object]:
    started_at = datetime.fromtimestamp(time.time() - process_age_s(), UTC)
    return {"pid": os.getpid(), "started_at": started_at.isoformat(timespec="seconds")}


async def _describe_envoy(parts: AgentParts) -> Mapping[str, object]:
    """Return Envoy's status; `admin` is the address of its admin interface.

    warming: how many clusters Envoy has and does not use yet; warming_clusters: names of some.

    Where there is none, `grpc_bootstrap` is the file that a gRPC application starts from.
    """
    if parts.envoy is None:
        return {"state": "none", "grpc_bootstrap": str(parts.config.grpc_bootstrap)}
    bootstrap = parts.config.envoy.bootstrap
    admin = parts.config.envoy.admin
    if isinstance(bootstrap, envoy_supervisor.BootstrapConfig):
        admin = bootstrap.admin
    return {
        **structs.asdict(parts.envoy.status),
        "admin": None if admin is None else str(admin),
        **await describe_warming(parts.envoy.admin),
    }


def describe_dns(server: "DnsServer") -> Mapping[str, object]:
    """Return where the DNS server listens and asks, and its counts since the start.

    table: there has been a name table. forwarded: queries that the table has no answer to.
    own_queries: questions of this server that an upstream resolver sent back to it.
    """
    import mesh_dnsproxy

    counts = server.counts
    by_type = mesh_dnsproxy.ByType
    return {
        "addresses": [f"{each.host}:{each.port}" for each in server.addresses],
        "upstreams": [str(each) for each in server.upstreams],
        "table": server.ready,
        "hosts": server.sizes().table_hosts,
        "queries": counts.requests,
        "table_hits": sum(counts.by_type(by_type.TABLE_HITS).values()),
        "cache_hits": sum(counts.by_type(by_type.CACHE_HITS).values()),
        "stale_answers": sum(counts.by_type(by_type.STALE).values()),
        "forwarded": sum(counts.by_type(by_type.CACHE_MISSES).values()),
        "upstream_failures": counts.upstream_failures,
        "own_queries": counts.dropped[mesh_dnsproxy.Dropped.OWN_QUERY],
    }


def _describe_xds(address: str, status: xds_proxy.RelayStatus) -> Mapping[str, object]:
    """Return the relay's status; `control_plane` is the address in use, or the first."""
    used = [each.address for each in status.control_planes if each.streams]
    return {
        "control_plane": used[0] if used else address,
        "control_planes": [structs.asdict(each) for each in status.control_planes],
        "connected": status.connected,
        "since": status.since,
        "last_error": status.last_error,
        "streams": status.streams,
        "stale_since": status.stale_since,
        "stale_types": sorted(status.stale_types),
        "saved": describe_saved(status.saved),
        "quarantined": [
            {"type": short_name_of_type(each.type_url), **each._asdict()}
            for each in status.quarantined[:_MOST_REFUSED]
        ],
        "types": {
            type_url: {"name": short_name_of_type(type_url), **describe_type(known)}
            for type_url, known in status.types.items()
        },
    }


def describe_saved(saved: xds_proxy.SavedStatus | None) -> Mapping[str, object]:
    """Return what is saved for an Envoy that starts without a control plane; {} if nothing is."""
    if saved is None:
        return {}
    types = {type_url: structs.asdict(each) for type_url, each in saved.types.items()}
    return {**structs.asdict(saved), "types": types}


def describe_type(known: xds_proxy.TypeStatus) -> Mapping[str, object]:
    """Return the delivery status of one resource type.

    `refused` is there if resources of it are refused.
    `push_reasons` is there if the newest response came with a push that gives its reasons.
    """
    described: dict[str, object] = {
        "version": known.version,
        "acked": known.acked,
        "nack": known.nack,
        "in_use": known.in_use,
        "at": known.at,
    }
    if known.refused:
        described["refused"] = [each._asdict() for each in known.refused[:_MOST_REFUSED]]
    if reasons := push_reasons(known.control_plane):
        described["push_reasons"] = reasons
    return described


def push_reasons(identifier: str) -> tuple[str, ...]:
    """Return why the control plane pushed, from the identifier in its response.

    mesh-discovery's identifier is a JSON object as Istio's, with `Push.Reasons` beside. Other
    control planes' identifiers, and those of answers to a request, have no reasons.
    """
    try:
        document = json.loads(identifier)
    except (ValueError, RecursionError):
        return ()
    match document:
        case {"Push": {"Reasons": [*reasons]}}:
            return tuple(str(reason) for reason in reasons)
        case _:
            return ()
