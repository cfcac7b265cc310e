"""Every fuzzer's originals and corpus, and changed ones: short, always the same, no atheris."""

import random
from pathlib import Path

import pytest

import fuzz
from workspace import ROOT, packages

FUZZERS = fuzz.fuzzers()
_MUTATIONS = 150


@pytest.mark.parametrize("file", FUZZERS, ids=lambda file: f"{file.parents[1].name}-{file.stem}")
def test_what_a_parser_is_given_is_read_or_refused_as_documented(file: Path) -> None:
    fuzzer = fuzz.load(file)
    inputs = [*fuzzer.originals(), *fuzz.corpus(file)]
    assert inputs
    for data in (*inputs, b"", *fuzz.mutations(inputs, _MUTATIONS, random.Random(1))):
        fuzzer.check(data)


def test_a_parser_that_raises_what_it_must_not_is_found() -> None:
    class Bad:
        def check(self, data: bytes) -> None:
            assert b"\0" not in data

    inputs = [b"abc", b"def"]
    with pytest.raises(AssertionError):
        for data in fuzz.mutations(inputs, 2000, random.Random(1)):
            Bad().check(data)


def test_a_corpus_belongs_to_a_fuzzer() -> None:
    kept = sorted(ROOT.glob("packages/*/fuzz/corpus/*"))
    assert kept == sorted(
        fuzz.corpus_file(file) for file in FUZZERS if fuzz.corpus_file(file).exists()
    )


def test_packages_that_read_bytes_of_others_have_a_fuzzer() -> None:
    """Those without one read nothing of their own, but by the parsers of others."""
    without = {"agent", "agent-cli", "command-line", "discovery", "doctor", "filewatch"}
    without |= {"lifecycle", "mesh-findings", "protos"}
    without |= {"traffic-capture"}  # but what the kernel's own programs print
    fuzzed = {file.parents[1].name for file in FUZZERS}
    assert {each.folder.name for each in packages()} - fuzzed <= without
