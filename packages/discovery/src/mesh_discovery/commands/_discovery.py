"""`mesh-discovery discovery`: the control plane as a process."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mesh_discovery._config import (
    BELIEVE_PLAINTEXT,
    CA_SIGNERS,
    KEY_SET_NETWORKS,
    PLAINTEXT_SECRETS,
    DiscoveryConfig,
    Flags,
    SettingsError,
    read_config,
)
from mesh_discovery.commands._istio_flags import passed_flags
from mesh_discovery.commands._logging import LogFlags, start_log
from mesh_discovery.commands._options import (
    ALLOW_UNSUPPORTED,
    BELIEVE_TIMESTAMPS,
    MESH_CONFIG,
    MESH_NETWORKS,
    STRICT_NAMESPACES,
    WRONG_CALL,
    fail,
)

if TYPE_CHECKING:
    import logging

    from mesh_discovery.sources._memory import MemorySource


def discovery(  # noqa: PLR0917  (typer reads options by name)
    context: typer.Context,
    config_dir: Annotated[
        Path | None,
        typer.Option(
            "--config-dir",
            "--configDir",
            help="Directory of Istio YAML files [./etc/istio/config, if it is there].",
            parser=Path,
            metavar="PATH",
        ),
    ] = None,
    mesh_config: Annotated[Path | None, MESH_CONFIG] = None,
    mesh_networks: Annotated[Path | None, MESH_NETWORKS] = None,
    ca_dir: Annotated[
        Path | None,
        typer.Option(
            "--ca-dir",
            help="The CA's directory, created when missing [env ROOT_CA_DIR; else ./etc/cacerts].",
            parser=Path,
            metavar="PATH",
        ),
    ] = None,
    ca_signers: Annotated[
        str,
        typer.Option(
            "--ca-signers",
            help="Processes that sign certificates for this one, for more than one core's worth "
            f"a second [env {CA_SIGNERS}; else 0, it signs itself].",
            metavar="NUMBER",
        ),
    ] = "",
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
        typer.Option(
            "--jwt-audience",
            help="Audience of the tokens; repeatable [env TOKEN_AUDIENCES; else istio-ca].",
        ),
    ] = None,
    http_addr: Annotated[
        str, typer.Option("--http-addr", "--httpAddr", help='/ready; "" switches it off.')
    ] = ":8080",
    grpc_addr: Annotated[
        str,
        typer.Option(
            "--grpc-addr",
            "--grpcAddr",
            help="Plaintext xDS, off unless given: for what is public. Istio's port is 15010.",
        ),
    ] = "",
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
    namespace: Annotated[
        str,
        typer.Option(
            "--namespace", "-n", help="Its own namespace [env POD_NAMESPACE; else istio-system]."
        ),
    ] = "",
    keepalive_interval: Annotated[
        str,
        typer.Option(
            "--keepalive-interval",
            "--keepaliveInterval",
            help="Silence after which a connection is pinged [30s].",
        ),
    ] = "",
    keepalive_timeout: Annotated[
        str,
        typer.Option(
            "--keepalive-timeout",
            "--keepaliveTimeout",
            help="A ping that is not answered for so long ends the connection [10s].",
        ),
    ] = "",
    max_connection_age: Annotated[
        str,
        typer.Option(
            "--max-connection-age",
            "--keepaliveMaxServerConnectionAge",
            help="Age at which a connection is asked to come anew, which spreads load [never].",
        ),
    ] = "",
    tls_min_version: Annotated[
        str,
        typer.Option("--tls-min-version", help="Oldest TLS of the secure port: 1.2 or 1.3 [1.2]."),
    ] = "",
    tls_cipher_suites: Annotated[
        list[str] | None,
        typer.Option(
            "--tls-cipher-suites", help="Cipher suites of TLS 1.2, by IANA's names, with commas."
        ),
    ] = None,
    shutdown_duration: Annotated[
        str,
        typer.Option(
            "--shutdown-duration", "--shutdownDuration", help="Time to stop in, at the most."
        ),
    ] = "10s",
    believe_plaintext: Annotated[  # noqa: FBT002  (likewise)
        bool,
        typer.Option(
            "--believe-plaintext",
            help="Believe callers of the plaintext port to be whom they say, as Istio does: they "
            f"get the configuration of any namespace [env {BELIEVE_PLAINTEXT}].",
        ),
    ] = False,
    plaintext_secrets: Annotated[  # noqa: FBT002  (likewise)
        bool,
        typer.Option(
            "--plaintext-secrets",
            help="Give gateways that are believed the keys of Secrets too "
            f"[env {PLAINTEXT_SECRETS}].",
        ),
    ] = False,
    key_set_networks: Annotated[
        str,
        typer.Option(
            "--key-set-networks",
            help="Networks of this machine in which key sets of RequestAuthentications may be, "
            f"such as 127.0.0.0/8, with commas [env {KEY_SET_NETWORKS}].",
        ),
    ] = "",
    allow_unsupported: Annotated[bool, ALLOW_UNSUPPORTED] = False,  # noqa: FBT002  (likewise)
    believe_timestamps: Annotated[bool, BELIEVE_TIMESTAMPS] = False,  # noqa: FBT002  (likewise)
    strict_namespaces: Annotated[bool, STRICT_NAMESPACES] = False,  # noqa: FBT002  (likewise)
    log_level: Annotated[
        str, typer.Option("--log-level", "--log_output_level", help="debug, info, warn, error.")
    ] = "info",
    log_as_json: Annotated[  # noqa: FBT002  (typer makes a flag of it)
        bool, typer.Option("--log-as-json", "--log_as_json", help="Log lines as JSON.")
    ] = False,
    log_target: Annotated[
        list[str] | None,
        typer.Option(
            "--log-target", "--log_target", help="stdout, stderr or a file; repeatable [stderr]."
        ),
    ] = None,
    log_stacktrace_level: Annotated[
        str,
        typer.Option(
            "--log-stacktrace-level",
            "--log_stacktrace_level",
            help="From which level on lines have a stack.",
        ),
    ] = "none",
    log_caller: Annotated[
        str,
        typer.Option(
            "--log-caller", "--log_caller", help="Scopes whose lines say where they come from."
        ),
    ] = "",
) -> None:
    """Run the control plane.

    It takes the flags of Istio's control plane; the log names those that have no effect.
    """
    start_log(
        LogFlags(
            levels=log_level,
            as_json=log_as_json,
            targets=tuple(log_target or ()),
            stacks=log_stacktrace_level,
            callers=log_caller,
        )
    )
    flags = Flags(
        config_dir=config_dir,
        mesh_config=mesh_config,
        mesh_networks=mesh_networks,
        ca_dir=ca_dir,
        ca_signers=ca_signers,
        jwks_file=jwks_file,
        jwks_url=jwks_url,
        jwt_issuer=jwt_issuer,
        jwt_audiences=tuple(jwt_audience or _items(os.environ.get("TOKEN_AUDIENCES", "")))
        or ("istio-ca",),
        http_addr=http_addr,
        grpc_addr=grpc_addr,
        secure_grpc_addr=secure_grpc_addr,
        monitoring_addr=monitoring_addr,
        domain=domain,
        shutdown_duration=shutdown_duration,
        allow_unsupported=allow_unsupported,
        believe_timestamps=believe_timestamps,
        plaintext_secrets=plaintext_secrets,
        strict_namespaces=strict_namespaces,
        key_set_networks=key_set_networks,
        believe_plaintext=believe_plaintext,
        namespace=namespace,
        keepalive_interval=keepalive_interval,
        keepalive_timeout=keepalive_timeout,
        max_connection_age=max_connection_age,
        tls_min_version=tls_min_version,
        tls_cipher_suites=tuple(_items(",".join(tls_cipher_suites or ()))),
        passed=passed_flags(context),
    )
    try:
        config = read_config(flags, os.environ)
    except SettingsError as error:
        fail(error.problems, exit_code=WRONG_CALL)
    _run(config)


def _items(text: str) -> list[str]:
    return [each for each in (part.strip() for part in text.split(",")) if each]


def _run(config: DiscoveryConfig) -> None:
    import resource

    import uvloop

    from mesh_ca import CaError
    from mesh_discovery._config_error import ConfigError
    from mesh_discovery.serve._free_ports import CannotListenError
    from mesh_listening import raise_open_files_limit

    # A core file would hold the CA's key.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    raise_open_files_limit()
    try:
        uvloop.run(_serve(config))
    except (CaError, CannotListenError, ConfigError) as error:
        fail(str(error).splitlines())


def _without_files(config: DiscoveryConfig, log: "logging.Logger") -> "tuple[MemorySource, ...]":
    """Return a source that has no objects where there is no directory of files, and say so."""
    if config.config_dir is not None:
        return ()
    from mesh_discovery.sources._memory import MemorySource

    log.warning(
        "there are no objects to serve: proxies know no service",
        extra={"change": "name a directory of Istio's YAML files in --config-dir"},
    )
    return (MemorySource(name="no files"),)


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
    for each in config.without_effect:
        facts = {"setting": each.setting, "reason": each.reason}
        level = logging.INFO if each.quiet else logging.WARNING
        log.log(level, "a setting has no effect", extra=facts)
    async with AsyncExitStack() as process:
        stopping = process.enter_context(stop_signals())
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(running(config, sources=_without_files(config, log)))
            reason = await stopping.wait()
            log.info("stopping", extra={"reason": reason})
            async with drain_within(config.shutdown_s, what="control plane"):
                await stack.aclose()
    log.info("stopped")
