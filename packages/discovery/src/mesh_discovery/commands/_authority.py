"""`mesh-discovery replace-root` and `revoke`: changes to the authority that a server follows."""

from pathlib import Path
from typing import Annotated

import typer

from mesh_discovery.commands._options import CA_DIR, WRONG_CALL, duration_of, fail
from mesh_lifecycle import configure_logging


def replace_root(
    ca_dir: Annotated[Path, CA_DIR] = Path("./etc/cacerts"),
    spread: Annotated[
        str,
        typer.Option(
            "--spread",
            help="How long the new root is handed out before it signs. At least the lifetime of "
            "workload certificates, unless the old key has leaked.",
        ),
    ] = "24h",
    retirement: Annotated[
        str,
        typer.Option(
            "--retirement",
            help="How long the old root is believed after that. Certificates below it fail then.",
        ),
    ] = "2160h",
) -> None:
    """Give the mesh a new root with a new key.

    Every workload gets a new certificate, in order, while the old root is still believed.
    """
    from mesh_ca import CaError, RootPolicy
    from mesh_ca import replace_root as begin

    configure_logging("error")
    policy = RootPolicy(
        spread=duration_of("--spread", spread), retirement=duration_of("--retirement", retirement)
    )
    try:
        begin(ca_dir, policy)
    except CaError as error:
        fail([str(error)])
    typer.echo(f"the new root is handed out now and signs in {spread}; the server does the rest")


def revoke(
    serial: Annotated[
        str, typer.Argument(help="Serial number, hexadecimal, as the log has it.")
    ] = "",
    identity: Annotated[
        str, typer.Option("--identity", help="All certificates of this SPIFFE id up to now.")
    ] = "",
    key: Annotated[
        str,
        typer.Option("--key", help="A public key, by its SHA-256 as in the log."),
    ] = "",
    ca_dir: Annotated[Path, CA_DIR] = Path("./etc/cacerts"),
    reason: Annotated[
        str, typer.Option("--reason", help="Of a serial number: one of RFC 5280, as keyCompromise.")
    ] = "unspecified",
) -> None:
    """Revoke a certificate, an identity or a key.

    This control plane does not accept it any longer. A serial number is also put on the revocation
    list, for everybody. An identity that proves itself anew, by a token, gets certificates again; a
    key never does.
    """
    from mesh_ca import (
        Authority,
        CaError,
        IdentityError,
        RevocationList,
        is_own_root,
        load_signer,
    )

    configure_logging("error")
    if len([given for given in (serial, identity, key) if given]) != 1:
        fail(["revoke takes one of SERIAL, --identity and --key"], exit_code=WRONG_CALL)
    try:
        if not is_own_root(ca_dir):
            fail([f"{ca_dir} holds no root of our own: revoke where its authority was made"])
        revocations = RevocationList(
            ca_dir, Authority(load_signer(ca_dir), trust_domain="revoking")
        )
        if identity:
            revocations.revoke_identity(identity)
        elif key:
            revocations.revoke_key(key.lower())
        else:
            revocations.revoke(_serial_number(serial), reason=reason)
    except IdentityError as error:
        fail([str(error)], exit_code=WRONG_CALL)
    except CaError as error:
        fail([str(error)])
    except ValueError as error:
        fail([f"can't revoke {serial or key!r}: {error}"], exit_code=WRONG_CALL)
    typer.echo(f"{serial or identity or key} is revoked")
    if not serial:
        typer.echo(
            "workloads believe certificates it has until they expire; "
            "to end that at once, revoke their serial numbers, which the audit log has"
        )


def _serial_number(text: str) -> int:
    try:
        return int(text, 16)
    except ValueError:
        raise ValueError("a serial number is hexadecimal, as 1f3a9c") from None
