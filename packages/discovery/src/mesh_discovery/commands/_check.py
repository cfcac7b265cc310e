"""`mesh-discovery check`: a configuration read and judged without serving it."""

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mesh_discovery.commands._options import (
    ALLOW_UNSUPPORTED,
    AS_JSON,
    BELIEVE_TIMESTAMPS,
    CONFIG_DIR,
    MESH_CONFIG,
    MESH_NETWORKS,
    STRICT_NAMESPACES,
    WRONG_CALL,
    fail,
)

if TYPE_CHECKING:
    from istio_config.kinds.mesh_config import InterceptionMode
    from mesh_configfile import Problem
    from mesh_discovery._check import Checked
    from mesh_discovery.comparison._held import Held


class CheckForm(StrEnum):
    """The values of `-o`."""

    JSON = "json"
    SARIF = "sarif"


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
    each: Annotated[
        bool,
        typer.Option(
            "--each",
            help="Check each folder in the directory by itself, as alternatives of each other; the "
            "files in the directory itself are common to all.",
        ),
    ] = False,
    allow_unsupported: Annotated[bool, ALLOW_UNSUPPORTED] = False,
    believe_timestamps: Annotated[bool, BELIEVE_TIMESTAMPS] = False,
    strict_namespaces: Annotated[bool, STRICT_NAMESPACES] = False,
    interception_mode: Annotated[
        str,
        typer.Option(
            metavar="REDIRECT|TPROXY|NONE",
            help="How traffic comes to the proxies. Unless it is given or the mesh config says it, "
            "by iptables (REDIRECT); beside a file of mesh-local, not at all (NONE).",
        ),
    ] = "",
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
    output: Annotated[
        CheckForm | None,
        typer.Option("--output", "-o", help="A form for programs.", metavar="json|sarif"),
    ] = None,
    as_json: Annotated[bool, AS_JSON] = False,
) -> None:
    """Read a configuration and say all that is wrong with it.

    All is reported in one round: mistakes, with which the server would not start, and services,
    subsets and gateways that are named and not there, with which it would start and log a warning.

    The exit code is 0 if all is good (notes and warnings do not count), 1 if not, and 2 if the
    command is called wrongly.
    """
    from mesh_discovery._check import NotComparableError, check_configuration, mesh_local_file
    from mesh_discovery._check_each import check_each
    from mesh_discovery._config_error import ConfigError

    given = [path for path in (directory, config_dir) if path is not None]
    if len(given) != 1:
        fail(["give the directory once, as DIR or with --config-dir"], exit_code=WRONG_CALL)
    if each and against:
        fail(["--against compares with one configuration: leave out --each"], exit_code=WRONG_CALL)
    mode = _mode(interception_mode, given[0])
    try:
        held = _held(against)
        check_folder = partial(
            check_configuration,
            mesh_config=mesh_config,
            mesh_networks=mesh_networks,
            allow_unsupported=allow_unsupported,
            believe_timestamps=believe_timestamps,
            strict_namespaces=strict_namespaces,
            interception=mode,
            against=held,
            trust_domain=trust_domain,
            domain=domain,
        )
        if each:
            checked = check_each(
                given[0],
                lambda folder, near: check_folder(folder, beside=near),
                beside=tuple(beside or ()),
                allow_unsupported=allow_unsupported,
            )
        else:
            checked = check_folder(given[0], beside=tuple(beside or ()))
    except NotComparableError as error:
        fail([f"--against: {error}"])
    except ConfigError as error:
        fail(map(str, error.problems))
    if as_json or output is not None:
        _print_for_programs(checked, output or CheckForm.JSON)
        raise SystemExit(0 if checked.is_good else 1)
    for note in (*checked.notes, *checked.hints):
        typer.echo(f"note: {_coded(note)}", err=True)
    if checked.unjudged:
        typer.echo(f"note: {_unjudged(checked.unjudged, mesh_local_file(given[0]))}", err=True)
    for warning in checked.warnings:
        typer.echo(f"warning: {_coded(warning)}", err=True)
    if not checked.is_good:
        wrong = map(_coded, (*checked.problems, *checked.unreachable))
        fail((*wrong, *map(str, checked.different or ())))
    typer.echo(_good(checked.objects, checked.files))
    if checked.different is not None:
        typer.echo(f"{against} has what it would be given")


def _mode(given: str, directory: Path) -> "InterceptionMode | None":
    """Return how traffic is intercepted; None: as the mesh config says, if it does."""
    from istio_config.kinds.mesh_config import InterceptionMode
    from mesh_discovery._check import mesh_local_file

    if not given:
        return InterceptionMode.NONE if mesh_local_file(directory) is not None else None
    try:
        return InterceptionMode(given.upper())
    except ValueError:
        known = ", ".join(InterceptionMode)
        said = f'--interception-mode: "{given}" is unknown, expected one of {known}'
        fail([said], exit_code=WRONG_CALL)


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


def _coded(problem: "Problem") -> str:
    """Return a problem with the code by which people know it from Istio's analyzers."""
    return f"{problem} [{problem.code}]" if problem.code else str(problem)


def _print_for_programs(checked: "Checked", form: CheckForm) -> None:
    import json
    from dataclasses import asdict, replace

    from mesh_discovery._findings_output import findings_of, plain, sarif
    from mesh_model import NO_WORKLOAD_RULES

    findings = findings_of(checked)
    if form is CheckForm.SARIF:
        typer.echo(json.dumps(sarif(findings), indent=2))
        return
    document = asdict(replace(checked, workload_rules=NO_WORKLOAD_RULES))
    # What is missing is among what is unreachable; the others are for programs in Python.
    for name in ("missing", "objects_at", "workload_rules", "root_namespace"):
        del document[name]
    typer.echo(json.dumps({"findings": plain(findings), **document}, indent=2))


def _good(objects: int, files: int) -> str:
    of_objects = "1 object" if objects == 1 else f"{objects} objects"
    of_files = "1 file" if files == 1 else f"{files} files"
    return f"{of_objects} in {of_files} {'is' if objects == 1 else 'are'} good"
