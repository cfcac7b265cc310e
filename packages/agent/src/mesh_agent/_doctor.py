"""`mesh-agent doctor`: finds out why a workload's proxy does not work.

Reads the configuration as `proxy` does; whether the agent runs or not. Only examines.
"""

from typing import Annotated

import typer

from mesh_agent._command import CommandWithFlags, with_flags
from mesh_agent.config._flags import Flags


def register(app: typer.Typer) -> None:
    """Add `doctor` to the `mesh-agent` command."""
    app.command("doctor", cls=CommandWithFlags)(with_flags(doctor))


def doctor(
    flags: Flags,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, for scripts.")] = False,
) -> None:
    """Examine why the proxy does not work: what is wrong, the cause, and what to do.

    Takes the directory, the environment and the flags of `proxy`, and changes nothing.
    """
    raise typer.Exit(examine(flags, as_json=as_json))


def examine(flags: Flags, *, as_json: bool) -> int:
    """Examine, print what was found, and return the exit status: 1 if there is a problem."""
    import asyncio
    import logging
    import os
    from pathlib import Path

    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # read when gRPC is loaded
    import mesh_doctor
    from mesh_agent._config import compose_config
    from mesh_agent._diagnosis import doctor_config
    from mesh_agent_cli import screen

    logging.disable()  # what is logged on the way is found out below, and told once
    config, problems = compose_config(
        flags, environ=os.environ, directory=Path(), version=flags.version
    )
    findings = asyncio.run(mesh_doctor.examine(doctor_config(config, problems)))
    if as_json:
        typer.echo(mesh_doctor.as_json(findings))
    else:
        out = screen()
        typer.echo(mesh_doctor.as_text(findings, width=out.width, colour=out.colour))
    return int(any(each.status is mesh_doctor.Status.PROBLEM for each in findings))
