"""Settings that were given and do nothing: each is logged with its reason.

A program has tables of the variables and flags that it knows. What is in a table without effect,
and what looks as if it were for the program and is in no table, is a line in its log.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from istio_settings._setting import HONOURED, REFUSED, Setting

_SERVICE_HOST = "_SERVICE_HOST"
_NEAREST = 0.8


class SettingWithoutEffect(NamedTuple):
    """A setting without effect, and the reason.

    quiet: every pod has it, so that it is not worth a warning.
    """

    setting: str
    reason: str
    quiet: bool = False

    def __str__(self) -> str:
        return f"{self.setting} has no effect: {self.reason}"


class Program(NamedTuple):
    """A program with a table of settings.

    name: as a sentence begins with it. variables: beginnings of the names of variables that are for
    it. free: beginnings after which any name is right.
    """

    name: str
    variables: tuple[str, ...] = ()
    free: tuple[str, ...] = ()


def variables_without_effect(
    table: Iterable[Setting], environ: Mapping[str, str], program: Program
) -> tuple[tuple[SettingWithoutEffect, ...], tuple[str, ...]]:
    """Return the variables without effect, and a problem for each value that is refused."""
    found: list[SettingWithoutEffect] = []
    problems = []
    known = set()
    for setting in table:
        known.add(setting.name)
        value = environ.get(setting.name, "")
        if setting.fate == HONOURED or setting.is_silent(value):
            continue
        reason = setting.reason(value)
        if setting.fate == REFUSED:
            problems.append(f"{setting.name}: {value!r} {reason}")
        else:
            found.append(SettingWithoutEffect(setting.name, reason, quiet=setting.quiet))
    unknown = [
        name
        for name in sorted(environ)
        if name.startswith(program.variables)
        and name not in known
        and not name.startswith(program.free)
    ]
    if unknown := _without_service_links(unknown, environ):
        reason = unknown_name("variable", unknown, known, program=program.name)
        found.append(SettingWithoutEffect(", ".join(unknown), reason))
    return tuple(found), tuple(problems)


def flags_without_effect(
    table: Iterable[Setting], passed: Iterable[tuple[str, str]], program: Program
) -> tuple[tuple[SettingWithoutEffect, ...], tuple[str, ...]]:
    """Return the flags without effect, and a problem for each that is refused.

    passed: flags and their values; of one that stands alone, the value is empty.
    """
    by_name = {setting.name: setting for setting in table}
    found = []
    problems = []
    unknown = []
    for name, value in passed:
        if (setting := by_name.get(name)) is None:
            unknown.append(name)
        elif setting.is_silent(value or "true"):
            continue
        elif setting.fate == REFUSED:
            problems.append(f"{name}: {value!r} {setting.reason(value)}")
        else:
            found.append(SettingWithoutEffect(name, setting.reason(value), quiet=setting.quiet))
    if unknown := list(dict.fromkeys(unknown)):
        reason = unknown_name("flag", unknown, set(by_name), program=program.name)
        found.append(SettingWithoutEffect(", ".join(unknown), reason))
    return tuple(found), tuple(problems)


def unknown_name(kind: str, names: Sequence[str], known: Collection[str], *, program: str) -> str:
    """Return the reason for names that a program does not know, with the nearest it does."""
    import difflib  # only a mistake needs it

    near = [
        close for name in names for close in difflib.get_close_matches(name, known, 1, _NEAREST)
    ]
    meant = f"; did you mean {', '.join(near)}?" if near else ""
    return f"{program} knows no such {kind}{meant}"


def _without_service_links(names: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Leave out the variables that Kubernetes makes for each service of the pod's namespace.

    Source: https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables
    """
    services = [
        re.escape(name.removesuffix(_SERVICE_HOST))
        for name in environ
        if name.endswith(_SERVICE_HOST)
    ]
    if not services:
        return list(names)
    link = re.compile(rf"(?:{'|'.join(services)})_(?:SERVICE_(?:HOST|PORT\w*)|PORT(?:_\d+_\w+)?)")
    return [name for name in names if not link.fullmatch(name)]
