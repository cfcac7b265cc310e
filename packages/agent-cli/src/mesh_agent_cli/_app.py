"""The commands and their flags. Istio's spellings work beside our own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from mesh_agent_cli._examples import EXAMPLES
from mesh_agent_cli._plugins import add_plugins
from mesh_agent_cli._version import OutputFormat, versions
from mesh_command_line import Form
from mesh_command_line.typer_application import add_documents, application

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_BIND_ADDRESS = "MESH_AGENT_BIND_ADDRESS"
NAME = "mesh-agent"
_READY_PATH = "healthz/ready"
_LEAST_PERIOD_S = 0.1

Address = Annotated[
    str, typer.Option(envvar=_BIND_ADDRESS, help="Where the agent's ports are bound.")
]
StatusPort = Annotated[int, typer.Option(min=1, max=65535, help="The agent's status port.")]
AsJson = Annotated[bool, typer.Option("--json", help="As JSON, for scripts.")]
Output = Annotated[
    Form | None, typer.Option("--output", "-o", help="The same, as other commands have it.")
]


def build(
    *, wanted: str | None, find_plugins: Callable[[], Mapping[str, EntryPoint]]
) -> typer.Typer:
    """Return the application; loads plugins only if `wanted` is no command of this package."""
    app = application(
        NAME,
        about="Runs and asks the data plane agent of a service mesh.",
        version=lambda: versions()["version"],
    )
    own: dict[str, Callable[..., None]] = {
        "wait": wait,
        "version": version,
        "request": request,
        "status": status,
        "certs": certs,
        "dns": dns,
    }
    for name, command in own.items():
        app.command(name, epilog=EXAMPLES[name])(command)
    add_documents(app, name=NAME)
    if wanted not in own:
        plugins = find_plugins()
        names = [name for name in plugins if name == wanted]
        add_plugins(app, plugins, names or plugins)
    return app


def wait(
    *,
    address: Address = "localhost",
    port: StatusPort = 15020,
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
    """Wait until the agent and its Envoy are ready to serve.

    For an agent without an Envoy, its own word is enough. At the timeout the agent's own reason is
    reported, and the exit status is 1.
    """
    from functools import partial

    from mesh_agent_cli._http import local_url
    from mesh_agent_cli._wait import wait_ready
    from mesh_agent_cli.screens._status import is_ready_without_envoy

    alone = partial(is_ready_without_envoy, address=address, port=port)
    wait_ready(
        url or local_url(address, 15021, _READY_PATH),
        explained_at=None if url else local_url(address, port, _READY_PATH),
        is_ready_alone=(lambda: False) if url else alone,
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
    from mesh_agent_cli._version import render_version

    typer.echo(render_version(versions(), short=short, output=output))


def request(
    method: Annotated[str, typer.Argument(help="GET or POST.")],
    path: Annotated[str, typer.Argument(help="For example stats or /config_dump.")],
    body: Annotated[str | None, typer.Argument(help="What to send.")] = None,
    address: Address = "localhost",
    debug_port: Annotated[
        int,
        typer.Option(
            "--debug-port", "--debugPort", help="15000 (Envoy), 15004, 15020 (agent) or 15021."
        ),
    ] = 15000,
) -> None:
    """Send a request to Envoy's admin port, or to the agent.

    Prints the body of the answer.
    """
    from mesh_agent_cli._request import check_port
    from mesh_agent_cli._request import request as send_request

    check_port(debug_port)
    answer = send_request(method, path, body, address=address, port=debug_port)
    sys.stdout.buffer.write(answer + b"\n")
    sys.stdout.buffer.flush()


def status(
    seconds: Annotated[
        float | None, typer.Argument(min=_LEAST_PERIOD_S, help="For --watch: how often.")
    ] = None,
    *,
    address: Address = "localhost",
    port: StatusPort = 15020,
    as_json: AsJson = False,
    output: Output = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Again and again, every 2 seconds.")
    ] = False,
) -> None:
    """Show a running agent: identity, Envoy, configuration.

    The exit status is 0 if all is well, and 1 if it is not.
    """
    as_json = as_json or output is Form.JSON
    import json
    from datetime import UTC, datetime

    from mesh_agent_cli.screens._status import fetch_status, render_status
    from mesh_agent_cli.screens._terminal import Screen, screen
    from mesh_agent_cli.screens._wellness import is_well

    def rendered(found: Mapping[str, object], out: Screen) -> str:
        if as_json:
            return json.dumps(found, indent=None if watch else 2)
        return render_status(found, now=datetime.now(UTC), out=out)

    def shown(out: Screen) -> str:
        return rendered(fetch_status(address=address, port=port), out)

    if not watch:
        if seconds is not None:
            raise typer.BadParameter("SECONDS is for --watch")
        found = fetch_status(address=address, port=port)
        typer.echo(rendered(found, screen()))
        raise typer.Exit(0 if is_well(found, now=datetime.now(UTC)) else 1)
    from mesh_agent_cli.screens._watch import watch as show_again

    show_again(shown, every_s=seconds or 2, as_lines=as_json)


def certs(
    *,
    address: Address = "localhost",
    port: StatusPort = 15020,
    envoy_port: Annotated[
        int | None,
        typer.Option(
            "--envoy-port",
            min=1,
            max=65535,
            help="Envoy's admin port.  [default: where the agent says]",
        ),
    ] = None,
    as_json: AsJson = False,
    output: Output = None,
) -> None:
    """Compare the certificates issued with those that Envoy has.

    The exit status is 0 if there is a valid one that Envoy serves, and 1 if not.
    """
    as_json = as_json or output is Form.JSON
    import json
    from datetime import UTC, datetime

    from mesh_agent_cli.screens._certificates import fetch_certificates, render_certificates
    from mesh_agent_cli.screens._terminal import screen
    from mesh_agent_cli.screens._wellness import has_certificate

    found, now = (
        fetch_certificates(address=address, port=port, envoy_port=envoy_port),
        datetime.now(UTC),
    )
    typer.echo(
        json.dumps(found, indent=2)
        if as_json
        else render_certificates(found, now=now, out=screen())
    )
    held = found.get("agent")
    well = isinstance(held, dict) and has_certificate(held, now=now)
    raise typer.Exit(0 if well and found.get("agree") is not False else 1)


def dns(
    query: Annotated[str, typer.Argument(help="The name, as the application asks for it.")],
    record_type: Annotated[
        str, typer.Argument(metavar="[TYPE]", help="A, AAAA, SRV, HTTPS, PTR, TXT, ...")
    ] = "A",
    *,
    address: Address = "localhost",
    port: StatusPort = 15020,
    as_json: AsJson = False,
    output: Output = None,
) -> None:
    """Show how the agent's DNS server answers, by which rule."""
    as_json = as_json or output is Form.JSON
    import json

    from mesh_agent_cli.screens._names import fetch_explanation, render_explanation
    from mesh_agent_cli.screens._terminal import screen

    found = fetch_explanation(query, record_type, address=address, port=port)
    typer.echo(json.dumps(found, indent=2) if as_json else render_explanation(found, out=screen()))
