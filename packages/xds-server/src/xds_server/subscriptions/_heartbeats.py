"""Resources that expire unless the client hears of them again (`Resource.ttl_s`).

https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#resource-ttl
"""

from __future__ import annotations

from collections.abc import Mapping

from xds_server.protocol._resource import Resource
from xds_server.subscriptions._subscription import Subscription


def record_ttls(subscription: Subscription, sent: Mapping[str, Resource], *, now: float) -> None:
    """Take note of the shortest TTL among resources that are sent now."""
    ttl_s = None
    for resource in sent.values():  # most have none, and a push does this for each client
        if resource.ttl_s is not None and (ttl_s is None or resource.ttl_s < ttl_s):
            ttl_s = resource.ttl_s
    if ttl_s is None:
        return
    if subscription.shortest_ttl_s is None:
        subscription.shortest_ttl_s, subscription.refreshed_at = ttl_s, now
    else:
        subscription.shortest_ttl_s = min(ttl_s, subscription.shortest_ttl_s)


def begin_due_heartbeat(subscription: Subscription, *, now: float) -> Mapping[str, Resource]:
    """Return the resources to send again, when half of the shortest TTL has passed, else none.

    They count as sent now.
    """
    due_at = subscription.heartbeat_at
    if due_at is None or now < due_at:
        return {}
    subscription.shortest_ttl_s = None
    expiring = {n: r for n, r in subscription.client_has.items() if r.ttl_s is not None}
    record_ttls(subscription, expiring, now=now)
    return expiring
