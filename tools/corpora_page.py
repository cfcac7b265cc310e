"""The page of what was compared, and the list of what differs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from corpora_compared import Compared, Ours, by_shape, shape


class Remark(NamedTuple):
    """Why a difference is right: the kind and the beginning of a sentence, and the reason."""

    kind: str
    sentence: str
    reason: str


_KUBERNETES = "the server of Kubernetes refuses it too, by a rule that the judge does not have"
AS_KUBERNETES = (
    Remark("Service", r"spec\.ports\[\d+\]\.(protocol|name): ", _KUBERNETES),
    Remark("Service", r"spec\.ports\[\d+\]: (has no name|the field port)", _KUBERNETES),
    Remark("EndpointSlice", r"endpoints\[\d+\]\.addresses\[\d+\]: ", _KUBERNETES),
    Remark("Secret", r"data\.tls\.\w+: is missing", _KUBERNETES),
)
"""What the judge takes, as it knows only the fields of Kubernetes' own kinds."""


def is_refused_by_kubernetes(each: Compared) -> bool:
    """Return whether only a rule of Kubernetes' server is missing in the judge."""
    said = each.sentences[0] if each.sentences else ""
    return any(each.kind == of.kind and re.match(of.sentence, said) for of in AS_KUBERNETES)


class Split(NamedTuple):
    """The documents of kinds for a mesh, by what both make of them.

    kubernetes: refused by Kubernetes too. taken, refused: here, of what is
    left of those that Istio takes. both: refused by Istio, and refused or let pass without effect
    here. taken_here: refused by Istio alone.
    """

    kubernetes: list[Compared]
    taken: list[Compared]
    refused: list[Compared]
    both: list[Compared]
    taken_here: list[Compared]


def split(documents: Iterable[Compared]) -> Split:
    """Return the documents of kinds for a mesh, each in one of the parts."""
    found = Split([], [], [], [], [])
    for each in documents:
        if not each.is_for_a_mesh:
            continue
        is_refused = each.ours in {Ours.REFUSED, Ours.CRASHED}
        if not each.is_taken_there:
            (found.taken_here if each.ours is Ours.TAKEN else found.both).append(each)
        elif not is_refused:
            found.taken.append(each)
        elif is_refused_by_kubernetes(each):
            found.kubernetes.append(each)
        else:
            found.refused.append(each)
    return found


def is_good(documents: Sequence[Compared]) -> bool:
    """Return whether 99 % of what Istio takes is taken, and nothing that it refuses."""
    parts = split(documents)
    of_theirs = len(parts.taken) + len(parts.refused)
    return not parts.taken_here and len(parts.taken) >= 0.99 * of_theirs


def show(documents: Iterable[Compared], words: Sequence[str]) -> None:
    """Print each document that differs and has one of the words in its kind, file or sentences."""
    parts = split(documents)
    for each in (*parts.refused, *parts.taken_here, *parts.kubernetes):
        said = " | ".join(each.sentences) or f"taken; Istio: {each.reason}"
        about = f"{each.kind} {each.corpus} {each.file}:{each.line} {said}"
        if not words or any(word in about for word in words):
            print(about)


def page(documents: Sequence[Compared], versions: Mapping[str, str]) -> str:
    """Return the text of docs/corpora.md."""
    return "\n".join(_lines(documents, versions)) + "\n"


def _lines(documents: Sequence[Compared], versions: Mapping[str, str]) -> Iterator[str]:
    parts = split(documents)
    of_mesh = [each for each in documents if each.is_for_a_mesh]
    files = {(each.corpus, each.file) for each in of_mesh if each.origin != "test case"}
    of_theirs = len(parts.taken) + len(parts.refused)
    yield _HEAD
    for name, version in versions.items():
        yield f"- `{name}` {version}"
    yield ""
    yield (
        f"{len(of_mesh)} documents of kinds for a mesh, in {len(files)} files and in the cases of "
        "Istio's tests of its validation:"
    )
    yield ""
    yield from _table(("where", "documents"), _counts(of_mesh))
    yield ""
    yield "## Result"
    yield ""
    rows = [
        ("Istio takes, and `check` too", len(parts.taken)),
        ("Istio takes, and `check` refuses", len(parts.refused)),
        ("Kubernetes itself refuses, and `check`", len(parts.kubernetes)),
        ("Istio refuses, and `check` too", len(parts.both)),
        ("Istio refuses, and `check` takes", len(parts.taken_here)),
        ("reading raised an error", sum(each.ours is Ours.CRASHED for each in documents)),
    ]
    yield from _table(("", "documents"), [(name, str(count)) for name, count in rows])
    yield ""
    share = 100 * len(parts.taken) / of_theirs if of_theirs else 100
    yield f"Of what Istio takes, {share:.1f} % is taken ({len(parts.taken)} of {of_theirs})."
    yield ""
    yield from _section("Istio takes, `check` refuses", parts.refused)
    yield from _section("Kubernetes itself refuses", parts.kubernetes)
    yield "## Istio refuses, `check` takes"
    yield ""
    taken = by_reason(parts.taken_here)
    yield from _table(("kind", "Istio's reason", "", "example"), taken)
    yield ""
    yield "## Kinds that mean nothing to a mesh"
    yield ""
    others = [each for each in documents if not each.is_for_a_mesh]
    refused = [each for each in others if each.ours is Ours.REFUSED]
    yield f"{len(others) - len(refused)} documents are let pass with a note; refused are:"
    yield ""
    yield from _table(_HEADS, _rows(refused))


_HEADS = ("kind", "sentence", "", "example")
_HEAD = """# What of the YAML that others wrote is taken

`python3 tools/dev.py corpora -- --write` makes this page. It reads the YAML in these modules
(files, raw strings in tests, documentation, and each object that Istio's own tests of its
validation make) with `istio_config`, and with Istio's own code: the definitions of the kinds with
their rules, and then the validation of istiod's webhook. Of Kubernetes' own kinds the judge knows
only the fields. A document is what `mesh-discovery check` would have to take by itself; what it
names elsewhere is not looked for.
"""


def _section(title: str, documents: Sequence[Compared]) -> Iterator[str]:
    yield f"## {title}"
    yield ""
    yield from _table(_HEADS, _rows(documents))
    yield ""


def _rows(documents: Iterable[Compared]) -> list[tuple[str, ...]]:
    return [
        (kind, _cell(said), str(len(group)), _example(group[0]))
        for kind, said, group in by_shape(documents)
    ]


def by_reason(documents: Iterable[Compared]) -> list[tuple[str, ...]]:
    """Return the rows of what Istio alone refuses, by its reason."""
    found: dict[tuple[str, str], list[Compared]] = {}
    for each in documents:
        found.setdefault((each.kind, shape(each.reason)), []).append(each)
    ordered = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
    return [
        (kind, _cell(said), str(len(group)), _example(group[0])) for (kind, said), group in ordered
    ]


def _counts(documents: Iterable[Compared]) -> list[tuple[str, ...]]:
    found = Counter((each.corpus, each.origin) for each in documents)
    return [(f"{corpus}, {origin}", str(count)) for (corpus, origin), count in found.most_common()]


def _example(each: Compared) -> str:
    return f"`{each.file}:{each.line}`"


def _cell(text: str) -> str:
    shortened = text if len(text) <= 160 else f"{text[:159]}…"
    return shortened.replace("|", "\\|").replace("\n", " ")


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    if not rows:
        yield "None."
        return
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
