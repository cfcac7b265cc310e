"""`mesh-agent proxy`: reads the flags and becomes the agent's process.

Flags and their spelling are Istio's. Those without effect are passed over, because injection
templates outlive the agents they were written for; the agent's log names them.
"""

import inspect
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import replace
from typer.core import TyperCommand

from mesh_agent._start import agent_version, environment_added, replace_this_process
from mesh_agent.config._flags import Flags
from mesh_agent.config._options import OPTIONS, ROLE, ROLES, Option, sorted_words
from mesh_command_line import FlagValueError, Form, examples

_PASSED = "mesh_agent.passed_flags"
_APPLICATION = "mesh_agent.application"


def register(app: typer.Typer) -> None:
    """Add `proxy` to the `mesh-agent` command."""
    epilog = examples(
        "mesh-agent proxy sidecar", "mesh-agent proxy router --log_output_level debug"
    )
    app.command("proxy", cls=CommandWithFlags, epilog=epilog)(with_flags(proxy))


def register_config(app: typer.Typer) -> None:
    """Add `config` to the `mesh-agent` command."""
    epilog = examples("mesh-agent config", "mesh-agent config --all --concurrency 2")
    app.command("config", cls=CommandWithFlags, epilog=epilog)(with_flags(config))


def proxy(flags: Flags) -> None:
    """Run an Envoy beside a workload.

    It has the workload's certificate and its configuration.

    With `-- COMMAND ARGS` behind the options, start that application once all is ready, and exit
    with its exit status when it ends.
    """
    replace_this_process(flags)


def config(
    flags: Flags,
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="The defaults, too; JSON always has them.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, for scripts.")] = False,
    output: Annotated[
        Form | None, typer.Option("--output", "-o", help="The same, as other commands have it.")
    ] = None,
) -> None:
    """Show the configuration that `proxy` would have here.

    What differs from the defaults, and what the settings make together; behind each value stands
    where it comes from. A running agent shows its own at /debug/config.
    """
    from mesh_agent._config import compose_config

    as_json = as_json or output is Form.JSON

    loaded, problems = compose_config(
        flags, environ=os.environ, directory=Path(), version=flags.version
    )
    effective = loaded.effective
    typer.echo(
        json.dumps(effective.as_json(), indent=2)
        if as_json
        else effective.as_text(defaults=everything)
    )
    for problem in problems:
        typer.echo(f"mesh-agent: {problem}", err=True)
    if problems:
        raise typer.Exit(1)


def with_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command of a function: in place of its argument `flags` it takes those of `proxy`."""
    own = {
        name: each
        for name, each in inspect.signature(command).parameters.items()
        if name != "flags"
    }
    context = inspect.Parameter(
        "context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context
    )
    parameters = [context, _role(), *map(_parameter, OPTIONS), *own.values()]

    def call(context: typer.Context, **values: object) -> None:
        given = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in values.items()
            if name not in own
        }
        rest = {name: value for name, value in values.items() if name in own}
        flags = Flags(
            **given,  # type: ignore[arg-type]  # typer checks them
            version=agent_version(),
            added_variables=environment_added(),
        )
        passed: tuple[tuple[str, str], ...] = context.meta.get(_PASSED, ())
        application: tuple[str, ...] = context.meta.get(_APPLICATION, ())
        command(replace(flags, passed=passed, command=application), **rest)

    call.__doc__ = command.__doc__
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return call


def _role() -> inspect.Parameter:
    return inspect.Parameter(
        "role",
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        default=ROLE,
        annotation=Annotated[str, typer.Argument(metavar=ROLES)],
    )


def _parameter(option: Option) -> inspect.Parameter:
    """Return an option as typer wants it declared."""
    settings = typer.Option(
        option.spelling,
        help=option.help,
        hidden=not option.help,
        metavar=option.metavar,
        min=option.least,
        max=option.most,
    )
    default, kind = option.default, type(option.default)
    if isinstance(default, tuple):
        return inspect.Parameter(
            option.field,
            inspect.Parameter.KEYWORD_ONLY,
            default=list(default),
            annotation=Annotated[list[str], settings],
        )
    return inspect.Parameter(
        option.field,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, settings],
    )


class CommandWithFlags(TyperCommand):
    """A command that passes over the flags it does not know, as Istio's agent does."""

    def parse_args(  # type: ignore[override]  # typer's contexts are all of this class
        self, ctx: typer.Context, args: list[str]
    ) -> list[str]:
        """Read the command's own flags; the others are kept for its log.

        What follows `--` is the application that the agent is to start.
        """
        own = {
            spelling: not getattr(each, "is_flag", False)
            for each in self.get_params(ctx)
            for spelling in each.opts
            if spelling.startswith("-")
        }
        try:
            words = sorted_words(args, own=own)
        except FlagValueError as error:
            raise typer.BadParameter(str(error), ctx=ctx) from error
        if words.application == ():
            ctx.fail("nothing follows --: name the application that the agent is to start")
        ctx.meta[_APPLICATION] = words.application or ()
        ctx.meta[_PASSED] = words.passed
        return super().parse_args(ctx, words.kept)
