"""The command `mesh-discovery`."""

import os
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from mesh_configfile import DurationError, parse_duration
from mesh_discovery._config import (
    ALLOW_UNSUPPORTED,
    DiscoveryConfig,
    Flags,
    SettingsError,
    read_config,
    wrong_duration,
)
from mesh_discovery._version import version as installed_version
from mesh_lifecycle import LogLevelError, configure_logging

app = typer.Typer(
    name="mesh-discovery",
    help="A control plane: Istio YAML in, Envoy configuration and certificates out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # which would take [env ROOT_CA_DIR] in a help text for its own
)

_ALLOW_UNSUPPORTED = typer.Option(
    "--allow-unsupported",
    envvar=ALLOW_UNSUPPORTED,
    help="Let pass, without effect, what Istio has and this control plane has not yet.",
)


def main() -> None:
    """Run the command line."""
    app()


# Parsed here: typer itself would look at the file, for as long as a mount takes to answer.
_CONFIG_DIR = typer.Option(
    "--config-dir",
    "--configDir",
    help="Directory of Istio YAML files.",
    parser=Path,
    metavar="PATH",
)
_MESH_CONFIG = typer.Option(
    "--mesh-config",
    "--meshConfig",
    help="Mesh config file, as Istio's.",
    parser=Path,
    metavar="PATH",
)


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(installed_version())


@app.command()
def check(
    config_dir: Annotated[Path, _CONFIG_DIR],
    mesh_config: Annotated[Path | None, _MESH_CONFIG] = None,
    *,
    allow_unsupported: Annotated[bool, _ALLOW_UNSUPPORTED] = False,
) -> None:
    """Read a configuration as the server would, and say all that is wrong with it.

    That includes what the server takes and nothing reaches: it starts with it, and warns.
    """
    from mesh_discovery._check import check_configuration

    checked = check_configuration(
        config_dir, mesh_config=mesh_config, allow_unsupported=allow_unsupported
    )
    for note in checked.notes:
        typer.echo(f"note: {note}", err=True)
    if checked.problems or checked.unreachable:
        _fail(map(str, (*checked.problems, *checked.unreachable)))
    typer.echo(f"{checked.objects} objects in {checked.files} files are good")


@app.command()
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
        _fail([f"--monitoring-addr: {error}"])
    except StatusError as error:
        _fail([str(error)])
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


@app.command()
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
    """Make a token, and the key set that the control plane checks it with, for trying things."""
    from mesh_ca import CaError
    from mesh_discovery.commands._token import write_token

    lifetime = _duration("--ttl", ttl)
    try:
        told = tuple(
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
    except CaError as error:
        _fail([str(error)])
    for line in told:
        typer.echo(line)


@app.command()
def discovery(  # noqa: PLR0917  (typer reads options by name)
    config_dir: Annotated[Path, _CONFIG_DIR],
    mesh_config: Annotated[Path | None, _MESH_CONFIG] = None,
    ca_dir: Annotated[
        Path | None,
        typer.Option(
            "--ca-dir",
            help="The CA's directory, made when missing [env ROOT_CA_DIR; else ./etc/cacerts].",
            parser=Path,
            metavar="PATH",
        ),
    ] = None,
    jwks_file: Annotated[
        Path | None,
        typer.Option(
            "--jwks-file",
            help="Keys that callers' tokens are checked with.",
            parser=Path,
            metavar="PATH",
        ),
    ] = None,
    jwks_url: Annotated[
        str, typer.Option("--jwks-url", help="Where to fetch those keys, instead of a file.")
    ] = "",
    jwt_issuer: Annotated[
        str,
        typer.Option(
            "--jwt-issuer",
            help="Issuer of the tokens; or env JWT_RULE. An https URL finds its keys by itself.",
        ),
    ] = "",
    jwt_audience: Annotated[
        list[str] | None,
        typer.Option("--jwt-audience", help="Audience of the tokens [istio-ca]; repeatable."),
    ] = None,
    http_addr: Annotated[
        str, typer.Option("--http-addr", "--httpAddr", help='/ready; "" switches it off.')
    ] = ":8080",
    grpc_addr: Annotated[
        str, typer.Option("--grpc-addr", "--grpcAddr", help='Plaintext xDS; "" switches it off.')
    ] = ":15010",
    secure_grpc_addr: Annotated[
        str,
        typer.Option(
            "--secure-grpc-addr",
            "--secureGRPCAddr",
            help='xDS and CA over TLS; "" switches it off.',
        ),
    ] = ":15012",
    monitoring_addr: Annotated[
        str,
        typer.Option(
            "--monitoring-addr",
            "--monitoringAddr",
            help='/metrics, /version, /debug; "" switches it off.',
        ),
    ] = ":15014",
    domain: Annotated[str, typer.Option("--domain", help="DNS suffix of the mesh.")] = (
        "cluster.local"
    ),
    shutdown_duration: Annotated[
        str,
        typer.Option(
            "--shutdown-duration", "--shutdownDuration", help="Time to stop in, at the most."
        ),
    ] = "10s",
    allow_unsupported: Annotated[bool, _ALLOW_UNSUPPORTED] = False,  # noqa: FBT002  (likewise)
    log_level: Annotated[
        str, typer.Option("--log-level", "--log_output_level", help="debug, info, warn, error.")
    ] = "info",
    log_as_json: Annotated[  # noqa: FBT002  (typer makes a flag of it)
        bool, typer.Option("--log-as-json", "--log_as_json", help="Log lines as JSON.")
    ] = False,
) -> None:
    """Run the control plane."""
    try:
        configure_logging(log_level, as_json=log_as_json)
    except LogLevelError as error:
        _fail([f"--log-level: {error}"])
    flags = Flags(
        config_dir=config_dir,
        mesh_config=mesh_config,
        ca_dir=ca_dir,
        jwks_file=jwks_file,
        jwks_url=jwks_url,
        jwt_issuer=jwt_issuer,
        jwt_audiences=tuple(jwt_audience or ["istio-ca"]),
        http_addr=http_addr,
        grpc_addr=grpc_addr,
        secure_grpc_addr=secure_grpc_addr,
        monitoring_addr=monitoring_addr,
        domain=domain,
        shutdown_duration=shutdown_duration,
        allow_unsupported=allow_unsupported,
    )
    try:
        config = read_config(flags, os.environ)
    except SettingsError as error:
        _fail(error.problems)
    _run(config)


_CA_DIR = typer.Option(
    "--ca-dir", envvar="ROOT_CA_DIR", help="The CA's directory, shared with the server."
)


@app.command("replace-root")
def replace_root(
    ca_dir: Annotated[Path, _CA_DIR] = Path("./etc/cacerts"),
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
    """Give the mesh a new root with a new key: every workload gets a new certificate, in order."""
    from mesh_ca import CaError, RootPolicy
    from mesh_ca import replace_root as begin

    configure_logging("error")
    policy = RootPolicy(
        spread=_duration("--spread", spread), retirement=_duration("--retirement", retirement)
    )
    try:
        begin(ca_dir, policy)
    except CaError as error:
        _fail([str(error)])
    typer.echo(f"the new root is handed out now and signs in {spread}; the server does the rest")


@app.command()
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
    ca_dir: Annotated[Path, _CA_DIR] = Path("./etc/cacerts"),
    reason: Annotated[
        str, typer.Option("--reason", help="Of a serial number: one of RFC 5280, as keyCompromise.")
    ] = "unspecified",
) -> None:
    """Revoke a certificate, an identity or a key: this control plane believes it no longer.

    A serial number is also put on the revocation list, for everybody. An identity that proves
    itself anew, by a token, gets certificates again; a key never does.
    """
    from mesh_ca import Authority, CaError, RevocationList, is_own_root, load_signer

    configure_logging("error")
    if len([given for given in (serial, identity, key) if given]) != 1:
        _fail(["revoke takes one of SERIAL, --identity and --key"])
    try:
        if not is_own_root(ca_dir):
            _fail([f"{ca_dir} holds no root of our own: revoke where its authority was made"])
        revocations = RevocationList(
            ca_dir, Authority(load_signer(ca_dir), trust_domain="revoking")
        )
        if identity:
            revocations.revoke_identity(identity)
        elif key:
            revocations.revoke_key(key.lower())
        else:
            revocations.revoke(_serial_number(serial), reason=reason)
    except CaError as error:
        _fail([str(error)])
    except ValueError as error:
        _fail([f"can't revoke {serial or key!r}: {error}"])
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


def _run(config: DiscoveryConfig) -> None:
    import resource

    import uvloop

    from mesh_ca import CaError
    from mesh_discovery._problems import ConfigError
    from mesh_discovery.serve._free_ports import CannotListenError
    from mesh_listening import raise_open_files_limit

    # A core file would hold the CA's key.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    raise_open_files_limit()
    try:
        uvloop.run(_serve(config))
    except (CaError, CannotListenError, ConfigError) as error:
        _fail(str(error).splitlines())


async def _serve(config: DiscoveryConfig) -> None:
    import gc
    import logging
    from contextlib import AsyncExitStack

    from mesh_discovery._server import running
    from mesh_lifecycle import drain_within, stop_signals

    gc.freeze()  # what is loaded by now stays; the collector need not look at it again
    # Each full collection looks at all that a thousand proxies' streams consist of, and holds up
    # pushes for as long: 130 ms instead of 55 for one change in a hundred.
    gc.set_threshold(20_000, 50, 1000)
    gc.enable()
    log = logging.getLogger("mesh_discovery")
    async with AsyncExitStack() as process:
        stopping = process.enter_context(stop_signals())
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(running(config))
            reason = await stopping.wait()
            log.info("stopping", extra={"reason": reason})
            async with drain_within(config.shutdown_s, what="control plane"):
                await stack.aclose()
    log.info("stopped")


def _duration(flag: str, text: str) -> timedelta:
    try:
        return parse_duration(text)
    except DurationError as error:
        _fail([wrong_duration(flag, text, error)])


def _fail(sentences: Iterable[str]) -> NoReturn:
    for sentence in sentences:
        typer.echo(f"mesh-discovery: {sentence}", err=True)
    raise SystemExit(1)
