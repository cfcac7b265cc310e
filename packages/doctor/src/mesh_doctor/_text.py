"""Findings as text for people and as JSON for scripts."""

import json
import textwrap
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from mesh_doctor._finding import Finding, Status

_MARKS: Mapping[Status, str] = MappingProxyType(
    {
        Status.OK: "ok",
        Status.WARNING: "WARNING",
        Status.PROBLEM: "PROBLEM",
        Status.CONSEQUENCE: "follows",
        Status.SKIPPED: "-",
    }
)
_COLOURS: Mapping[Status, str] = MappingProxyType(
    {
        Status.OK: "32",
        Status.WARNING: "33",
        Status.PROBLEM: "31;1",
        Status.CONSEQUENCE: "31",
        Status.SKIPPED: "2",
    }
)
_MARK_WIDTH = max(map(len, _MARKS.values()))
_LEAST_TEXT = 24
_WIDE = 120
"""From this width on the names of the checks have a column of their own."""


def as_json(findings: Iterable[Finding]) -> str:
    """Return the findings as JSON: `healthy`, and `findings` in their order."""
    every = tuple(findings)
    shown = {
        "healthy": not _problems(every),
        "findings": [
            {
                "check": each.check,
                "status": each.status.value,
                "cause": each.cause.value if each.cause is not None else None,
                "said": each.said,
                "fix": each.fix,
                "follows": each.follows or None,
            }
            for each in every
        ],
    }
    return json.dumps(shown, indent=2)


def as_text(findings: Iterable[Finding], *, width: int = 80, colour: bool = False) -> str:
    """Return a screen: a finding a paragraph, what to do below it, and a sentence at the end."""
    every = tuple(findings)
    name_width = max((len(each.check) for each in every), default=0) if width >= _WIDE else 0
    lines: list[str] = []
    for each in every:
        lines += _paragraph(each, name_width, width=width, colour=colour)
    return "\n".join((*lines, "", *textwrap.wrap(_summary(every), width)))


def _paragraph(finding: Finding, name_width: int, *, width: int, colour: bool) -> list[str]:
    """Return the lines. name_width: of the column of names; 0 for none."""
    mark = _MARKS[finding.status].ljust(_MARK_WIDTH)
    indent = _MARK_WIDTH + 2 + (name_width + 2 if name_width else 0)
    room = max(_LEAST_TEXT, width - indent)
    text = _sentence(finding)
    said = _wrapped(text if name_width else f"{finding.check}: {text}", room)
    if finding.status is not Status.CONSEQUENCE:
        said += _remedy(finding, room)
    if colour:
        mark = f"\x1b[{_COLOURS[finding.status]}m{mark}\x1b[0m"
    name = f"{finding.check.ljust(name_width)}  " if name_width else ""
    return [f"{mark}  {name}{said[0]}", *(" " * indent + line for line in said[1:])]


def _sentence(finding: Finding) -> str:
    if finding.status is not Status.CONSEQUENCE:
        return finding.said
    return f"{finding.brief or finding.said} (see {finding.follows})"


def _remedy(finding: Finding, room: int) -> list[str]:
    lines = _wrapped(f"cause: {finding.cause.value}", room) if finding.cause is not None else []
    if finding.fix:
        fix = _wrapped(finding.fix, max(_LEAST_TEXT, room - 3))
        lines += [f"{'->' if number == 0 else '  '} {line}" for number, line in enumerate(fix)]
    return lines


def _wrapped(text: str, width: int) -> list[str]:
    clean = "".join(each if each.isprintable() else "?" for each in text)
    # A path is there to be copied: one that is longer than the line stays whole.
    return textwrap.wrap(clean, width, break_on_hyphens=False, break_long_words=False) or [""]


def _summary(findings: tuple[Finding, ...]) -> str:
    found = _problems(findings)
    if not found:
        warnings = sum(each.status is Status.WARNING for each in findings)
        more = f" There {_are(warnings, 'warning')}." if warnings else ""
        return f"No problem was found.{more}"
    following = sum(each.status is Status.CONSEQUENCE for each in findings)
    if len(found) == 1:
        more = f", and {following} more that {_follow(following)} from it" if following else ""
        return f"1 problem was found{more}: {found[0].check}."
    more = f", and {following} more that {_follow(following)} from them" if following else ""
    return (
        f"{len(found)} problems were found{more}. Begin with the first, {found[0].check}: the "
        "others may follow from it."
    )


def _follow(count: int) -> str:
    return "follows" if count == 1 else "follow"


def _problems(findings: tuple[Finding, ...]) -> list[Finding]:
    return [each for each in findings if each.status is Status.PROBLEM]


def _are(count: int, what: str) -> str:
    return f"is 1 {what}" if count == 1 else f"are {count} {what}s"
