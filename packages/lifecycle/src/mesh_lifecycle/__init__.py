"""The lifecycle of an asyncio service: starting, retrying, readiness, stopping and logging.

Uses the standard library only, and does not depend on the kind of service.
"""

from mesh_lifecycle._background import ServiceEnded, in_background
from mesh_lifecycle._backoff import Backoff
from mesh_lifecycle._clock import Clock, SystemClock
from mesh_lifecycle._drain import Draining, drain_within
from mesh_lifecycle._field_types import check_fields, with_checked_fields
from mesh_lifecycle._memory import release_unused_memory, trim_memory
from mesh_lifecycle._readiness import Condition, Readiness
from mesh_lifecycle._signals import Stopping, stop_signals
from mesh_lifecycle.logs._configure import LogSettings, configure_logging, start_logging
from mesh_lifecycle.logs._levels import LogLevelError, LogScopes, parse_levels
from mesh_lifecycle.logs._repeat_log import RepeatLog
from mesh_lifecycle.logs._shown_fields import shows_fields
from mesh_lifecycle.logs._sinks import LogTargetError, Rotation

__all__ = [
    # time
    "Clock",
    "SystemClock",
    # configuration
    "check_fields",
    "with_checked_fields",
    # retry
    "Backoff",
    # readiness
    "Condition",
    "Readiness",
    # run
    "ServiceEnded",
    "in_background",
    # memory
    "release_unused_memory",
    "trim_memory",
    # stop
    "Draining",
    "Stopping",
    "drain_within",
    "stop_signals",
    # logging
    "LogLevelError",
    "LogScopes",
    "LogSettings",
    "LogTargetError",
    "RepeatLog",
    "Rotation",
    "configure_logging",
    "shows_fields",
    "parse_levels",
    "start_logging",
]
