"""What the fuzzers' runner tells of processes that have failed, from what atheris prints."""

import subprocess
from pathlib import Path

import pytest

import fuzz
from fuzz_outcomes import Outcome, description_of, outcome_of, summary
from workspace import ROOT

FILE = ROOT / "packages" / "dnsproxy" / "fuzz" / "fuzz_replies.py"
REPLY = "packages/dnsproxy/src/mesh_dnsproxy/message/_reply.py"
RAISED = f"""\

 === Uncaught Python exception: ===
ValueError: more than
the header tells of
Traceback (most recent call last):
  File "{FILE}", line 30, in check
    records(shorter, _END)
  File "{ROOT}/{REPLY}", line 114, in records
    raise ValueError("more than the header tells of")
ValueError: more than
the header tells of

"""
EXITED = """\
#43	INITED cov: 80 ft: 175 corp: 38/7193b exec/s: 0 rss: 53Mb
artifact_prefix='{prefix}'; Test unit written to {prefix}slow-unit-0
==14269== ERROR: libFuzzer: {error}
SUMMARY: libFuzzer: fuzz target exited
MS: 1 ChangeByte-; base unit: ddedc714ac4205bfdd58c0e7548dac31932894a7
artifact_prefix='{prefix}'; Test unit written to {prefix}crash-1
stat::number_of_executed_units: 92164
stat::slowest_unit_time_sec:    0
stat::peak_rss_mb:              53
"""


def outcome(status: int, *, stdout: str = "", stderr: str = "") -> Outcome:
    done = subprocess.CompletedProcess([], status, stdout, stderr)
    return outcome_of(done, name="dnsproxy/replies", file=FILE, seconds=2.0, kept=0)


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    (tmp_path / "crash-1").write_bytes(b"\0bad")
    (tmp_path / "slow-unit-0").write_bytes(b"slow")
    return f"{tmp_path}/"


@pytest.mark.parametrize(
    ("stdout", "error", "sentence"),
    [
        (
            RAISED,
            "fuzz target exited",
            f"ValueError: more than the header tells of ({REPLY}:114)",
        ),
        ("", "timeout after 301 seconds", "timeout after 301 seconds"),
        ("", "out-of-memory (used: 2100Mb; limit: 2048Mb)", "out-of-memory (used: 2100Mb; limit"),
    ],
    ids=["raised", "hangs", "memory"],
)
def test_the_last_lines_say_what_failed_with_which_input_and_how_to_run_it_again(
    stdout: str, error: str, sentence: str, prefix: str
) -> None:
    stderr = EXITED.format(prefix=prefix, error=error)
    good = outcome(0, stderr="stat::number_of_executed_units: 8\nstat::peak_rss_mb: 50\n")
    bad = outcome(77, stdout=stdout, stderr=stderr)
    count, why, which, again = summary([good, bad, good])
    assert count == "fuzz: 92,180 executions, 1 of 3 parsers failed"
    assert why.startswith(f"fuzz: dnsproxy/replies: {sentence}")
    assert which == f"  input: {prefix}crash-1, in base64 AGJhZA=="
    words = f"--one packages/dnsproxy/fuzz/fuzz_replies.py {prefix}crash-1"
    assert again == f"  again: python tools/fuzz.py {words}"
    assert "53 MB  failed" in description_of(bad)
    assert stdout + stderr in description_of(bad)
    assert "50 MB  ok" in description_of(good)


def test_a_large_input_is_named_and_not_shown(tmp_path: Path) -> None:
    (tmp_path / "crash-1").write_bytes(bytes(3000))
    bad = outcome(77, stderr=EXITED.format(prefix=f"{tmp_path}/", error="fuzz target exited"))
    assert f"  input: {tmp_path}/crash-1, 3000 bytes" in summary([bad])


@pytest.mark.parametrize(
    ("status", "stderr", "sentence"),
    [
        (1, "Traceback ...\nModuleNotFoundError: No module named 'x'\n\n", "No module named 'x'"),
        (-9, "INFO: Seed: 1\n", "ended by SIGKILL"),
        (1, "", "it said nothing (exit status 1)"),
    ],
    ids=["import", "killed", "silent"],
)
def test_a_fuzzer_that_does_not_run_has_failed(status: int, stderr: str, sentence: str) -> None:
    _, why, again = summary([outcome(status, stderr=stderr)])
    assert sentence in why
    assert again == "  again: python tools/fuzz.py packages/dnsproxy/fuzz/fuzz_replies.py"


def test_an_input_is_too_slow_by_the_time_of_a_processor_that_it_takes() -> None:
    times = iter([100.0, 101.0, 200.0, 221.5])
    check = fuzz.within(20, lambda _: None, spent=lambda: next(times))
    check(b"")
    with pytest.raises(AssertionError, match=r"took 21\.5 s, more than 20"):
        check(b"")
    with pytest.raises(AssertionError, match="more than 0"):
        fuzz.within(0, works)(b"")


def works(_data: bytes) -> None:
    for _ in range(1000):
        pass
