"""Whether proxies have what they were sent: as JSON of Istio's pages, and as messages of Envoy's.

Source: pilot/pkg/xds/debug.go (the names of fields) and statusgen.go in the Go module
istio.io/istio; envoy/service/status/v3/csds.proto.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from mesh_discovery.debug._proxies import kind_of, short_id, text_of
from mesh_protos import type_urls
from xds_server import ClientStatus, Resource, TypeStatus

if TYPE_CHECKING:
    from envoy.service.status.v3 import csds_pb2

_WORDS = {
    "cluster": type_urls.CLUSTER,
    "listener": type_urls.LISTENER,
    "route": type_urls.ROUTE,
    "endpoint": type_urls.ENDPOINT,
    "extensionconfig": type_urls.EXTENSION_CONFIG,
}
"""Istio's words for the types that have fields of their own."""


def sync_status(client: ClientStatus) -> dict[str, object]:
    """Return a proxy's entry of /debug/syncz, in the fields of Istio's page."""
    found: dict[str, object] = {
        "cluster_id": text_of(client, "CLUSTER_ID"),
        "proxy": short_id(client.node.id),
        "proxy_type": kind_of(client.node.id),
        "istio_version": text_of(client, "ISTIO_VERSION"),
    }
    for word, url in _WORDS.items():
        if (status := client.types.get(url)) is not None:
            found[f"{word}_sent"] = status.nonce_sent
            found[f"{word}_acked"] = status.nonce_acked
    resources = {url: _resource_status(each) for url, each in client.types.items()}
    return {**{key: value for key, value in found.items() if value}, "resources": resources}


def _resource_status(status: TypeStatus) -> dict[str, str]:
    found = {
        "sent": status.nonce_sent,
        "acked": status.nonce_acked,
        "sentTime": moment(status.sent_at),
        "lastError": "" if status.nack is None else status.nack.message,
    }
    return {key: value for key, value in found.items() if value}


def moment(seconds: float | None) -> str:
    """Return a time in Unix seconds as RFC 3339 has it; empty if there is none."""
    return "" if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat()


def connections(clients: Iterable[ClientStatus], *, in_full: bool) -> dict[str, object]:
    """Return /debug/connections, and in full /debug/adsz: who is connected and watches what."""
    listed = [_connection(client, in_full=in_full) for client in clients]
    return {"totalClients": len(listed), "clients": listed}


def _connection(client: ClientStatus, *, in_full: bool) -> dict[str, object]:
    found: dict[str, object] = {
        "connectionId": client.id,
        "connectedAt": moment(client.connected_since),
        "address": client.address,
    }
    if in_full:
        node = client.node
        found["metadata"] = dict(node.metadata)
        found["locality"] = {"region": node.region, "zone": node.zone, "sub_zone": node.sub_zone}
        found["watches"] = {url: sorted(each.names) for url, each in client.types.items()}
    return found


def client_config(client: ClientStatus) -> Resource:
    """Return a proxy's status as `istioctl proxy-status` reads it."""
    from envoy.service.status.v3 import csds_pb2  # wanted by few

    message = csds_pb2.ClientConfig()
    message.node.id = short_id(client.node.id)
    for key in ("CLUSTER_ID", "NAMESPACE", "ISTIO_VERSION"):
        if text := text_of(client, key):
            message.node.metadata[key] = text
    for url in sorted(client.types):
        _add_type(message, url, client.types[url])
    return Resource.pack(message, name=client.id)


def _add_type(message: "csds_pb2.ClientConfig", url: str, status: TypeStatus) -> None:
    from envoy.service.status.v3 import csds_pb2

    config = csds_pb2.ConfigStatus
    entry = message.generic_xds_configs.add(type_url=url)
    if status.sent_at is not None:
        entry.last_updated.FromNanoseconds(int(status.sent_at * 1e9))
    if status.nack is not None:
        entry.config_status = config.ERROR
        entry.error_state.details = status.nack.message
        entry.error_state.last_update_attempt.FromNanoseconds(int(status.nack.last * 1e9))
    elif not status.nonce_sent:
        entry.config_status = config.NOT_SENT
    else:
        entry.config_status = config.SYNCED if status.in_sync else config.STALE
