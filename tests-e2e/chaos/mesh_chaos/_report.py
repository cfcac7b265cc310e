"""What a run has shown, as a table for people and as JSON."""

from collections.abc import Iterator, Sequence
from typing import Any

from mesh_chaos._books import Cause
from mesh_chaos._observing import per_minute
from mesh_chaos._running import Outcome
from mesh_chaos._verdict import accounts, findings, levels


def as_json(outcome: Outcome) -> dict[str, Any]:
    """Return all of it."""
    seen = outcome.observations
    memory, descriptors = levels(seen.memory_mb), levels(seen.descriptors)
    return {
        "seed": outcome.seed,
        "seconds": outcome.seconds,
        "balanced": not findings(outcome),
        "findings": findings(outcome),
        "requests": [
            {
                "lane": each.lane,
                "sent": each.sent,
                "answered": each.answered,
                **{cause.value: each.failed.get(cause, 0) for cause in Cause},
                "failed otherwise": len(each.not_allowed),
                "slowest_s": round(outcome.traffic.slowest_s.get(each.lane, 0.0), 3),
            }
            for each in accounts(outcome)
        ],
        "faults": [
            {
                "fault": str(each.fault),
                "kind": each.fault.kind,
                "target": each.fault.target,
                "begun_s": round(each.begun_s, 2),
                "ended_s": round(each.ended_s, 2),
            }
            for each in outcome.happened
        ],
        "not_reached": outcome.not_reached,
        "skipped": dict(outcome.skipped),
        "notes": outcome.tested.notes,
        "memory_mb": {each.what: [round(each.early, 1), round(each.late, 1)] for each in memory},
        "descriptors": {each.what: [each.early, each.late] for each in descriptors},
        "children": {each.what: [each.early, each.late] for each in levels(seen.children)},
        "certificates": {
            "presented": len(seen.presented),
            "issued": len(frozenset().union(*outcome.issued.values())),
        },
        "log_lines_a_minute": {
            name: round(each, 1)
            for name, each in per_minute(*outcome.lines, outcome.seconds).items()
        },
        "files": {
            name: [outcome.files[0][name], outcome.files[1][name]] for name in outcome.files[0]
        },
        "left": list(seen.left),
    }


def as_text(outcome: Outcome) -> str:
    """Return the tables, and at the end whether the books balance."""
    document = as_json(outcome)
    lines = [
        *_table(
            ("lane", "sent", "answered", "in flight", "away", "otherwise", "slowest s"),
            [list(each.values()) for each in document["requests"]],
        ),
        "",
        *_table(("fault", "times"), _times(document["faults"])),
        "",
        *_table(
            ("process", "MB early", "late", "descriptors early", "late"),
            [
                [name, *document["memory_mb"][name], *document["descriptors"].get(name, ["", ""])]
                for name in document["memory_mb"]
            ],
        ),
        "",
        *_table(
            ("log", "lines a minute"),
            [list(each) for each in document["log_lines_a_minute"].items()],
        ),
        "",
        "certificates presented: {presented}, issued: {issued}".format(**document["certificates"]),
        *(f"not done here: {kind}: {reason}" for kind, reason in document["skipped"].items()),
        *(f"note: {each}" for each in document["notes"]),
        *(
            [f"{document['not_reached']} faults were not reached"]
            if document["not_reached"]
            else []
        ),
        "",
        *(f"NOT BALANCED: {each}" for each in document["findings"]),
        f"seed {document['seed']}, {document['seconds']:g} s: "
        + (
            "the books balance" if document["balanced"] else f"{len(document['findings'])} findings"
        ),
    ]
    return "\n".join(lines)


def _times(faults: Sequence[dict[str, Any]]) -> list[list[object]]:
    kinds = sorted({each["kind"] for each in faults})
    return [[kind, sum(each["kind"] == kind for each in faults)] for kind in kinds]


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    texts = [list(head), *([str(each) for each in row] for row in rows)]
    widths = [max(len(row[column]) for row in texts) for column in range(len(head))]
    for row in texts:
        first, *others = (text.ljust(width) for text, width in zip(row, widths, strict=True))
        yield "  ".join((first, *(each.strip().rjust(len(each)) for each in others))).rstrip()
