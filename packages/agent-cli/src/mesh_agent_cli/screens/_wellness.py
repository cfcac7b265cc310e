"""Whether all is well with an agent, by what it tells: the exit status of the commands that ask."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from mesh_agent_cli.screens._fields import mapping, moment, objects, text


def is_well(status: Mapping[str, object], *, now: datetime) -> bool:
    """Say whether an agent is ready, with a certificate, connected, and nothing is refused.

    These are what `mesh-agent doctor` calls problems of a running agent. An agent that does not
    tell one of them is not blamed for it, but for not telling that it is ready.
    """
    xds = mapping(status, "xds")
    types = mapping(xds, "types")
    return (
        status.get("ready") is True
        and has_certificate(mapping(status, "certificate"), now=now)
        and xds.get("connected") is not False
        and not any(text(mapping(types, name), "nack") for name in types)
        and not objects(xds, "quarantined")
        and mapping(status, "envoy_certificate").get("matches") is not False
    )


def has_certificate(certificate: Mapping[str, object], *, now: datetime) -> bool:
    """Say whether there is a valid certificate whose last renewal has not failed.

    What another process serves is not seen, and passes.
    """
    if text(certificate, "served_by"):
        return True
    ends = moment(certificate, "not_after")
    is_valid = ends is not None and ends > now
    return is_valid and bool(text(certificate, "serial")) and not text(certificate, "last_error")
