"""Generate the Python modules of proto/ and compare them with those that are kept, or keep them.

They are kept in the repository so that installing mesh-protos needs no compiler.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

from workspace import ROOT

SOURCES = ROOT / "proto"
KEPT = ROOT / "packages" / "protos" / "src"
GENERATED = ("*_pb2.py", "*_pb2.pyi")


def generate(output: Path) -> None:
    """Run the compiler over every file of proto/."""
    inputs = sorted(str(path.relative_to(SOURCES)) for path in SOURCES.rglob("*.proto"))
    well_known = str(files("grpc_tools") / "_proto")
    status = protoc.main(
        [
            "protoc",
            f"--proto_path={SOURCES}",
            f"--proto_path={well_known}",
            f"--python_out={output}",
            f"--pyi_out={output}",
            *inputs,
        ]
    )
    if status != 0:
        raise SystemExit(f"protos: the compiler failed with status {status}")


def read(directory: Path) -> dict[Path, bytes]:
    """Return the generated files below a directory, by relative path."""
    found = (path for pattern in GENERATED for path in directory.rglob(pattern))
    return {path.relative_to(directory): path.read_bytes() for path in found}


def main(arguments: list[str]) -> int:
    """Compare, or with --update replace; return 1 if what is kept differs."""
    with tempfile.TemporaryDirectory() as directory:
        generate(Path(directory))
        fresh, kept = read(Path(directory)), read(KEPT)
        different = sorted(p for p in fresh.keys() | kept.keys() if fresh.get(p) != kept.get(p))
        if "--update" in arguments:
            for path in different:
                if path in fresh:
                    shutil.copyfile(Path(directory, path), KEPT / path)
                else:
                    (KEPT / path).unlink()
    for path in different:
        state = "updated" if "--update" in arguments else "differs from what proto/ gives"
        print(f"protos: {(KEPT / path).relative_to(ROOT)} {state}")
    if different and "--update" not in arguments:
        print("protos: run `python3 tools/dev.py protos --update` and commit the result")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
