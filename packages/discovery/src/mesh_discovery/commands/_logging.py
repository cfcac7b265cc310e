"""Begins the log of the control plane, by Istio's flags and in Istio's scopes."""

from typing import NamedTuple

from mesh_discovery.commands._options import WRONG_CALL, fail
from mesh_lifecycle import (
    LogLevelError,
    LogScopes,
    LogSettings,
    LogTargetError,
    parse_levels,
    start_logging,
)

# The name of a logger is a scope too, so what Istio has no scope for is named by its package.
_SCOPES = LogScopes(
    {
        "ads": ("xds_server",),
        "authentication": ("mesh_discovery.serve", "mesh_ca"),
        "authorization": ("envoy_config",),
        "ca": ("mesh_ca",),
        "controllers": ("mesh_discovery.sources",),
        "delta": ("xds_server",),
        "file": ("mesh_discovery.sources.files", "mesh_filewatch"),
        "grpc": ("grpc",),
        "model": ("mesh_model", "mesh_discovery.push"),
        "pkica": ("mesh_ca",),
        "rootcertrotator": ("mesh_ca",),
        "security": ("mesh_ca", "mesh_identity"),
        "serviceentry": ("mesh_model",),
        "workloadentry": ("mesh_discovery.sources.registration",),
        "discovery": ("mesh_discovery", "mesh_lifecycle", "mesh_listening"),
        # Scopes of Istio's control plane for what this one does not do.
        "gateway": (),
        "ingress": (),
        "injector": (),
        "klog": (),
        "kube": (),
        "krt": (),
        "retry": (),
        "status": (),
        "validation": (),
        "webhook": (),
    }
)


class LogFlags(NamedTuple):
    """The flags that say how to log."""

    levels: str
    as_json: bool
    targets: tuple[str, ...]
    stacks: str
    callers: str


def start_log(flags: LogFlags) -> None:
    """Log as the flags say from now on, or end the command with what is wrong with them."""
    problems = []
    for name, levels in (("--log-level", flags.levels), ("--log-stacktrace-level", flags.stacks)):
        try:
            parse_levels(levels)
        except LogLevelError as error:
            problems.append(f"{name}: {error}")
    if problems:
        fail(problems, exit_code=WRONG_CALL)
    settings = LogSettings(
        levels=flags.levels,
        as_json=flags.as_json,
        targets=_items(",".join(each.strip("[]") for each in flags.targets)) or ("stderr",),
        callers=_items(flags.callers),
        stacks=flags.stacks,
    )
    try:
        start_logging(settings, _SCOPES)
    except LogTargetError as error:
        fail([f"--log-target: {error}"])


def _items(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (each.strip() for each in text.split(","))))
