"""How Envoy is run: everything but the content of its bootstrap."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path

from envoy_supervisor._address import Address, UnixAddress
from envoy_supervisor.bootstrap._render import BootstrapConfig
from mesh_lifecycle import Backoff, check_fields


class EnvoyState(StrEnum):
    """How far Envoy is."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    EXITED = "exited"


class DrainDirection(StrEnum):
    """Which listeners are drained: a sidecar's own application keeps calling out to the end."""

    INBOUND = "inbound"
    ALL = "all"


_BACKOFF = Backoff(initial_s=0.2, maximum_s=10.0, multiplier=2.0, jitter=0.2)


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashPolicy:
    """The answer to an Envoy that ends by itself: how often it is started again.

    budget: how many crashes within `window_s` are answered by a new start; one more and the
        supervisor gives up with the last crash's reason, so that its caller can act. Zero
        never starts again.
    window_s: how long a crash counts.
    backoff: the wait before a new start; the first crash in the window is answered at once.
    """

    budget: int = 5
    window_s: float = 120.0
    backoff: Backoff = _BACKOFF

    def __post_init__(self) -> None:
        check_fields(self)


_CRASHES = CrashPolicy()


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvoyConfig:
    """How to run one Envoy.

    binary: the executable, see `find_envoy`.
    bootstrap: what to render, or a ready file (given to Envoy as it is and never removed). What
        stands in the file later counts from the next `Envoy.restart` that accepts it.
    directory: where the rendered bootstrap is written; created with mode 0700 if it is missing.
    admin: where the admin interface listens; needed only for a bootstrap file that is not JSON.
    drain_time: how long Envoy itself takes over gracefully draining a listener that changed.
    termination_drain: when stopping, how long open connections may go on; then Envoy is asked to
        exit. Zero stops at once.
    minimum_drain: when stopping, do not exit before this even if idle; gives callers time to hear
        that this proxy leaves.
    exit_when_idle: stop waiting as soon as no connection is open.
    stop_grace: how long Envoy may take to exit when asked to, before it is killed. Stopping never
        takes longer than pre_drain_pause + termination_drain + stop_grace.
    drain_direction: which listeners are drained.
    hot_restart: let a new Envoy take over the sockets of the old one. Off: `Envoy.restart` is
        refused.
    parent_shutdown_time: after a hot restart, how long the old Envoy may finish requests.
    restart_timeout: how long a new Envoy may take to be ready before it is given up and the old
        one kept; does not bound the first start, which may have to wait for a control plane.
    crashes: whether and how often an Envoy that ended by itself is started again.
    pre_drain_pause: when stopping, serve on as before for this long first, in addition to
        termination_drain; for callers that are slow to hear that this proxy leaves.
    retain_sockets: when Envoy has died, let new connections wait for the next Envoy instead of
        being refused: the supervisor holds Envoy's listening sockets (TCP and Unix) open beside it.
        Needs hot_restart and crashes; no socket is retained while Envoy drains.
    listener_changes_reported: promises calls of `Envoy.listeners_changing` and `listeners_changed`.
        Without it, sockets are retained only for a bootstrap whose listeners are all static: one
        that Envoy closes by order of a control plane must not be held open.
    log_level: Envoy's own level: trace, debug, info, warning, error, critical or off.
    component_log_level: levels by component, as in `upstream:debug,misc:error`.
    concurrency: worker threads; 0 is one for each processor.
    local_address_ipv6: choose IPv6 for the address Envoy names as its own.
    file_flush_interval: how often Envoy writes what it logs to files.
    enable_core_dump: let Envoy leave a core file although it has capabilities; only an Envoy that
        has the flag starts then.
    skip_deprecated_logs: do not warn of deprecated fields in configuration.
    watched_files: files the bootstrap names, such as certificates: when their content changes, it
        is another configuration, although the bootstrap says the same.
    extra_args: put behind all other arguments.
    """

    binary: Path
    bootstrap: BootstrapConfig | Path
    directory: Path
    admin: Address | UnixAddress | None = None
    drain_time: timedelta = timedelta(seconds=45)
    termination_drain: timedelta = timedelta(seconds=5)
    minimum_drain: timedelta = timedelta(0)
    exit_when_idle: bool = True
    stop_grace: timedelta = timedelta(seconds=1)
    pre_drain_pause: timedelta = timedelta(0)
    drain_direction: DrainDirection = DrainDirection.INBOUND
    hot_restart: bool = True
    parent_shutdown_time: timedelta = timedelta(seconds=60)
    restart_timeout: timedelta = timedelta(seconds=60)
    crashes: CrashPolicy = _CRASHES
    retain_sockets: bool = True
    listener_changes_reported: bool = False
    log_level: str = "warning"
    component_log_level: str = ""
    concurrency: int = 0
    local_address_ipv6: bool = False
    file_flush_interval: timedelta = timedelta(seconds=1)
    enable_core_dump: bool = False
    skip_deprecated_logs: bool = False
    watched_files: tuple[Path, ...] = ()
    extra_args: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)
