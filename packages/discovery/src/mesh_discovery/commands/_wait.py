"""`mesh-discovery wait`: returns once what is saved is with every proxy."""

from typing import Annotated

import typer

from mesh_discovery.commands._options import MONITORING_ADDR, duration_of, fail, monitoring_port


def wait(
    monitoring_addr: Annotated[str, MONITORING_ADDR] = ":15014",
    *,
    timeout: Annotated[
        str, typer.Option("--timeout", help="How long to wait.", metavar="DURATION")
    ] = "30s",
) -> None:
    """Wait until every proxy has accepted what is saved.

    The proxies are those that are connected; what is saved stands in the config directory.
    The exit code is 0 once that is so; 1 if a file is wrong, a proxy refuses, the time is up or
    nothing answers; and 2 if the command is called wrongly.
    """
    from mesh_discovery.serve._distribution import NotDistributed, wait_for_distribution
    from mesh_discovery.serve._status import StatusError

    host, port = monitoring_port(monitoring_addr)
    longest_s = duration_of("--timeout", timeout).total_seconds()
    try:
        count = wait_for_distribution(host, port, timeout_s=longest_s)
    except StatusError as error:
        fail([str(error)])
    except NotDistributed as error:
        fail(error.args)
    typer.echo(f"{count} {'proxy has' if count == 1 else 'proxies have'} all that is saved")
