"""Run the fuzzers of the packages' parsers: coverage-guided, each in a process, with its corpus.

    python tools/fuzz.py [--seconds 10] [--jobs 2] [--seed N] [--keep] [WORD ...]

A fuzzer is a file `packages/*/fuzz/fuzz_*.py` with two functions. `check(data)` gives the bytes to
a parser: it returns if they were read, or refused as the parser's documentation says, and raises
anything else. `originals()` yields inputs as they come in real life. Inputs that reached new code
in earlier runs are in `corpus/NAME.txt` beside it, one in base64 a line; `--keep` adds those of
this run.

Words choose fuzzers whose path holds one of them. An input that fails is written to `.fuzz/`. The
last lines say for each parser that failed what is wrong, with which input, and the command that
runs it again.
"""

from __future__ import annotations

import argparse
import base64
import importlib.util
import logging
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol, cast

from fuzz_outcomes import Outcome, description_of, outcome_of, summary
from workspace import ROOT, distributions

FOUND = ROOT / ".fuzz"
SLOWEST_S = 20
"""One input that takes more time of a processor has failed, however busy the machine is."""
_HANGS_S = 300
"""One input that has not ended by then hangs; far more than SLOWEST_S beside other programs."""
MOST_MEMORY_MB = 2048
LONGEST_BYTES = 4096
_LONGEST_KEPT_BYTES = 2048
_MOST_KEPT = 150
_ORIGINAL = "original-"


class Fuzzer(Protocol):
    """What a file of the folder `fuzz` defines; `longest_bytes` may be left out."""

    def check(self, data: bytes) -> None: ...

    def originals(self) -> Iterable[bytes]: ...


def fuzzers(root: Path = ROOT) -> list[Path]:
    """Return the files of all fuzzers."""
    return sorted(root.glob("packages/*/fuzz/fuzz_*.py"))


def load(file: Path) -> Fuzzer:
    """Import a fuzzer from its file."""
    name = f"{file.parent.parent.name.replace('-', '_')}_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return cast(Fuzzer, module)


def corpus_file(file: Path) -> Path:
    """Return where the corpus of a fuzzer is kept."""
    return file.parent / "corpus" / f"{file.stem.removeprefix('fuzz_')}.txt"


def corpus(file: Path) -> list[bytes]:
    """Read the kept inputs of a fuzzer."""
    kept = corpus_file(file)
    return [base64.b64decode(line) for line in kept.read_text().split()] if kept.exists() else []


def mutations(inputs: list[bytes], count: int, rng: random.Random) -> Iterator[bytes]:
    """Yield changed inputs without a look at coverage, for where atheris is not installed."""
    for _ in range(count):
        data = bytearray(rng.choice(inputs))
        for _ in range(rng.choice((1, 1, 2, 5))):
            at = rng.randrange(len(data) + 1)
            match rng.randrange(5):
                case 0 if at < len(data):
                    data[at] ^= 1 << rng.randrange(8)
                case 1:
                    data[at : at + rng.randrange(1, 9)] = b""
                case 2:
                    data[at:at] = rng.randbytes(rng.randrange(1, 9))
                case 3:
                    del data[at:]
                case _:
                    other = rng.choice(inputs)
                    data[at:at] = other[rng.randrange(len(other) + 1) :][:40]
        yield bytes(data)


def main(arguments: list[str]) -> int:
    """Run the chosen fuzzers, print what became of them; 1 if one found something."""
    options = _options(arguments)
    if options.one is not None:
        fuzz(options.one, options.rest)
        return 0
    chosen = [
        file
        for file in fuzzers()
        if not options.rest or any(word in str(file.relative_to(ROOT)) for word in options.rest)
    ]
    if not chosen:
        print(f"fuzz: no fuzzer has one of {', '.join(options.rest)} in its path", file=sys.stderr)
        return 2
    # CI holds to what is known; runs by hand go looking for new inputs.
    drawn = 1 if os.environ.get("CI") else random.SystemRandom().randrange(1, 1 << 31)
    seed = options.seed or drawn
    print(f"fuzz: {len(chosen)} parsers, {options.seconds} s each, seed {seed}", flush=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        outcomes = list(
            pool.map(lambda file: _run(file, options.seconds, seed, keep=options.keep), chosen)
        )
    print("\n".join(summary(outcomes)), flush=True)
    return 1 if any(each.failure for each in outcomes) else 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="fuzz", description="Fuzz the packages' parsers.")
    parser.add_argument("--seconds", type=int, default=10, help="for each fuzzer")
    parser.add_argument("--jobs", type=int, default=2, help="fuzzers at once")
    parser.add_argument("--seed", type=int, default=0, help="0: another one each time")
    parser.add_argument("--keep", action="store_true", help="add what reached new code to corpora")
    parser.add_argument("--one", type=Path, help=argparse.SUPPRESS)
    options, rest = parser.parse_known_args(arguments)
    options.rest = rest
    return options


def _run(file: Path, seconds: int, seed: int, *, keep: bool) -> Outcome:
    name = f"{file.parent.parent.name}/{file.stem.removeprefix('fuzz_')}"
    FOUND.mkdir(exist_ok=True)
    prefix = FOUND / f"{name.replace('/', '-')}-"
    with tempfile.TemporaryDirectory(prefix="fuzz-") as directory:
        inputs = Path(directory, "inputs")
        inputs.mkdir()
        command = [sys.executable, __file__, "--one", str(file), str(inputs)]
        words = [f"-max_total_time={seconds}", f"-seed={seed}", f"-artifact_prefix={prefix}"]
        began = time.monotonic()
        done = subprocess.run(
            [*command, *words],
            cwd=directory,
            capture_output=True,
            encoding="utf-8",
            errors="backslashreplace",  # an exception may quote the input
            check=False,
        )
        took = time.monotonic() - began
        kept = _keep(file, inputs) if keep and done.returncode == 0 else 0
    outcome = outcome_of(done, name=name, file=file, seconds=took, kept=kept)
    print(description_of(outcome), flush=True)
    return outcome


def _keep(file: Path, inputs: Path) -> int:
    """Add the smallest inputs that reached new code to the corpus; return how many."""
    before = corpus(file)
    found = {each.read_bytes() for each in inputs.iterdir() if not _is_original(each)}
    small = {each for each in found - set(before) if 0 < len(each) <= _LONGEST_KEPT_BYTES}
    room = max(0, _MOST_KEPT - len(before))
    chosen = sorted(small, key=lambda each: (len(each), each))[:room]
    target = corpus_file(file)
    target.parent.mkdir(exist_ok=True)
    lines = (base64.b64encode(each).decode() + "\n" for each in (*before, *chosen))
    target.write_text("".join(lines))
    return len(chosen)


def _is_original(file: Path) -> bool:
    return file.name.startswith(_ORIGINAL)


def fuzz(file: Path, words: list[str]) -> None:
    """Run one fuzzer in this process, which libFuzzer ends; the first word is its directory."""
    import atheris

    logging.disable(logging.CRITICAL)
    with atheris.instrument_imports(include=[each.import_name for each in distributions()]):
        fuzzer = load(file)
    directory = Path(words[0])
    if directory.is_dir():
        for number, original in enumerate([*fuzzer.originals(), *corpus(file)]):
            (directory / f"{_ORIGINAL}{number}").write_bytes(original)
    longest = getattr(fuzzer, "LONGEST_BYTES", LONGEST_BYTES)
    limits = [f"-max_len={longest}", f"-timeout={_HANGS_S}", f"-rss_limit_mb={MOST_MEMORY_MB}"]
    check = within(SLOWEST_S, fuzzer.check)
    atheris.Setup([sys.argv[0], *words, *limits, "-print_final_stats=1"], check)
    atheris.Fuzz()


def within(
    most_s: float,
    check: Callable[[bytes], None],
    *,
    spent: Callable[[], float] = time.process_time,
) -> Callable[[bytes], None]:
    """Return a check that also fails for an input that takes more time of a processor.

    libFuzzer's own limit is one of the wall clock, in which a busy machine may do little for us.
    """

    def bounded(data: bytes) -> None:
        began = spent()
        check(data)
        took = spent() - began
        if took > most_s:
            raise AssertionError(f"took {took:.1f} s, more than {most_s:g}")

    return bounded


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
