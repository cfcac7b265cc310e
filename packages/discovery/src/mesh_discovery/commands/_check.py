"""`mesh-discovery check`: a configuration read and judged without serving it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mesh_command_line import Form
from mesh_discovery.commands._options import (
    ALLOW_UNSUPPORTED,
    AS_JSON,
    BELIEVE_TIMESTAMPS,
    CONFIG_DIR,
    MESH_CONFIG,
    MESH_NETWORKS,
    OUTPUT,
    STRICT_NAMESPACES,
    WRONG_CALL,
    fail,
)

if TYPE_CHECKING:
    from mesh_discovery._check import Checked
    from mesh_discovery.comparison._held import Held


def check(
    directory: Annotated[
        Path | None, typer.Argument(parser=Path, metavar="DIR", help="Instead of --config-dir.")
    ] = None,
    config_dir: Annotated[Path | None, CONFIG_DIR] = None,
    mesh_config: Annotated[Path | None, MESH_CONFIG] = None,
    mesh_networks: Annotated[Path | None, MESH_NETWORKS] = None,
    *,
    beside: Annotated[
        list[Path] | None,
        typer.Option(
            "--with",
            parser=Path,
            metavar="PATH",
            help="A file or directory of the same mesh, which is not checked: services that the "
            "rules here name may be defined there. Repeatable.",
        ),
    ] = None,
    allow_unsupported: Annotated[bool, ALLOW_UNSUPPORTED] = False,
    believe_timestamps: Annotated[bool, BELIEVE_TIMESTAMPS] = False,
    strict_namespaces: Annotated[bool, STRICT_NAMESPACES] = False,
    against: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT|FILE",
            help="An Envoy's admin port or a config dump of it: say what that Envoy has otherwise "
            "than it would be given.",
        ),
    ] = "",
    trust_domain: Annotated[
        str, typer.Option(envvar="TRUST_DOMAIN", help="Unless the mesh config says another.")
    ] = "cluster.local",
    domain: Annotated[str, typer.Option(help="The DNS suffix of the mesh.")] = "cluster.local",
    output: Annotated[Form | None, OUTPUT] = None,
    as_json: Annotated[bool, AS_JSON] = False,
) -> None:
    """Read a configuration and say all that is wrong with it.

    Everything is told in one round: mistakes, with which the server would not start, and services,
    subsets and gateways that are named and not there, with which it would start and log a warning.

    The exit code is 0 if all is good (notes and warnings do not count), 1 if not, and 2 if the
    command is called wrongly.
    """
    from mesh_discovery._check import NotComparableError, check_configuration, mesh_local_file

    given = [each for each in (directory, config_dir) if each is not None]
    if len(given) != 1:
        fail(["give the directory once, as DIR or with --config-dir"], exit_code=WRONG_CALL)
    try:
        held = _held(against)
        checked = check_configuration(
            given[0],
            mesh_config=mesh_config,
            mesh_networks=mesh_networks,
            beside=tuple(beside or ()),
            allow_unsupported=allow_unsupported,
            believe_timestamps=believe_timestamps,
            strict_namespaces=strict_namespaces,
            against=held,
            trust_domain=trust_domain,
            domain=domain,
        )
    except NotComparableError as error:
        fail([f"--against: {error}"])
    if as_json or output is Form.JSON:
        _print_json(checked)
        raise SystemExit(0 if checked.is_good else 1)
    for note in checked.notes:
        typer.echo(f"note: {note}", err=True)
    if checked.unjudged:
        typer.echo(f"note: {_unjudged(checked.unjudged, mesh_local_file(given[0]))}", err=True)
    for warning in checked.warnings:
        typer.echo(f"warning: {warning}", err=True)
    if not checked.is_good:
        fail(map(str, (*checked.problems, *checked.unreachable, *(checked.different or ()))))
    typer.echo(_good(checked.objects, checked.files))
    if checked.different is not None:
        typer.echo(f"{against} has what it would be given")


def _held(against: str) -> "Held | None":
    """Return what an Envoy has, by `--against`; what reads it is loaded only then."""
    if not against:
        return None
    from mesh_discovery.comparison._sources import SourceError, fetch_held

    try:
        return fetch_held(against)
    except SourceError as error:
        fail([f"--against: {error}"])


def _unjudged(count: int, mesh_file: Path | None) -> str:
    """Return what is said of services that are named where none is defined."""
    names = "the name of a service" if count == 1 else f"{count} names of services"
    said = f"no service is defined here, so {names} in these rules can't be checked; "
    if mesh_file is None:
        return f"{said}--with PATH reads services that are defined elsewhere"
    return f"{said}the services are those of {mesh_file}: mesh-local check {mesh_file}"


def _print_json(checked: "Checked") -> None:
    import json
    from dataclasses import asdict

    told = asdict(checked)
    del told["missing"]  # they are among those that are unreachable
    typer.echo(json.dumps(told, indent=2))


def _good(objects: int, files: int) -> str:
    of_objects = "1 object" if objects == 1 else f"{objects} objects"
    of_files = "1 file" if files == 1 else f"{files} files"
    return f"{of_objects} in {of_files} {'is' if objects == 1 else 'are'} good"
