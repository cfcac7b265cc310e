"""Findings that are the like of Istio's bear its code and stand at their line; there are no others.

In each file of `codes` the lines with findings end with `#!` and their codes; `-`: it has none.
"""

import re
from pathlib import Path

import pytest

from mesh_discovery._check import check_configuration
from mesh_discovery._findings_output import findings_of

CODES = Path(__file__).parent / "codes"
_MARKED = re.compile(r"#!((?: IST\d{4}| -)+)$")


def marked(file: Path) -> set[tuple[int, str]]:
    return {
        (number, code.strip("-"))
        for number, line in enumerate(file.read_text().splitlines(), start=1)
        if (found := _MARKED.search(line))
        for code in found[1].split()
    }


@pytest.mark.parametrize("file", sorted(CODES.glob("*.yaml")), ids=lambda each: each.stem)
def test_lines_with_a_mark_have_its_code_and_others_have_no_finding(
    file: Path, tmp_path: Path
) -> None:
    (tmp_path / file.name).write_text(file.read_text())

    checked = check_configuration(tmp_path)
    findings = [each for each in findings_of(checked) if each.rule != "mesh-note"]

    assert {(each.line, each.code) for each in findings} == marked(file), findings
    assert file.stem in {each.code for each in findings}
