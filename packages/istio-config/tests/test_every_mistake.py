"""One object for each mistake that users make: each is reported with its place and remedy.

`every_mistake/` has a file a kind. The names of objects say what is wrong; of those that begin with
`warning-` the object is accepted. `golden/` has what users read, as `mesh-discovery check` of the
directory says it.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from istio_config._objects import read_object
from mesh_configfile import Document, Problem, read_documents
from mesh_testkit import Golden

DIRECTORY = Path(__file__).parent / "every_mistake"


def reported(document: Document) -> tuple[list[Problem], list[Problem]]:
    """Return the mistakes and warnings in a document."""
    read = read_object(document)
    return list(read.problems), list(read.warnings)


def documents(file: Path) -> Iterator[tuple[str, Document]]:
    found, problems = read_documents(file.read_text(), file=file.name)
    assert not problems
    for document in found:
        assert isinstance(document.value, dict)
        metadata = document.value["metadata"]
        assert isinstance(metadata, dict)
        yield str(metadata["name"]), document


@pytest.mark.parametrize("file", sorted(DIRECTORY.glob("*.yaml")), ids=lambda file: file.stem)
def test_each_mistake_is_reported_with_its_place_and_remedy(file: Path, golden: Golden) -> None:
    lines = file.read_text().splitlines()
    text = ""
    for name, document in documents(file):
        mistakes, warnings = reported(document)
        if name.startswith("warning-"):
            assert (mistakes, bool(warnings)) == ([], True), name
        else:
            assert mistakes, name
        for each in (*mistakes, *warnings):
            assert each.field.startswith(("spec", "metadata")), each
            # The line has the field, or is that of the nearest field around it.
            around = lines[each.line - 1].strip()
            names = re.split(r"[.\[\]]+", each.field)
            assert around.startswith(("-", "''")) or any(
                name and name in around for name in names
            ), each
            text += f"{name}\n    {each}\n"
    golden(f"every_mistake_{file.stem}.txt", text)
