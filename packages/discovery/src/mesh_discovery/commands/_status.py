"""`mesh-discovery status`: what a running control plane says of its configuration."""

from typing import Annotated

import typer

from mesh_command_line import Form
from mesh_discovery.commands._options import AS_JSON, MONITORING_ADDR, OUTPUT, fail, monitoring_port


def status(
    monitoring_addr: Annotated[str, MONITORING_ADDR] = ":15014",
    *,
    output: Annotated[Form | None, OUTPUT] = None,
    as_json: Annotated[bool, AS_JSON] = False,
) -> None:
    """Ask a running control plane how things stand.

    The exit code is 0 if everything is as configured, 1 if not, or if nothing answers, and 2 if the
    command is called wrongly.
    """
    import json

    from mesh_discovery.serve._status import (
        StatusError,
        fetch_status,
        status_notes,
        status_problems,
    )

    host, port = monitoring_port(monitoring_addr)
    try:
        document = fetch_status(host, port)
    except StatusError as error:
        fail([str(error)])
    problems = tuple(status_problems(document))
    if as_json or output is Form.JSON:
        typer.echo(json.dumps(document))
    else:
        for line in (*problems, *status_notes(document)):
            typer.echo(line)
        count = document["proxies"]
        typer.echo(
            f"{count} prox{'y' if count == 1 else 'ies'} connected, "
            + ("not everything is as configured" if problems else "everything is as configured")
        )
    raise SystemExit(1 if problems else 0)
