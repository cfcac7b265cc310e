"""`mesh-agent doctor`: finds out why a workload's proxy does not work.

Takes the configuration of the agent that runs; else reads it as `proxy` does. Only examines.
"""

from typing import Annotated

import typer

from mesh_agent._command import CommandWithFlags, with_flags
from mesh_agent.config._flags import Flags
from mesh_command_line import Form, examples


def register(app: typer.Typer) -> None:
    """Add `doctor` to the `mesh-agent` command."""
    epilog = examples("mesh-agent doctor", "mesh-agent doctor --address 127.0.0.2 -o json")
    app.command("doctor", cls=CommandWithFlags, epilog=epilog)(with_flags(doctor))


def doctor(
    flags: Flags,
    *,
    address: Annotated[
        str | None,
        typer.Option(help="Where the agent's ports are bound; also MESH_AGENT_BIND_ADDRESS."),
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="The agent's status port, if not 15020.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, for scripts.")] = False,
    output: Annotated[
        Form | None, typer.Option("--output", "-o", help="The same, as other commands have it.")
    ] = None,
) -> None:
    """Find out why the proxy does not work, and what to do.

    The configuration is taken from the agent that runs. Where none does, it is that which `proxy`
    would have here, with this directory, environment and these flags. Nothing is changed.
    """
    as_json = as_json or output is Form.JSON
    raise typer.Exit(examine(flags, address=address, port=port, as_json=as_json))


def examine(flags: Flags, *, address: str | None, port: int | None, as_json: bool) -> int:
    """Examine, print what was found, and return the exit status: 1 if there is a problem."""
    import asyncio
    import logging
    import os
    from pathlib import Path

    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # read when gRPC is loaded
    import mesh_doctor
    from mesh_agent._diagnosis import doctor_config
    from mesh_agent._examined import examined
    from mesh_agent_cli import screen

    logging.disable()  # what is logged on the way is found out below, and reported once
    found = examined(flags, environ=os.environ, directory=Path(), address=address, port=port)
    config = doctor_config(
        found.config,
        found.problems,
        examined=found.said,
        examined_fix=found.fix,
        other_user=found.other_user,
        is_given=found.is_given,
    )
    findings = asyncio.run(mesh_doctor.examine(config))
    if as_json:
        typer.echo(mesh_doctor.as_json(findings))
    else:
        out = screen()
        typer.echo(mesh_doctor.as_text(findings, width=out.width, colour=out.colour))
    return int(any(each.status is mesh_doctor.Status.PROBLEM for each in findings))
