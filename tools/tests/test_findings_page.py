"""docs/findings.md names every code of Istio's analyzers, and says of each what the code does."""

import re

from workspace import ROOT

_ROW = re.compile(
    r"^\| (IST\d{4}) \| \w+ \| \w+ \| (yes|no|n/a) \| ([^|]*) \| ([^|]+) \|$", re.MULTILINE
)
_COUNTS = re.compile(r"Of (\d+) codes, (\d+) are given, (\d+) are not and could be, and (\d+) do")
_CODE = re.compile(r'"(IST\d{4})"')


def rows() -> list[tuple[str, ...]]:
    return _ROW.findall((ROOT / "docs" / "findings.md").read_text())


def test_the_codes_that_are_given_are_those_in_the_sources() -> None:
    in_sources = {
        code
        for file in (ROOT / "packages").glob("*/src/**/*.py")
        for code in _CODE.findall(file.read_text())
    }

    assert {row[0] for row in rows() if row[1] == "yes"} == in_sources


def test_each_code_that_is_given_stands_in_the_test_beside_it() -> None:
    for code, here, severity, test in rows():
        if here == "yes":
            assert f"#! {code}" in (ROOT / test.strip("`")).read_text()
            assert severity.partition(";")[0] in ("error", "warning", "info")
        else:
            assert len(test) > len("no reason")


def test_the_page_counts_right() -> None:
    found = _COUNTS.search((ROOT / "docs" / "findings.md").read_text())
    assert found is not None
    by_answer = [sum(row[1] == each for row in rows()) for each in ("yes", "no", "n/a")]
    assert list(map(int, found.groups())) == [len({row[0] for row in rows()}), *by_answer]
    assert sum(by_answer) == len(rows())
