"""Read the YAML of Istio's and the Gateway API's modules here and with Istio's own code.

    python tools/judge_corpora.py [--keep DIR] [--write] [--all] [WORD ...]

It needs Go and the Go module proxy. The modules are those that the judge is built from (go.mod),
and their sources come with them: samples, manifests, test data, strings in tests, documentation,
and each object that Istio's own tests of its validation make. `--write` writes docs/corpora.md.
Words choose documents whose kind, file or sentence holds one of them, and show each; `--all` shows
all that differ. The exit code is 1 if Istio refuses what is taken here, or less than 99 % of what
it takes is taken.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from corpora_compared import compared
from corpora_page import is_good, page, show
from workspace import ROOT

HERE = ROOT / "tools" / "corpora"
_MODULES = (
    "istio.io/istio",
    "istio.io/api",
    "sigs.k8s.io/gateway-api",
    "sigs.k8s.io/gateway-api/conformance",
    "sigs.k8s.io/gateway-api-inference-extension",
)
_VALIDATION = Path("pkg", "config", "validation")


def main(arguments: list[str]) -> int:
    """Judge the corpora, compare, and say what differs."""
    parser = argparse.ArgumentParser(
        prog="judge_corpora.py", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--keep", type=Path, default=Path.home() / ".cache" / "mesh-corpora")
    parser.add_argument("--again", action="store_true", help="judge anew what was judged before")
    parser.add_argument("--write", action="store_true", help="write docs/corpora.md")
    parser.add_argument("--all", action="store_true", help="show each document that differs")
    parser.add_argument("words", nargs="*", metavar="WORD")
    options = parser.parse_args(arguments)
    options.keep.mkdir(parents=True, exist_ok=True)
    lines = options.keep / "lines.jsonl"
    if options.again or not lines.exists():
        judge(options.keep, lines)
    documents = list(compared(lines))
    if options.words or options.all:
        show(documents, options.words)
    text = page(documents, versions())
    if options.write:
        (ROOT / "docs" / "corpora.md").write_text(text, encoding="utf-8")
    elif not (options.words or options.all):
        print(text)
    return 0 if is_good(documents) else 1


def modules() -> dict[str, tuple[str, Path]]:
    """Return the version and the folder of each module, which are loaded first."""
    go("mod", "download", *_MODULES)
    found = {}
    for name in _MODULES:
        module = json.loads(go("list", "-m", "-json", name))
        found[name] = (module["Version"], Path(module["Dir"]))
    return found


def versions() -> dict[str, str]:
    """Return the versions of the modules."""
    return {name: version for name, (version, _) in modules().items()}


def judge(keep: Path, lines: Path) -> None:
    """Write what Istio says of each document."""
    folders = {name: folder for name, (_, folder) in modules().items()}
    recorded = keep / "recorded.jsonl"
    if not recorded.exists():
        record(folders["istio.io/istio"], keep / "istio", recorded)
    new = lines.with_suffix(".new")
    go(
        *("run", ".", "-o", str(new), "-recorded", str(recorded)),
        *(f"{name}={folder}" for name, folder in folders.items()),
    )
    new.replace(lines)


def record(module: Path, copy: Path, recorded: Path) -> None:
    """Run Istio's tests of its validation in a copy that writes down what they validate."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(module, copy, copy_function=shutil.copyfile)
    for folder in (copy, *(path for path in copy.rglob("*") if path.is_dir())):
        folder.chmod(0o755)
    source = copy / _VALIDATION / "validation.go"
    text = source.read_text(encoding="utf-8")
    wrapped = text.replace("validateMetadata(f)\n", "recording(validateMetadata(f))\n")
    if wrapped == text:
        raise SystemExit(f"{source} has no place for the recording: look at RegisterValidateFunc")
    source.write_text(wrapped, encoding="utf-8")
    shutil.copy(HERE / "testdata" / "recording.go", copy / _VALIDATION)
    partial = recorded.with_suffix(".new")
    partial.unlink(missing_ok=True)
    environment = {"CORPORA_RECORD": str(partial)}
    # Tests that fail on this machine have validated what they have validated.
    go("test", "-count=1", f"./{_VALIDATION}/", folder=copy, environment=environment, check=False)
    partial.replace(recorded)


def go(
    *arguments: str,
    folder: Path = HERE,
    environment: dict[str, str] | None = None,
    check: bool = True,
) -> str:
    """Return what the go command says."""
    done = subprocess.run(
        ["go", *arguments],
        cwd=folder,
        env={**os.environ, **(environment or {})},
        check=check,
        stdout=subprocess.PIPE,
        text=True,
    )
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
