"""A file that changed is read as if it were read for the first time."""

from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from istio_config._file_content import FileContent, FileReader
from istio_config._objects import read_object
from mesh_configfile import read_documents

_ENTRY = """\
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: {name}, namespace: shop}}
spec:
  hosts: [{name}.shop.example]
  ports: [{{number: {port}, name: http, protocol: HTTP}}]
"""
_PIECES = (
    *(_ENTRY.format(name=name, port=port) for name in "abc" for port in (80, 81, 70_000)),
    "# a comment\n",
    "\n\n",
    "---\n",
    "--- # a comment\n",
    "---",
    "--- {a: 1}\n",
    "...\n",
    "%YAML 1.1\n---\n",
    "a: [\n",
    "text: |\n  ---\n  more\n",
    "---more: 1\n",
    "--- |\n kept\n",
    "a: &a [1]\nb: *a\n",
    "x: '\n---\n'\n",
    "\ttab: 1\n",
    "a: 1\u2028b\n",
    "a: b\r\n---\r\nc: d\r\n",
    "kind: Unknown\n",
)
_TEXTS = st.lists(st.one_of(st.sampled_from(_PIECES), st.just("---\n")), max_size=8).map("".join)


@given(texts=st.lists(_TEXTS, min_size=1, max_size=4))
def test_any_change_gives_what_the_whole_file_gives(texts: list[str]) -> None:
    reader = FileReader("mesh.yaml")
    for text in texts:
        found = reader.read(text.encode())
        expected = _read_as_one(text.encode())
        _, problems = read_documents(text, file="mesh.yaml")
        if problems:  # of the whole file, what follows a syntax error is not read
            assert found.problems
            assert found.objects[: len(expected.objects)] == expected.objects
            assert found.notes[: len(expected.notes)] == expected.notes
            continue
        assert found.objects == expected.objects
        assert found.problems[: len(expected.problems)] == expected.problems
        assert found.notes == expected.notes


def test_a_syntax_error_hides_no_other_document() -> None:
    broken = "kind: [\n"
    wrong = _ENTRY.format(name="b", port=70_000)
    text = "---\n".join((broken, _ENTRY.format(name="a", port=80), broken, wrong))
    content = FileReader("mesh.yaml").read(text.encode())

    assert [each.name for each in content.objects] == ["a"]
    assert [(each.line, each.field) for each in content.problems] == [
        (2, ""),
        (11, ""),
        (17, "spec.ports[0].number"),
    ]


def test_what_stays_is_the_same_object_and_what_moved_has_its_new_line() -> None:
    entries = [_ENTRY.format(name=name, port=80) for name in "abc"]
    reader = FileReader("mesh.yaml")
    first = reader.read("---\n".join(entries).encode())
    entries[1] = "# one line more\n" + entries[1].replace("80", "8080")
    second = reader.read("---\n".join(entries).encode())
    assert [each.name for each in second.objects] == ["a", "b", "c"]
    assert second.objects[0] is first.objects[0]
    assert second.objects[1] != first.objects[1]
    assert second.objects[2].spec is first.objects[2].spec
    assert second.objects[2].line == first.objects[2].line + 1
    assert second.objects[2].problem(("spec", "hosts", 0), "").line == 20


def _read_as_one(data: bytes) -> FileContent:
    documents, problems = read_documents(data, file="mesh.yaml")
    reads = [read_object(each) for each in documents]
    return FileContent(
        objects=tuple(each.item for each in reads if each.item is not None),
        problems=(*problems, *chain.from_iterable(each.problems for each in reads)),
        notes=tuple(chain.from_iterable(each.notes for each in reads)),
    )
