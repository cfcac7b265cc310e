"""Whether all is well with an agent, by what it tells: the exit status of the commands that ask."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from mesh_agent_cli.screens._fields import mapping, moment, objects, text


def is_well(status: Mapping[str, object], *, now: datetime) -> bool:
    """Return whether an agent is ready, with a certificate, connected, and nothing is refused.

    These are what `mesh-agent doctor` calls problems of a running agent. An agent that does not
    tell one of them is not blamed for it, but for not telling that it is ready.
    """
    xds = mapping(status, "xds")
    types = mapping(xds, "types")
    return (
        status.get("ready") is True
        and has_certificate(mapping(status, "certificate"), now=now)
        and (xds.get("connected") is not False or is_unasked(status))
        and not any(text(mapping(types, name), "nack") for name in types)
        and not objects(xds, "quarantined")
        and mapping(status, "envoy_certificate").get("matches") is not False
    )


def is_without_envoy(status: Mapping[str, object]) -> bool:
    """Return whether the application takes its configuration itself."""
    return text(mapping(status, "envoy"), "state") == "none"


def is_unasked(status: Mapping[str, object]) -> bool:
    """Return whether no program of a workload without an Envoy has asked for configuration yet.

    The agent connects to the control plane for a program that asks, and not before.
    """
    xds = mapping(status, "xds")
    return (
        is_without_envoy(status)
        and xds.get("connected") is False
        and not xds.get("streams")
        and not text(xds, "last_error")
    )


def has_certificate(certificate: Mapping[str, object], *, now: datetime) -> bool:
    """Return whether there is a valid certificate whose last renewal has not failed.

    What another process serves is not seen, and passes.
    """
    if text(certificate, "served_by"):
        return True
    ends = moment(certificate, "not_after")
    is_valid = ends is not None and ends > now
    return is_valid and bool(text(certificate, "serial")) and not text(certificate, "last_error")
