"""The command `mesh-discovery`."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from mesh_discovery._config import DiscoveryConfig, Flags, SettingsError, read_config
from mesh_discovery._version import version as installed_version
from mesh_lifecycle import LogLevelError, configure_logging

app = typer.Typer(
    name="mesh-discovery",
    help="A control plane: Istio YAML in, Envoy configuration and certificates out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Run the command line."""
    app()


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(installed_version())


@app.command()
def check(
    config_dir: Annotated[
        Path, typer.Option("--config-dir", "--configDir", help="Directory of Istio YAML files.")
    ],
    mesh_config: Annotated[
        Path | None, typer.Option("--mesh-config", "--meshConfig", help="Mesh config file.")
    ] = None,
) -> None:
    """Read a configuration as the server would, and say all that is wrong with it."""
    from mesh_discovery._loader import ConfigLoader

    load = ConfigLoader(config_dir, mesh_config=mesh_config).load()
    if load.snapshot is None:
        _fail(map(str, load.problems))
    for note in load.snapshot.notes:
        typer.echo(f"note: {note}", err=True)
    typer.echo(f"{len(load.snapshot.objects)} objects in {len(load.files)} files are good")


@app.command()
def discovery(  # noqa: PLR0917  (typer reads options by name)
    config_dir: Annotated[
        Path, typer.Option("--config-dir", "--configDir", help="Directory of Istio YAML files.")
    ],
    mesh_config: Annotated[
        Path | None,
        typer.Option("--mesh-config", "--meshConfig", help="Mesh config file, as Istio's."),
    ] = None,
    ca_dir: Annotated[
        Path | None,
        typer.Option(
            "--ca-dir",
            help="The CA's directory, made when missing [env ROOT_CA_DIR; else ./etc/cacerts].",
        ),
    ] = None,
    jwks_file: Annotated[
        Path | None, typer.Option("--jwks-file", help="Keys that callers' tokens are checked with.")
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
    from datetime import timedelta

    from mesh_ca import CaError, RootPolicy
    from mesh_ca import replace_root as begin
    from mesh_discovery._shape import Duration

    configure_logging("error")
    try:
        policy = RootPolicy(
            spread=timedelta(seconds=float(Duration.parse(spread))),
            retirement=timedelta(seconds=float(Duration.parse(retirement))),
        )
    except ValueError:
        _fail(
            [f"--spread {spread!r}, --retirement {retirement!r}: durations such as 24h are right"]
        )
    try:
        begin(ca_dir, policy)
    except CaError as error:
        _fail([str(error)])
    typer.echo(f"the new root is handed out now and signs in {spread}; the server does the rest")


@app.command()
def revoke(
    serial: Annotated[str, typer.Argument(help="Serial number, hexadecimal, as the log has it.")],
    ca_dir: Annotated[Path, _CA_DIR] = Path("./etc/cacerts"),
    reason: Annotated[
        str, typer.Option("--reason", help="A reason of RFC 5280, as keyCompromise.")
    ] = "unspecified",
) -> None:
    """Revoke a certificate: it gets no other, and the revocation list names it."""
    from mesh_ca import Authority, CaError, RevocationList, is_own_root, load_signer

    configure_logging("error")
    try:
        if not is_own_root(ca_dir):
            _fail([f"{ca_dir} holds no root of our own: revoke where its authority was made"])
        authority = Authority(load_signer(ca_dir), trust_domain="revoking")
        RevocationList(ca_dir, authority).revoke(int(serial, 16), reason=reason)
    except CaError as error:
        _fail([str(error)])
    except ValueError as error:
        _fail([f"can't revoke {serial!r}: {error}"])
    typer.echo(f"{serial} is revoked")


def _run(config: DiscoveryConfig) -> None:
    import resource

    import uvloop

    from mesh_ca import CaError
    from mesh_discovery._ports_free import CannotListenError
    from mesh_discovery._problems import ConfigError

    # A core file would hold the CA's key.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
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


def _fail(sentences: Iterable[str]) -> NoReturn:
    for sentence in sentences:
        typer.echo(f"mesh-discovery: {sentence}", err=True)
    raise SystemExit(1)
