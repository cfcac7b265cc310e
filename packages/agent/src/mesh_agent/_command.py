"""`mesh-agent proxy`: reads the flags and becomes the agent's process.

Flags and their spelling are Istio's. Those without effect are passed over, because injection
templates outlive the agents they were written for; the agent's log names them.
"""

import inspect
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from typer.core import TyperCommand

from mesh_agent.config._command_line import FlagValueError, sort_flags
from mesh_agent.config._flags import Flags

# These must be set before the process starts; a user's own values win.
_ENVIRONMENT = {
    # glibc gives each of gRPC's threads an arena of its own to grow; two are enough for this load.
    "MALLOC_ARENA_MAX": "2",
    # gRPC's core reports on stderr every peer that leaves and every handshake that fails; the agent
    # logs what matters of it.
    "GRPC_VERBOSITY": "NONE",
}
_PASSED = "mesh_agent.passed_flags"


_APPLICATION = "mesh_agent.application"


def register(app: typer.Typer) -> None:
    """Add `proxy` to the `mesh-agent` command."""
    app.command("proxy", cls=CommandWithFlags)(with_flags(proxy))


def register_config(app: typer.Typer) -> None:
    """Add `config` to the `mesh-agent` command."""
    app.command("config", cls=CommandWithFlags)(with_flags(config))


def proxy(flags: Flags) -> None:
    """Run an Envoy beside a workload, with its certificate and its configuration.

    With `-- COMMAND ARGS` behind the options, start that application once all is ready, and exit
    with its exit status when it ends.
    """
    replace_this_process(flags)


def config(
    flags: Flags,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, for scripts.")] = False,
) -> None:
    """Show the configuration that `proxy` would have here, and where each value comes from."""
    from mesh_agent._config import compose_config

    loaded, problems = compose_config(
        flags, environ=os.environ, directory=Path(), version=flags.version
    )
    effective = loaded.effective
    typer.echo(json.dumps(effective.as_json(), indent=2) if as_json else effective.as_text())
    for problem in problems:
        typer.echo(f"mesh-agent: {problem}", err=True)
    if problems:
        raise typer.Exit(1)


def read_flags(
    role: Annotated[str, typer.Argument(metavar="[sidecar|router]")] = "sidecar",
    *,
    domain: Annotated[str, typer.Option("--domain", help="DNS domain of the workload.")] = "",
    mesh_config: Annotated[
        str, typer.Option("--meshConfig", help="Mesh config file; it may be absent.")
    ] = "./etc/istio/config/mesh",
    service_cluster: Annotated[str, typer.Option("--serviceCluster", hidden=True)] = "",
    proxy_log_level: Annotated[
        str, typer.Option("--proxyLogLevel", help="Envoy's log level.")
    ] = "warning",
    proxy_component_log_level: Annotated[
        str, typer.Option("--proxyComponentLogLevel", hidden=True)
    ] = "",
    concurrency: Annotated[
        int, typer.Option("--concurrency", min=0, help="Envoy's worker threads; 0: one a core.")
    ] = 0,
    template_file: Annotated[
        str, typer.Option("--templateFile", help="A bootstrap of your own; no Go template.")
    ] = "",
    outlier_log: Annotated[
        str, typer.Option("--outlierLogPath", help="File for outlier detection's events.")
    ] = "",
    envoy_path: Annotated[
        str, typer.Option("--envoy-path", help="The Envoy to run; also ENVOY_PATH.")
    ] = "",
    log_output_level: Annotated[
        str, typer.Option("--log_output_level", help="Level, or list of scope:level.")
    ] = "default:info",
    log_as_json: Annotated[
        bool, typer.Option("--log_as_json", help="Log JSON, one object a line.")
    ] = False,
    log_target: Annotated[
        list[str], typer.Option("--log_target", help="stdout, stderr or a file; may be repeated.")
    ] = ["stdout"],  # noqa: B006 - typer copies it
    log_caller: Annotated[
        str, typer.Option("--log_caller", help="Scopes whose lines say where they come from.")
    ] = "",
    log_stacktrace_level: Annotated[
        str, typer.Option("--log_stacktrace_level", help="List of scope:level for stacks.")
    ] = "default:none",
    log_rotate: Annotated[
        str, typer.Option("--log_rotate", help="One more log file, moved aside when it is large.")
    ] = "",
    log_rotate_max_size: Annotated[
        int, typer.Option("--log_rotate_max_size", min=0, help="Bytes of that file.")
    ] = 100 << 20,
    log_rotate_max_age: Annotated[
        int, typer.Option("--log_rotate_max_age", min=0, help="Days that old ones are kept.")
    ] = 30,
    log_rotate_max_backups: Annotated[
        int, typer.Option("--log_rotate_max_backups", min=0, help="How many old ones are kept.")
    ] = 1000,
    sts_port: Annotated[
        int,
        typer.Option("--stsPort", min=0, max=65535, help="Exchange tokens on this local port."),
    ] = 0,
    token_manager_plugin: Annotated[
        str, typer.Option("--tokenManagerPlugin", help="The source of those tokens.")
    ] = "",
    exit_with: Annotated[
        str,
        typer.Option(
            "--exit-with",
            metavar="PID|NAME",
            help="Drain and exit when that process ends; also MESH_AGENT_EXIT_WITH.",
        ),
    ] = "",
) -> Flags:
    """Returns the flags of the command line."""
    return Flags(
        role=role,
        domain=domain,
        mesh_config=mesh_config,
        service_cluster=service_cluster,
        proxy_log_level=proxy_log_level,
        proxy_component_log_level=proxy_component_log_level,
        concurrency=concurrency,
        template_file=template_file,
        outlier_log=outlier_log,
        envoy_path=envoy_path,
        log_levels=log_output_level,
        log_as_json=log_as_json,
        log_target=log_target,
        log_caller=log_caller,
        log_stacktrace_level=log_stacktrace_level,
        log_rotate=log_rotate,
        log_rotate_max_size=log_rotate_max_size,
        log_rotate_max_age=log_rotate_max_age,
        log_rotate_max_backups=log_rotate_max_backups,
        version=agent_version(),
        sts_port=sts_port,
        token_manager_plugin=token_manager_plugin,
        exit_with=exit_with,
        added_variables=tuple(name for name in _ENVIRONMENT if name not in os.environ),
    )


def with_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command of a function: in place of its argument `flags` it takes those of `proxy`."""
    of_flags = inspect.signature(read_flags).parameters
    own = {
        name: each
        for name, each in inspect.signature(command).parameters.items()
        if name != "flags"
    }
    context = inspect.Parameter(
        "context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context
    )
    parameters = [context, *of_flags.values(), *own.values()]

    def call(context: typer.Context, **values: object) -> None:
        given = {name: value for name, value in values.items() if name in of_flags}
        rest = {name: value for name, value in values.items() if name in own}
        flags = read_flags(**given)  # type: ignore[arg-type]  # typer checks them
        passed: tuple[tuple[str, str], ...] = context.meta.get(_PASSED, ())
        application: tuple[str, ...] = context.meta.get(_APPLICATION, ())
        command(replace(flags, passed=passed, command=application), **rest)

    call.__doc__ = command.__doc__
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return call


class CommandWithFlags(TyperCommand):
    """A command that passes over the flags it does not know, as Istio's agent does."""

    def parse_args(  # type: ignore[override]  # typer's contexts are all of this class
        self, ctx: typer.Context, args: list[str]
    ) -> list[str]:
        """Read the command's own flags; the others are kept for its log.

        What follows `--` is the application that the agent is to start.
        """
        from mesh_agent.config.table._flags import FLAGS

        if "--" in args:
            end = args.index("--")
            args, ctx.meta[_APPLICATION] = args[:end], tuple(args[end + 1 :])
            if not ctx.meta[_APPLICATION]:
                ctx.fail("nothing follows --: name the application that the agent is to start")
        own = {
            spelling: not getattr(each, "is_flag", False)
            for each in self.get_params(ctx)
            for spelling in each.opts
            if spelling.startswith("-")
        }
        booleans = [setting.name for setting in FLAGS if setting.boolean]
        try:
            kept, passed = sort_flags(args, own=own, booleans=booleans)
        except FlagValueError as error:
            raise typer.BadParameter(str(error), ctx=ctx) from error
        ctx.meta[_PASSED] = tuple(passed)
        return super().parse_args(ctx, kept)


def agent_version() -> str:
    try:
        return version("mesh-agent")
    except PackageNotFoundError:
        return "unknown"


def replace_this_process(flags: Flags) -> NoReturn:
    """Become the agent's process; keeps pid, directory, environment and open files."""
    arguments = [sys.executable, "-m", "mesh_agent._process", json.dumps(asdict(flags))]
    os.execve(sys.executable, arguments, {**_ENVIRONMENT, **os.environ})  # noqa: S606 - no shell wanted
