"""Envoy's command line."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import msgspec

from envoy_supervisor._config import EnvoyConfig

LOG_FORMAT = "[%E.%f][%t][%l][%n][%g:%#] %_"
"""Seconds since 1970, thread, level, component, place in the code, and the message with its
newlines escaped: one record is one line."""


class HotRestart(msgspec.Struct, frozen=True, kw_only=True):
    """The part that a process has in a hot restart.

    base_id: is shared by the processes that take over from each other; None for the first, which
        writes it to id_file.
    socket_path: the beginning of their sockets' names; None is Envoy's own choice, sockets that
        every user may use.
    parent_statistics: whether the parent is asked for its statistics, now and then.
    """

    id_file: Path
    socket_path: Path | None = None
    base_id: int | None = None
    epoch: int = 0
    parent_statistics: bool = True


def envoy_arguments(
    config: EnvoyConfig,
    bootstrap: Path,
    *,
    hot_restart: HotRestart | None = None,
    own_log_format: bool = True,
) -> tuple[str, ...]:
    """Return the arguments behind the executable's name.

    own_log_format: False when the bootstrap sets a log format, which Envoy refuses to have twice.
    """
    arguments = [
        *("-c", str(bootstrap)),
        *("--drain-time-s", whole_seconds(config.drain_time)),
        *("--drain-strategy", "immediate"),
        *_hot_restart_arguments(config, hot_restart),
        *("--local-address-ip-version", "v6" if config.local_address_ipv6 else "v4"),
        *("--file-flush-interval-msec", _milliseconds(config.file_flush_interval)),
        "--allow-unknown-static-fields",
        *("-l", config.log_level),
    ]
    if config.component_log_level:
        arguments += ["--component-log-level", config.component_log_level]
    if own_log_format:
        arguments += ["--log-format", LOG_FORMAT]
    if config.skip_deprecated_logs:
        arguments.append("--skip-deprecated-logs")
    if config.enable_core_dump:
        arguments.append("--enable-core-dump")
    if config.concurrency > 0:
        arguments += ["--concurrency", str(config.concurrency)]
    return (*arguments, *config.extra_args)


def _hot_restart_arguments(config: EnvoyConfig, place: HotRestart | None) -> tuple[str, ...]:
    if place is None:
        return ("--disable-hot-restart",)
    common = ["--parent-shutdown-time-s", whole_seconds(config.parent_shutdown_time)]
    if place.socket_path is not None:
        common += ["--socket-path", str(place.socket_path), "--socket-mode", "600"]
    if place.base_id is None:
        return (*common, "--use-dynamic-base-id", "--base-id-path", str(place.id_file))
    if not place.parent_statistics:
        common.append("--skip-hot-restart-parent-stats")
    return (*common, "--base-id", str(place.base_id), "--restart-epoch", str(place.epoch))


def _milliseconds(duration: timedelta) -> str:
    return str(max(1, round(duration.total_seconds() * 1000)))


def whole_seconds(duration: timedelta) -> str:
    return str(round(duration.total_seconds()))
