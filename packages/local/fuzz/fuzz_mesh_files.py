"""Any text as a mesh file: a mesh, or all that is wrong with it, each with its line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mesh_local import MeshFileError, parse_mesh_file


def check(data: bytes) -> None:
    """MeshFileError is the only error, and it names the file."""
    try:
        parse_mesh_file(data, path=Path("/nowhere/mesh.yaml"))
    except MeshFileError as error:
        assert "mesh.yaml" in str(error)


def originals() -> Iterator[bytes]:
    """The meshes of the examples."""
    for file in sorted(Path(__file__).parents[3].glob("examples/*/mesh*.yaml")):
        yield file.read_bytes()
