"""The status of a relay, and of the Envoys that it serves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from xds_proxy.quarantine._quarantine import QuarantinedResource
from xds_proxy.saved._saved_status import SavedStatus
from xds_proxy.session._held import Held
from xds_proxy.status._acks_and_nacks import TypeStatus
from xds_proxy.streams._stream import Stream
from xds_proxy.upstream._selection import ControlPlaneStatus


class RelayStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One moment of the relay.

    connected: the control plane has answered on the leading stream.
    since: when `connected` changed to what it is (UTC).
    last_error: why it is not connected; None while it is, and before the first attempt.
    types: the delivery status of each type on the leading stream, and of the agent's own types, by
        type URL.
    streams: the number of streams that Envoys have open; two during a hot restart.
    control_planes: the control planes' addresses, in the order of preference.
    stale_since: until when the configuration was current that the leading Envoy has from the disk
        in part or whole, as it started while no control plane answered; None if it has none such.
    stale_types: the type URLs of that part. saved: what is saved; None if nothing is to be.
    quarantined: the resources that Envoy refused, and that one without an older version of them
        does not get.
    """

    connected: bool
    since: datetime
    last_error: str | None
    types: Mapping[str, TypeStatus]
    streams: int
    control_planes: tuple[ControlPlaneStatus, ...] = ()
    stale_since: datetime | None = None
    stale_types: frozenset[str] = frozenset()
    saved: SavedStatus | None = None
    quarantined: tuple[QuarantinedResource, ...] = ()


class HeldConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration that one Envoy has from the control plane.

    node: its serialised `envoy.config.core.v3.Node`; empty before its first request.
    process: its process id, None if it is unknown. leading: its stream is the one that leads.
    resources: by type URL and name; state-of-the-world versions are the response's.
    requested: the names that it asks for, by type URL.
    types: the delivery status, with the resources that it refused.
    """

    node: bytes
    process: int | None
    leading: bool
    resources: Mapping[str, Mapping[str, Held]]
    requested: Mapping[str, frozenset[str]]
    types: Mapping[str, TypeStatus]


def held_by(streams: Iterable[Stream]) -> tuple[HeldConfiguration, ...]:
    """Return what the Envoy of each stream has; put together when this is called."""
    return tuple(
        HeldConfiguration(
            node=stream.session.node,
            process=stream.process,
            leading=stream.leading,
            resources=stream.session.held(),
            requested=stream.session.requested(),
            types=stream.session.delivery_status.types,
        )
        for stream in streams
    )
