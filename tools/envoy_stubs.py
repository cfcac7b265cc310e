"""Make type stubs of Envoy's messages for mypy.

xds-protos ships no types. The stubs are generated from the descriptors inside its modules, by
mypy-protobuf's plugin, for those modules that the tree imports and all that these refer to; into a
folder that git ignores and mypy knows.
"""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import sysconfig
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from google.protobuf import descriptor_pb2
from google.protobuf.compiler import plugin_pb2
from google.protobuf.descriptor import FileDescriptor

from workspace import ROOT

STUBS = ROOT / ".stubs"
_ROOTS = ("envoy.", "google.rpc.", "xds.", "udpa.")
_WITH_TYPES = "google/protobuf/"  # types-protobuf has these


def imported(root: Path) -> frozenset[str]:
    """Return the names of the modules of Envoy's messages that any Python file here imports."""
    found: set[str] = set()
    folders = (root / "packages", root / "tests-e2e", root / "tools", root / "bench")
    for file in (file for folder in folders for file in folder.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_bytes(), filename=str(file))):
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
            elif isinstance(node, ast.Import):
                names = [each.name for each in node.names]
            else:
                continue
            found.update(n for n in names if n.startswith(_ROOTS) and n.endswith("_pb2"))
    return frozenset(found)


def closure(modules: frozenset[str]) -> dict[str, FileDescriptor]:
    """Return the files of the modules and of all they refer to, each after those it needs."""
    files: dict[str, FileDescriptor] = {}

    def add(file: FileDescriptor) -> None:
        if file.name not in files:
            for needed in file.dependencies:
                add(needed)
            files[file.name] = file

    for module in sorted(modules):
        add(import_module(module).DESCRIPTOR)
    return files


def generate(files: dict[str, FileDescriptor], output: Path) -> None:
    """Run the plugin over the files and write what it makes."""
    request = plugin_pb2.CodeGeneratorRequest(parameter="quiet")
    for name, file in files.items():
        descriptor = descriptor_pb2.FileDescriptorProto()
        file.CopyToProto(descriptor)
        request.proto_file.append(descriptor)
        if not name.startswith(_WITH_TYPES):
            request.file_to_generate.append(name)
    plugin = Path(sysconfig.get_path("scripts"), "protoc-gen-mypy")
    ran = subprocess.run(
        [str(plugin)], input=request.SerializeToString(), capture_output=True, check=True
    )
    response = plugin_pb2.CodeGeneratorResponse.FromString(ran.stdout)
    if response.error:
        raise SystemExit(f"envoy_stubs: protoc-gen-mypy: {response.error}")
    for each in response.file:
        path = output / each.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(each.content)


def main(root: Path) -> int:
    """Make the stubs, unless those that are there are of the same modules and versions."""
    modules = imported(root)
    generated_from = "\n".join(
        [*(f"{name} {version(name)}" for name in ("xds-protos", "mypy-protobuf")), *sorted(modules)]
    )
    note = STUBS / "generated-from"
    if not note.is_file() or note.read_text() != generated_from:
        shutil.rmtree(STUBS, ignore_errors=True)
        files = closure(modules)
        generate(files, STUBS)
        note.write_text(generated_from)
        print(f"envoy_stubs: {len(modules)} modules imported, {len(files)} files", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(ROOT))
