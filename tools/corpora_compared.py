"""What of the documents that `corpora` judged this control plane takes, and why not the others.

Both readers get the same text, a document at a time.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from istio_config import read_content
from istio_config.kinds.mesh_config import MESH_CONFIG


class Ours(StrEnum):
    """What becomes of a document here."""

    TAKEN = "taken"
    LET_PASS = "let pass"  # noqa: S105 - a verdict
    REFUSED = "refused"
    CRASHED = "crashed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A document with what both say of it.

    theirs: accepted, warned, refused, or foreign where Istio does not serve its kind.
    reason: theirs. sentences: the mistakes that are reported here.
    """

    corpus: str
    file: str
    line: int
    origin: str
    group: str
    kind: str
    name: str
    text: str
    theirs: str
    reason: str
    ours: Ours
    sentences: tuple[str, ...]

    @property
    def is_for_a_mesh(self) -> bool:
        """Whether its kind is one of Istio's, of the Gateway API, or of Kubernetes' read here."""
        return self.theirs != "foreign" and (
            self.group.endswith(".istio.io")
            or (self.group, self.kind) in _OF_KUBERNETES
            or self.group == "gateway.networking.k8s.io"
        )

    @property
    def is_taken_there(self) -> bool:
        """Whether Istio takes it."""
        return self.theirs in {"accepted", "warned"}


_OF_KUBERNETES = {
    ("", "MeshConfig"),
    ("", "Service"),
    ("", "Pod"),
    ("", "Secret"),
    ("", "Namespace"),
    ("", "Node"),
    ("", "Endpoints"),
    ("discovery.k8s.io", "EndpointSlice"),
    ("networking.k8s.io", "Ingress"),
}


def compared(lines: Path) -> Iterator[Compared]:
    """Yield each document of a file of `corpora`, read here too."""
    with lines.open(encoding="utf-8") as file:
        for line in file:
            yield _compared(json.loads(line))


def _compared(said: dict[str, Any]) -> Compared:
    ours, sentences = _read(said)
    return Compared(
        corpus=said["corpus"],
        file=said["file"],
        line=said["line"],
        origin=said["from"],
        group=said["group"],
        kind=said["kind"],
        name=said["name"],
        text=said["text"],
        theirs=said["verdict"],
        reason=said.get("reason", ""),
        ours=ours,
        sentences=sentences,
    )


def _read(said: dict[str, Any]) -> tuple[Ours, tuple[str, ...]]:
    is_mesh_config = (said["group"], said["kind"]) == ("", "MeshConfig")
    single = MESH_CONFIG if is_mesh_config else None
    try:
        content = read_content(said["text"].encode(), file=said["file"], single=single)
    except Exception as error:  # noqa: BLE001 - that nothing is raised is one of the findings
        return Ours.CRASHED, (f"{type(error).__name__}: {error}",)
    if content.problems:
        mistakes = tuple(f"{each.field}: {each.message}" for each in content.problems)
        return Ours.REFUSED, mistakes
    return (Ours.TAKEN if content.objects else Ours.LET_PASS), ()


def shape(sentence: str) -> str:
    """Return a sentence without what is of one document: numbers, quoted texts, names."""
    plain = re.sub(r'"[^"]*"|\'[^\']*\'', '"…"', sentence)
    return re.sub(r"\d+(\.\d+)*", "N", plain)


def by_shape(documents: Iterable[Compared]) -> list[tuple[str, str, list[Compared]]]:
    """Return kinds and shapes of the first sentence with their documents, most frequent first."""
    found: dict[tuple[str, str], list[Compared]] = {}
    for each in documents:
        sentence = each.sentences[0] if each.sentences else ""
        found.setdefault((each.kind, shape(sentence)), []).append(each)
    ordered = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
    return [(kind, said, group) for (kind, said), group in ordered]


def counted(documents: Iterable[Compared]) -> Counter[tuple[str, Ours]]:
    """Return how many documents have each pair of verdicts."""
    return Counter((each.theirs, each.ours) for each in documents)
