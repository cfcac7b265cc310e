"""The findings of a check, one by one, for programs: plain JSON, and SARIF 2.1.0 for code scanning.

SARIF: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from mesh_configfile import Problem
from mesh_discovery._check import Checked, ObjectPlace
from mesh_discovery._version import version


class Severity(StrEnum):
    """How grave a finding is; of errors alone the exit code is 1."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Finding(NamedTuple):
    """One finding.

    code: of Istio's analyzers, empty if they have none. line: 0 if it is in no file. column: None
    if it is not known. object: kind, namespace and name, as `Gateway shop/public`. path: the field.
    """

    code: str
    severity: Severity
    file: str
    line: int
    column: int | None
    object: str
    path: str
    sentence: str
    rule: str
    """The code, or else the sort of finding: what SARIF calls a rule."""


_OF_MISTAKES = "IST0106"
"""Istio's analyzers have one code for all that breaks the schema or the rules of a kind."""
RULES: Mapping[str, str] = {
    "mesh-mistake": "The control plane does not take this.",
    "mesh-unreachable": "Accepted, and without effect: nothing reaches it.",
    "mesh-difference": "A proxy has something else than it would be given.",
    "mesh-warning": "Accepted, and probably not meant.",
    "mesh-hint": "A matter of style.",
    "mesh-note": "Let pass, without effect.",
}
"""The rules of findings that Istio's analyzers have no code for."""


def findings_of(checked: Checked) -> tuple[Finding, ...]:
    """Return all that was found, errors first."""
    sorts = (
        ("mesh-mistake", Severity.ERROR, _OF_MISTAKES, checked.problems),
        ("mesh-unreachable", Severity.ERROR, "", checked.unreachable),
        ("mesh-warning", Severity.WARNING, "", checked.warnings),
        ("mesh-hint", Severity.INFO, "", checked.hints),
        ("mesh-note", Severity.INFO, "", checked.notes),
    )
    objects, lines = _Objects(checked.objects_at), _Texts()
    found = [
        Finding(
            code=(code := each.code or default),
            severity=severity,
            file=each.file,
            line=each.line,
            column=lines.column(each),
            object=objects.at(each),
            path=each.field,
            sentence=each.message,
            rule=code or sort,
        )
        for sort, severity, default, problems in sorts
        for each in problems
    ]
    for different in checked.different or ():
        found.append(  # noqa: PERF401 - a loop is easier to read here
            Finding("", Severity.ERROR, "", 0, None, "", "", str(different), "mesh-difference")
        )
    return tuple(found)


def plain(findings: Iterable[Finding]) -> list[dict[str, object]]:
    """Return findings as JSON has them."""
    return [
        {name: value for name, value in each._asdict().items() if name != "rule"}
        for each in findings
    ]


def sarif(findings: Sequence[Finding]) -> dict[str, object]:
    """Return findings as a SARIF log of one run."""
    rules = sorted({each.rule for each in findings})
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "mesh-discovery check",
                        "version": version(),
                        "rules": [_rule(each) for each in rules],
                    }
                },
                "results": [_result(each, rules.index(each.rule)) for each in findings],
            }
        ],
    }


def _rule(name: str) -> dict[str, object]:
    text = RULES.get(name, f"What Istio's analyzers call {name}.")
    return {"id": name, "shortDescription": {"text": text}}


_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


def _result(found: Finding, rule_index: int) -> dict[str, object]:
    at = f"{found.path}: " if found.path else ""
    return {
        "ruleId": found.rule,
        "ruleIndex": rule_index,
        "level": _LEVELS[found.severity],
        "message": {"text": f"{at}{found.sentence}"},
        "locations": list(_locations(found)),
    }


def _locations(found: Finding) -> Iterator[dict[str, object]]:
    if not found.line:
        return
    region = {"startLine": found.line}
    if found.column is not None:
        region["startColumn"] = found.column
    location: dict[str, object] = {
        "physicalLocation": {
            "artifactLocation": {"uri": _uri(found.file)},
            "region": region,
        }
    }
    if found.object:
        location["logicalLocations"] = [
            {"fullyQualifiedName": found.object, "kind": "object"},
        ]
    yield location


def _uri(file: str) -> str:
    """Return a file relative to where the command runs, as code scanning takes it."""
    path, here = Path(file).absolute(), Path.cwd()
    if path.is_relative_to(here):
        return quote(path.relative_to(here).as_posix())
    return path.as_uri()


class _Objects:
    """Finds the object in which a line is."""

    def __init__(self, places: Iterable[ObjectPlace]) -> None:
        self._by_file: dict[str, list[ObjectPlace]] = {}
        for each in sorted(places):
            self._by_file.setdefault(each.file, []).append(each)

    def at(self, problem: Problem) -> str:
        places = self._by_file.get(problem.file, [])
        index = bisect_right(places, problem.line, key=lambda each: each.line) - 1
        return places[index].name if index >= 0 and problem.line else ""


class _Texts:
    """Finds the column of a field, where its key is once on its line."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}

    def column(self, problem: Problem) -> int | None:
        key = re.search(r"([^.\[\]]+)(?:\[\d+\])*$", problem.field)
        if key is None or not problem.line:
            return None
        if problem.file not in self._lines:
            try:
                self._lines[problem.file] = Path(problem.file).read_text("utf-8").splitlines()
            except (OSError, ValueError):
                self._lines[problem.file] = []
        lines = self._lines[problem.file]
        text = lines[problem.line - 1] if problem.line <= len(lines) else ""
        found = list(re.finditer(rf"(?<![\w.-]){re.escape(key[1])}[\"']?\s*:", text))
        return found[0].start() + 1 if len(found) == 1 else None
