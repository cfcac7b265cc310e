"""The commands and their flags. Istio's spellings work beside our own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from mesh_agent_cli._plugins import add_plugins
from mesh_agent_cli._version import OutputFormat

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_BIND_ADDRESS = "MESH_AGENT_BIND_ADDRESS"
_READY_PATH = "healthz/ready"

Address = Annotated[
    str, typer.Option(envvar=_BIND_ADDRESS, help="Where the agent's ports are bound.")
]


def build(
    *, wanted: str | None, find_plugins: Callable[[], Mapping[str, EntryPoint]]
) -> typer.Typer:
    """Returns the application; loads plugins only if `wanted` is no command of this package."""
    app = typer.Typer(
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        help="Runs and asks the data plane agent of a service mesh.",
    )
    app.callback()(_root)
    own: dict[str, Callable[..., None]] = {
        "wait": wait,
        "version": version,
        "request": request,
        "status": status,
    }
    for name, command in own.items():
        app.command(name)(command)
    if wanted not in own:
        plugins = find_plugins()
        names = [name for name in plugins if name == wanted]
        add_plugins(app, plugins, names or plugins)
    return app


def _root() -> None:
    """Without a callback, typer would make a lone command the whole application."""


def wait(
    address: Address = "localhost",
    timeout_s: Annotated[
        float,
        typer.Option("--timeoutSeconds", "--timeout-seconds", min=0, help="When to give up."),
    ] = 60,
    request_timeout_ms: Annotated[
        int,
        typer.Option(
            "--requestTimeoutMillis", "--request-timeout-millis", min=1, help="For one try."
        ),
    ] = 500,
    period_ms: Annotated[
        int,
        typer.Option("--periodMillis", "--period-millis", min=1, help="Between two tries."),
    ] = 500,
    url: Annotated[
        str | None,
        typer.Option(help="What to ask.  [default: http://ADDRESS:15021/healthz/ready]"),
    ] = None,
) -> None:
    """Wait until the agent and its Envoy are ready to serve."""
    from mesh_agent_cli._http import local_url
    from mesh_agent_cli._wait import wait_ready

    wait_ready(
        url or local_url(address, 15021, _READY_PATH),
        timeout_s=timeout_s,
        request_timeout_s=request_timeout_ms / 1000,
        period_s=period_ms / 1000,
    )


def version(
    *,
    short: Annotated[bool, typer.Option("--short", "-s", help="The number alone.")] = False,
    output: Annotated[
        OutputFormat | None, typer.Option("--output", "-o", help="A form for scripts.")
    ] = None,
) -> None:
    """Show the installed version."""
    from mesh_agent_cli._version import render_version, versions

    typer.echo(render_version(versions(), short=short, output=output))


def request(
    method: Annotated[str, typer.Argument(help="GET or POST.")],
    path: Annotated[str, typer.Argument(help="For example stats or /config_dump.")],
    body: Annotated[str | None, typer.Argument(help="What to send.")] = None,
    address: Address = "localhost",
    debug_port: Annotated[
        int, typer.Option("--debug-port", help="15000 (Envoy), 15004, 15020 (agent) or 15021.")
    ] = 15000,
) -> None:
    """Send a request to Envoy's admin port, or the agent's, and print the answer's body."""
    from mesh_agent_cli._request import check_port
    from mesh_agent_cli._request import request as send_request

    check_port(debug_port)
    answer = send_request(method, path, body, address=address, port=debug_port)
    sys.stdout.buffer.write(answer + b"\n")
    sys.stdout.buffer.flush()


def status(
    *,
    address: Address = "localhost",
    port: Annotated[int, typer.Option(min=1, max=65535, help="The agent's status port.")] = 15020,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, for scripts.")] = False,
) -> None:
    """Show a running agent's identity, certificate, Envoy and configuration."""
    import json
    from datetime import UTC, datetime

    from mesh_agent_cli._status import fetch_status, render_status

    found = fetch_status(address=address, port=port)
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    else:
        typer.echo(render_status(found, now=datetime.now(UTC)))
