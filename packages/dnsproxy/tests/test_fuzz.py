"""The fuzzer of bench/, in short and always the same; by hand it is run with a million packets."""

import subprocess
import sys
from pathlib import Path

FUZZER = Path(__file__).parents[1] / "bench" / "fuzz_packets.py"


def test_mutated_packets_cost_no_exception_and_a_canary_is_always_answered() -> None:
    counts = ["--packets", "20000", "--sockets", "2000", "--seed", "1"]
    done = subprocess.run(
        [sys.executable, str(FUZZER), *counts], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "20 canaries answered" in done.stdout
