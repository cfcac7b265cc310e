"""The options that several commands have, and how a command ends with a mistake."""

from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import NoReturn

import typer

from istio_config.addresses import split_host_port
from mesh_command_line import say
from mesh_configfile import DurationError, parse_duration
from mesh_discovery import _config
from mesh_discovery.settings._reader import wrong_duration

ALLOW_UNSUPPORTED = typer.Option(
    "--allow-unsupported",
    envvar=_config.ALLOW_UNSUPPORTED,
    help="Let pass, without effect, what Istio has and this control plane has not yet.",
)

BELIEVE_TIMESTAMPS = typer.Option(
    "--believe-timestamps",
    envvar=_config.BELIEVE_TIMESTAMPS,
    help="creationTimestamp says which object is older between namespaces too: for files that no "
    "tenant writes, such as exports of a cluster.",
)

STRICT_NAMESPACES = typer.Option(
    "--strict-namespaces",
    envvar=_config.STRICT_NAMESPACES,
    help="A namespace governs its own hosts alone: what it says of others' holds for its own "
    "clients.",
)

# Parsed here: typer itself would look at the file, for as long as a mount takes to answer.
CONFIG_DIR = typer.Option(
    "--config-dir",
    "--configDir",
    help="Directory of Istio YAML files.",
    parser=Path,
    metavar="PATH",
)
MESH_CONFIG = typer.Option(
    "--mesh-config",
    "--meshConfig",
    help="Mesh config file, as Istio's.",
    parser=Path,
    metavar="PATH",
)

MESH_NETWORKS = typer.Option(
    "--mesh-networks",
    "--networksConfig",
    help="File of the networks of the mesh, as Istio's.",
    parser=Path,
    metavar="PATH",
)

OUTPUT = typer.Option("--output", "-o", help="A form for programs.", metavar="json")
AS_JSON = typer.Option("--json", help="As -o json.")

MONITORING_ADDR = typer.Option(
    "--monitoring-addr", "--monitoringAddr", help="Where the control plane has that port."
)

CA_DIR = typer.Option(
    "--ca-dir", envvar="ROOT_CA_DIR", help="The CA's directory, shared with the server."
)


def duration_of(flag: str, text: str) -> timedelta:
    """Read the duration of a flag, or end the command with what is wrong with it."""
    try:
        return parse_duration(text)
    except DurationError as error:
        fail([wrong_duration(flag, text, error)], exit_code=WRONG_CALL)


WRONG_CALL = 2
"""The exit code of a command that is called wrongly; typer has the same."""


def monitoring_port(text: str) -> tuple[str, int]:
    """Read the address of a monitoring port, or end the command with what is wrong with it."""
    try:
        host, port = split_host_port(text)
    except ValueError as error:
        fail([f"--monitoring-addr: {error}"], exit_code=WRONG_CALL)
    return host or "127.0.0.1", port


def fail(sentences: Iterable[str], *, exit_code: int = 1) -> NoReturn:
    """End the command with these sentences on stderr."""
    for sentence in sentences:
        say(sentence, name="mesh-discovery")
    raise SystemExit(exit_code)
