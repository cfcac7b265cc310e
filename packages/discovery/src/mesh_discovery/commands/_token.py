"""`mesh-discovery token`: a token for trying a control plane by hand."""

from pathlib import Path
from typing import Annotated

import typer

from mesh_discovery.commands._options import WRONG_CALL, duration_of, fail


def token(
    namespace: Annotated[str, typer.Option("--namespace", help="Of the workload.")] = "default",
    service_account: Annotated[
        str, typer.Option("--service-account", help="Whose token it is.")
    ] = "default",
    *,
    directory: Annotated[
        Path, typer.Option("--dir", help="Where the signing key and its key set are kept.")
    ] = Path("./tokens"),
    output: Annotated[
        Path | None,
        typer.Option("--output", help="The token's file.", show_default="token in that directory"),
    ] = None,
    ttl: Annotated[str, typer.Option("--ttl", help="How long it is good for.")] = "24h",
    issuer: Annotated[
        str, typer.Option("--issuer", help="What --jwt-issuer must be.")
    ] = "mesh-discovery",
    audience: Annotated[
        str, typer.Option("--audience", help="What --jwt-audience must be.")
    ] = "istio-ca",
) -> None:
    """Make a token for trying a control plane by hand.

    The key set that the control plane checks it with is written beside it.
    """
    from mesh_ca import CaError, IdentityError, LifetimeError
    from mesh_discovery.commands._token_files import write_token

    lifetime = duration_of("--ttl", ttl)
    try:
        lines = tuple(
            write_token(
                directory,
                namespace=namespace,
                service_account=service_account,
                audience=audience,
                issuer=issuer,
                lifetime=lifetime,
                file=output,
            )
        )
    except (IdentityError, LifetimeError) as error:
        fail([str(error)], exit_code=WRONG_CALL)
    except CaError as error:
        fail([str(error)])
    for line in lines:
        typer.echo(line)
