"""The comparison with Istio's verdicts, which are given: the texts alone are read."""

import json
from pathlib import Path

from corpora_compared import Compared, Ours, compared, shape
from corpora_page import is_good, page

SERVICE = """
apiVersion: v1
kind: Service
metadata: {name: a}
spec: {ports: [{port: PORT}]}
"""


def line(text: str, kind: str, verdict: str, *, group: str = "", reason: str = "") -> str:
    said = {"corpus": "istio", "file": "a.yaml", "line": 3, "from": "yaml", "group": group}
    return json.dumps(
        said | {"kind": kind, "name": "a", "text": text, "verdict": verdict, "reason": reason}
    )


def documents(tmp_path: Path, *lines: str) -> list[Compared]:
    file = tmp_path / "lines.jsonl"
    file.write_text("\n".join(lines))
    return list(compared(file))


def test_a_document_is_taken_refused_or_let_pass_as_check_would(tmp_path: Path) -> None:
    found = documents(
        tmp_path,
        line(SERVICE.replace("PORT", "80"), "Service", "accepted"),
        line(SERVICE.replace("PORT", "0"), "Service", "accepted"),
        line("apiVersion: v1\nkind: Event\nmetadata: {name: a}", "Event", "accepted"),
        line("accessLogFile: /dev/stdout", "MeshConfig", "accepted"),
    )

    assert [each.ours for each in found] == [Ours.TAKEN, Ours.REFUSED, Ours.LET_PASS, Ours.TAKEN]
    assert "from 1 to 65535" in found[1].sentences[0]


def test_what_istio_refuses_must_not_be_taken(tmp_path: Path) -> None:
    right = line(SERVICE.replace("PORT", "80"), "Service", "accepted")
    wrong = line(SERVICE.replace("PORT", "80"), "Service", "refused", reason="its name is long")

    assert is_good(documents(tmp_path, right))
    found = documents(tmp_path, right, wrong)
    assert not is_good(found)
    assert "| Service | its name is long | 1 | `a.yaml:3` |" in page(found, {"istio": "v1"})


def test_one_in_a_hundred_that_is_refused_is_good_and_two_are_not(tmp_path: Path) -> None:
    right = [line(SERVICE.replace("PORT", "80"), "Service", "accepted")] * 99
    wrong = line(SERVICE.replace("PORT", "0"), "Service", "accepted")

    assert is_good(documents(tmp_path, *right, wrong))
    assert not is_good(documents(tmp_path, *right, wrong, wrong))


def test_a_sentence_without_what_is_of_one_document() -> None:
    assert shape('spec.ports[12].name: "http" is given 3 times') == (
        'spec.ports[N].name: "…" is given N times'
    )
