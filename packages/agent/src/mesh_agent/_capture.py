"""`iptables` and `clean-iptables` as `--help`, completion and the manual show them.

They are run before the library that reads command lines is loaded
(`mesh_agent.early_commands`); what is here only tells of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from mesh_command_line import examples
from mesh_traffic_capture import ISTIO_FLAGS, IstioFlag
from mesh_traffic_capture.command import (
    CLEAN_EXAMPLES,
    COMMAND_FLAGS,
    EXAMPLES,
    EXPLAIN,
    EXPLAIN_EXAMPLES,
    EXPLAIN_FLAGS,
    clean_iptables,
    iptables,
)

_ABOUT = """Apply the rules that steer traffic through Envoy.

With `explain`, tell what they do with one packet. The flags and variables are those of Istio's
istio-iptables, of which each flag has one: its name in capitals, with _ for -. `explain` takes them
too, for a configuration that is not applied; without any it asks the rules that nft has in the
kernel. The exit status is 0, 1 for a failure or a value that is wrong, 126 if traffic did not
arrive where --run-validation had it sent, and 255 for a flag that does not exist.
"""
_ABOUT_CLEAN = """Remove the rules that steer traffic through Envoy.

What the rules needed goes too. No flag is needed: rules of ours and of Istio's tools are found by
whatever flags they were applied. The exit status is 0, 1 for a failure, and 255 for a flag that
does not exist.
"""
_PARAMETERS = {"from": "sender"}
"""The parameters of flags whose names Python keeps for itself."""
_CLEANING = frozenset({"dry-run", "network-namespace"})


def register_iptables(app: typer.Typer) -> None:
    """Add `iptables`."""
    _add_iptables(app, "iptables", hidden=False)


def register_clean_iptables(app: typer.Typer) -> None:
    """Add `clean-iptables`."""
    _add_clean(app, "clean-iptables", hidden=False)


def register_istio_iptables(app: typer.Typer) -> None:
    """Add Istio's name of `iptables`."""
    _add_iptables(app, "istio-iptables", hidden=True)


def register_istio_clean_iptables(app: typer.Typer) -> None:
    """Add Istio's name of `clean-iptables`."""
    _add_clean(app, "istio-clean-iptables", hidden=True)


def _add_iptables(app: typer.Typer, name: str, *, hidden: bool) -> None:
    words = Annotated[
        str | None, typer.Argument(metavar=f"[{EXPLAIN}]", help="Explain a packet, apply nothing.")
    ]
    flags = (*EXPLAIN_FLAGS, *COMMAND_FLAGS, *ISTIO_FLAGS)
    shown = _command(iptables, flags, [("action", words)], name=name, about=_ABOUT)
    app.command(
        name,
        hidden=hidden,
        epilog=examples(
            *(f"mesh-agent {name} {each}" for each in EXAMPLES),
            *(f"mesh-agent {name} {EXPLAIN} {each}" for each in EXPLAIN_EXAMPLES),
        ),
    )(shown)


def _add_clean(app: typer.Typer, name: str, *, hidden: bool) -> None:
    flags = (*COMMAND_FLAGS, *(each for each in ISTIO_FLAGS if each.name in _CLEANING))
    shown = _command(clean_iptables, flags, [], name=name, about=_ABOUT_CLEAN)
    app.command(
        name,
        hidden=hidden,
        epilog=examples(*(f"mesh-agent {name} {each}".rstrip() for each in CLEAN_EXAMPLES)),
    )(shown)


def _command(
    run: Callable[..., int],
    flags: Sequence[IstioFlag],
    arguments: Sequence[tuple[str, Any]],
    *,
    name: str,
    about: str,
) -> Callable[..., None]:
    """Return a function whose signature has the flags, as typer reads them."""
    by_parameter = {_PARAMETERS.get(each.name, each.name.replace("-", "_")): each for each in flags}

    def command(**given: Any) -> None:
        words = [given[argument] for argument, _ in arguments if given[argument]]
        for parameter, flag in by_parameter.items():
            if flag.is_switch and given[parameter]:
                words.append(f"--{flag.name}")
            elif given[parameter] is not None and not flag.is_switch:
                words += [f"--{flag.name}", given[parameter]]
        raise typer.Exit(run(words, name=f"mesh-agent {name}"))

    kinds = dict(arguments) | {
        parameter: Annotated[
            bool if flag.is_switch else str | None,
            typer.Option(
                *([f"-{flag.short}"] if flag.short else []),
                f"--{flag.name}",
                help=_help(flag),
            ),
        ]
        for parameter, flag in by_parameter.items()
    }
    command.__annotations__ = {**kinds, "return": None}
    command.__doc__ = about
    command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                parameter,
                inspect.Parameter.KEYWORD_ONLY,
                default=False
                if by_parameter.get(parameter) and by_parameter[parameter].is_switch
                else None,
                annotation=kind,
            )
            for parameter, kind in kinds.items()
        ]
    )
    return command


def _help(flag: IstioFlag) -> str:
    default = f"  [default: {flag.default}]" if flag.default not in {"", "false"} else ""
    return f"{flag.meaning[0].upper()}{flag.meaning[1:]}.{default}"
