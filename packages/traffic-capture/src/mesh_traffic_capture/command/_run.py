"""One run of a command: words and variables in, sentences and an exit status out."""

from __future__ import annotations

import os
import sys

from mesh_traffic_capture._errors import InvalidCapture, TrafficCaptureError
from mesh_traffic_capture.command._flags import UnknownFlag, Words, help_text, sort_words
from mesh_traffic_capture.config import (
    Action,
    HostFacts,
    IstioSettings,
    read_istio_settings,
    read_switch,
    read_text_flag,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Final, NoReturn

    from mesh_traffic_capture.rules import RuleSet

FAILED: Final = 1
"""Something failed, or a value is wrong; Istio's, as are the others."""
NOT_VALIDATED: Final = 126
WRONG_FLAG: Final = 255
INTERRUPTED: Final = 130

_ABOUT_RULES: Final = frozenset({"dry-run", "network-namespace", "json"})
"""Flags that say nothing about a configuration."""


def iptables(words: Sequence[str], *, name: str = "istio-iptables") -> int:
    """Run `iptables` with the words behind its name; return the exit status."""
    return _status(lambda: _iptables(words, name), name)


def clean_iptables(words: Sequence[str], *, name: str = "istio-clean-iptables") -> int:
    """Run `clean-iptables` with the words behind its name; return the exit status."""
    return _status(lambda: _clean_iptables(words, name), name)


def run_iptables(words: Sequence[str] | None = None) -> NoReturn:
    """Be the program `istio-iptables`, or a command of `mesh-agent`."""
    _end(iptables, words)


def run_clean_iptables(words: Sequence[str] | None = None) -> NoReturn:
    """Be the program `istio-clean-iptables`, or a command of `mesh-agent`."""
    _end(clean_iptables, words)


def _end(command: Callable[..., int], words: Sequence[str] | None) -> NoReturn:
    program = sys.argv[0].rpartition("/")[2]
    if words is None:
        sys.exit(command(sys.argv[1:], name=program))
    if program.endswith(".py"):  # python -m mesh_agent
        program = "mesh-agent"
    kind = "iptables" if command is iptables else "clean-iptables"
    sys.exit(command(words, name=f"{program} {kind}"))


def _status(run: Callable[[], int], name: str) -> int:
    try:
        try:
            return run()
        finally:
            sys.stdout.flush()
    except UnknownFlag as error:
        for mistake in error.mistakes:
            _say(name, f"{mistake} (see {name} --help)")
        return WRONG_FLAG
    except InvalidCapture as error:
        for mistake in error.mistakes:
            _say(name, mistake)
        return FAILED
    except TrafficCaptureError as error:
        _say(name, str(error))
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Python would report the closed pipe once more, when it flushes its streams at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return FAILED


def _iptables(words: Sequence[str], name: str) -> int:
    given = sort_words(words)
    if given.wants_help:
        sys.stdout.write(help_text(name, explains=given.explain is not None))
        return 0
    if given.wants_version:
        return _version(name)
    _enter(given.flags)
    if given.explain is not None:
        return _explain(given, given.explain, name)
    # Cleaning is asked for with the flags of applying, and must not depend on their values.
    if read_switch("cleanup-only", given.flags, os.environ):
        return _clean(given, name)
    facts = _facts()
    settings = read_istio_settings(given.flags, os.environ, facts)
    report: dict[str, Any] = {"action": str(settings.action), "dry_run": settings.dry_run}
    notes = [*settings.notes, *_notes(settings)]
    if settings.action is Action.APPLY:
        notes = _apply(settings, notes, report, given)
    for note in dict.fromkeys(notes):
        _say(name, note)
    status = 0
    if settings.validate and not settings.dry_run:
        status = _validate(settings, report, given)
    if given.as_json:
        _print_json({**report, "notes": list(dict.fromkeys(notes))})
    return status


def _clean_iptables(words: Sequence[str], name: str) -> int:
    given = sort_words(words)
    if given.wants_help:
        sys.stdout.write(help_text(name, cleans=True))
        return 0
    if given.wants_version:
        return _version(name)
    _enter(given.flags)
    return _clean(given, name)


def _version(name: str) -> int:
    from importlib.metadata import version

    _print(f"{name} {version('mesh-traffic-capture')}")
    return 0


def _apply(
    settings: IstioSettings, notes: list[str], report: dict[str, Any], given: Words
) -> list[str]:
    from mesh_traffic_capture._backend import Backend
    from mesh_traffic_capture.applying import apply_capture

    applied = apply_capture(
        settings.config,
        backend=Backend(settings.backend) if settings.backend else None,
        dry_run=settings.dry_run,
    )
    report |= {
        "changed": applied.changed,
        "backend": str(applied.backend),
        "reason": applied.reason,
        "commands": list(applied.commands),
    }
    if not given.as_json:
        if settings.dry_run:
            _print(*applied.commands)
        elif applied.changed:
            _print(f"the rules are applied, by {applied.backend}: {applied.reason}")
        else:
            _print(f"the rules were there already, by {applied.backend}: nothing is changed")
    return [*notes, *applied.notes]


def _clean(given: Words, name: str) -> int:
    from mesh_traffic_capture.applying import clean_capture

    dry_run = read_switch("dry-run", given.flags, os.environ)
    cleaned = clean_capture(dry_run=dry_run)
    for note in cleaned.notes:
        _say(name, note)
    if given.as_json:
        _print_json(
            {
                "action": str(Action.CLEAN),
                "dry_run": dry_run,
                "changed": cleaned.changed,
                "found": list(cleaned.found),
                "commands": list(cleaned.commands),
                "notes": list(cleaned.notes),
            }
        )
    elif dry_run:
        _print(*cleaned.commands)
    elif cleaned.changed:
        found = ", ".join(cleaned.found) or "what rules had needed"
        _print(f"removed: {found}")
    else:
        _print("there were no rules to remove")
    return 0


def _validate(settings: IstioSettings, report: dict[str, Any], given: Words) -> int:
    from mesh_traffic_capture.validating import validate_capture

    results = validate_capture(
        settings.config,
        timeout_s=settings.validation_timeout_s,
        port=settings.validation_port,
    )
    report["validation"] = [
        {
            "way": str(each.way),
            "family": int(each.family),
            "arrived": each.arrived,
            "text": each.text,
        }
        for each in results
    ]
    if not given.as_json:
        _print(*(each.text for each in results))
    arrived = [each.arrived for each in results]
    return 0 if True in arrived and False not in arrived else NOT_VALIDATED


def _explain(given: Words, asked: Mapping[str, str], name: str) -> int:
    from mesh_traffic_capture.command._packet import NoRoute, read_packet
    from mesh_traffic_capture.kernel import out_interface
    from mesh_traffic_capture.rules import build_rules, explain, meaning

    facts = _facts()
    packet = read_packet(asked, facts, out_interface)
    if given.flags.keys() <= _ABOUT_RULES:
        rules = _rules_in_kernel()
    else:
        settings = read_istio_settings(given.flags, os.environ, facts)
        for note in settings.notes:
            _say(name, note)
        rules = build_rules(settings.config)
    if isinstance(packet, NoRoute):
        if given.as_json:
            _print_json({"outcome": "not sent", "text": str(packet)})
        else:
            _print(str(packet))
        return 0
    found = explain(rules, packet)
    steps = [
        {"chain": step.chain, "rule": step.rule.name, "meaning": meaning(step.rule.name)}
        for step in found.steps
    ]
    if given.as_json:
        _print_json(
            {
                "outcome": str(found.outcome),
                "port": found.port,
                "text": str(found),
                "interface": packet.interface,
                "direction": str(packet.direction),
                "mark": found.mark,
                "zone": found.zone,
                "steps": steps,
            }
        )
    else:
        _print(str(found))
        _print(*(f"  {each['chain']}: {each['rule']}: {each['meaning']}" for each in steps))
    return 0


def _rules_in_kernel() -> RuleSet:
    from mesh_traffic_capture._errors import CaptureFailed
    from mesh_traffic_capture.applying import observe_capture
    from mesh_traffic_capture.backends import read_rules

    instead = "name the flags that they were applied with"
    observed = observe_capture()
    if observed.nft_table is None:
        there = [f"ours, by {each}" for each in observed.own]
        there += [f"Istio's, by {each}" for each in observed.istio]
        if there:
            raise CaptureFailed(
                f"the rules here are {', and '.join(there)}; only ours by nft are read: {instead}"
            )
        raise CaptureFailed(
            "there are no rules of ours here: nothing is redirected; name flags of a configuration "
            "to ask what its rules would do"
        )
    try:
        return read_rules(observed.nft_table)
    except ValueError as error:
        raise CaptureFailed(f"the rules here were edited: {error}: {instead}") from error


def _facts() -> HostFacts:
    from mesh_traffic_capture.kernel import look_up_facts

    return look_up_facts()


def _enter(flags: Mapping[str, str]) -> None:
    if path := read_text_flag("network-namespace", flags, os.environ):
        from mesh_traffic_capture.command._namespace import enter_network_namespace

        enter_network_namespace(path)


def _notes(settings: IstioSettings) -> list[str]:
    """Return what this machine is lacking for the rules, a sentence each."""
    from mesh_traffic_capture.command._routes import route_notes
    from mesh_traffic_capture.config import ALL
    from mesh_traffic_capture.kernel import out_interface

    notes = list(route_notes(settings.config, out_interface))
    dns = settings.config.dns
    if settings.network_namespace and dns is not None and dns.servers is not ALL:
        notes.append(
            "the DNS servers are those of this process's resolv.conf, which may not be the "
            "namespace's: --capture-all-dns redirects queries to any"
        )
    if settings.validate and settings.dry_run:
        notes.append("--run-validation has no effect in a dry run")
    return notes


def _say(name: str, sentence: str) -> None:
    sys.stderr.write(f"{name.partition(' ')[0]}: {sentence}\n")


def _print(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def _print_json(report: Mapping[str, Any]) -> None:
    import json

    _print(json.dumps(report, indent=2))
