"""Saved configuration in words: that Envoy works with it, or why it could not get it."""

import xds_proxy


def describe_stale(status: xds_proxy.RelayStatus) -> str | None:
    """Return since when Envoy's configuration is stale; None if it is the control plane's own.

    It is reported as long as any of it is from the disk. Envoy is ready with it: its traffic flows.
    """
    if status.stale_since is None:
        return None
    why = f" ({status.last_error})" if status.last_error else ""
    since = status.stale_since.isoformat(timespec="seconds")
    return f"stale since {since}: saved configuration, as no control plane answers{why}"


def describe_unusable(status: xds_proxy.RelayStatus) -> str | None:
    """Return why saved configuration is not used or not written; None if nothing is wrong."""
    return None if status.saved is None else status.saved.problem
