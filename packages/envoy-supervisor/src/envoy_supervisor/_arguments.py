"""Envoy's command line, exactly."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from envoy_supervisor._config import EnvoyConfig

LOG_FORMAT = "[%l][%n] %_"
"""Level, component, message with its newlines escaped: one record is one line."""


def envoy_arguments(
    config: EnvoyConfig, bootstrap: Path, *, own_log_format: bool = True
) -> tuple[str, ...]:
    """The arguments behind the executable's name.

    own_log_format: False when the bootstrap sets a log format, which Envoy refuses to have twice.
    """
    arguments = [
        *("-c", str(bootstrap)),
        *("--drain-time-s", whole_seconds(config.drain_time)),
        *("--drain-strategy", "immediate"),
        *("--local-address-ip-version", "v6" if config.local_address_ipv6 else "v4"),
        *("--file-flush-interval-msec", "1000"),
        "--disable-hot-restart",
        "--allow-unknown-static-fields",
        *("-l", config.log_level),
    ]
    if config.component_log_level:
        arguments += ["--component-log-level", config.component_log_level]
    if own_log_format:
        arguments += ["--log-format", LOG_FORMAT]
    if config.skip_deprecated_logs:
        arguments.append("--skip-deprecated-logs")
    if config.concurrency > 0:
        arguments += ["--concurrency", str(config.concurrency)]
    return (*arguments, *config.extra_args)


def whole_seconds(duration: timedelta) -> str:
    return str(round(duration.total_seconds()))
