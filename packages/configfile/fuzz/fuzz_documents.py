"""Any text as YAML and JSON: read within its bounds, or refused with a line."""

from __future__ import annotations

import json
from collections.abc import Iterator

from mesh_configfile import MAX_DEPTH, Value, read_document, read_documents


def check(data: bytes) -> None:
    """Problems have a line, values are no deeper than allowed, and both readers see the same."""
    documents, problems = read_documents(data, file="mesh.yaml")
    for problem in problems:
        assert problem.line >= 1
        assert str(problem)
    for document in documents:
        assert _depth(document.value) <= MAX_DEPTH
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return
    one, mistakes = read_document(text, file="mesh.json")
    if not mistakes:
        assert _depth(one.value) <= MAX_DEPTH
        _check_json(text, one.value)


def _check_json(text: str, value: Value) -> None:
    if not text.lstrip().startswith(("{", "[")):
        return
    try:
        expected = json.loads(text)
    except (ValueError, RecursionError):
        return  # YAML that only looks like JSON at its beginning
    if isinstance(expected, list | dict) and "nan" not in repr(value):
        assert value == expected


def _depth(value: Value) -> int:
    deepest, waiting = 0, [(value, 1)]
    while waiting:
        each, depth = waiting.pop()
        deepest = max(deepest, depth)
        if isinstance(each, dict):
            waiting += [(inner, depth + 1) for inner in each.values()]
        elif isinstance(each, list):
            waiting += [(inner, depth + 1) for inner in each]
    return deepest - 1


def originals() -> Iterator[bytes]:
    """Objects as users write them, with what YAML has beside: anchors, tags, blocks, several."""
    yield (
        b"apiVersion: v1\nkind: Service\nmetadata: {name: a, labels: {x: 'y'}}\n"
        b"spec:\n  ports:\n  - port: 80\n"
    )
    yield (
        b"a: &x [1, 2.5, true, null, ~]\nb: *x\n---\n"
        b"? complex\n: |\n  text\n  more\nc: >-\n  folded\n"
    )
    yield b'{"a": [1, {"b": "\\u00e4"}], "c": null, "d": 1e5}'
    yield b"a: !!str 1\nb: !x y\n<<: {c: 1}\nd: 2026-11-24\ne: 0o17\nf: 0x1f\ng: .inf\n"
    yield b"%YAML 1.2\n---\na: b # comment\n...\n---\n- - - x\n"
