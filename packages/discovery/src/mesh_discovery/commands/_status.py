"""`mesh-discovery status`: what a running control plane says of its configuration."""

from typing import Annotated

import typer

from mesh_discovery.commands._options import fail


def status(
    monitoring_addr: Annotated[
        str,
        typer.Option(
            "--monitoring-addr", "--monitoringAddr", help="Where the control plane has that port."
        ),
    ] = ":15014",
    *,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False,
) -> None:
    """Ask a running control plane how things stand.

    The exit code is 0 if everything is as configured.
    """
    import json

    from mesh_discovery._addresses import split_host_port
    from mesh_discovery.serve._status import (
        StatusError,
        fetch_status,
        status_notes,
        status_problems,
    )

    try:
        host, port = split_host_port(monitoring_addr)
        document = fetch_status(host or "127.0.0.1", port)
    except ValueError as error:
        fail([f"--monitoring-addr: {error}"])
    except StatusError as error:
        fail([str(error)])
    problems = tuple(status_problems(document))
    if as_json:
        typer.echo(json.dumps(document))
    else:
        for line in (*problems, *status_notes(document)):
            typer.echo(line)
        typer.echo(
            f"{document['proxies']} proxies connected, "
            + ("not everything is as configured" if problems else "everything is as configured")
        )
    raise SystemExit(1 if problems else 0)
