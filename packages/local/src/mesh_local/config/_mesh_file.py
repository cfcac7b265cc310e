"""Reads a mesh file strictly: the YAML, then each field's type, then rules between fields.

At each of these steps all mistakes are reported at once, with their lines.
"""

import errno
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from mesh_configfile import (
    MAX_BYTES,
    Problem,
    field_name,
    parse_duration,
    read_document,
)
from mesh_configfile.shapes import decode, differences
from mesh_filewatch import read_bytes_with_timeout
from mesh_local._errors import ConfigurationError, MeshFileError
from mesh_local.config._check_request import Request
from mesh_local.config._rules import Rules
from mesh_local.config._shapes import Check, Mesh, MeshShape, Workload

_LAST_PART = re.compile(r"(\.?[^.\[]+|\[\d+\])$")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckPlan:
    """A check, and its request parsed."""

    check: Check
    request: Request


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshFile:
    """A mesh file whose values have been checked."""

    path: Path
    name: str
    mesh: Mesh
    certificate_lifetime: timedelta
    drain: timedelta
    workloads: tuple[Workload, ...]
    config: tuple[dict[str, object], ...] = ()
    config_dir: Path | None = None
    checks: tuple[CheckPlan, ...] = ()
    directory: Path = field(default=Path())
    """Where relative paths in the file start."""
    lines: Mapping[str, int] = field(default_factory=dict, repr=False)
    """The line of each field, by names such as `workloads[0].ports[1]`."""

    def line_of(self, field: str) -> int:
        """Return the line of a field, or of the nearest field around it."""
        while field and field not in self.lines:
            field = _LAST_PART.sub("", field)
        return self.lines.get(field, 1)


A_DIRECTORY = "this is a directory; name the YAML file in it"


def load_mesh_file(path: Path) -> MeshFile:
    """Read and check a mesh file; raises `MeshFileError` with every mistake found."""
    try:
        data = read_bytes_with_timeout(path, max_bytes=MAX_BYTES)
    except OSError as error:
        if error.errno == errno.EISDIR:
            raise _one(path, A_DIRECTORY) from None
        raise _one(path, f"can't be read: {error.strerror}") from None
    return parse_mesh_file(data, path=path)


def parse_mesh_file(source: str | bytes, *, path: Path) -> MeshFile:
    """Make a `MeshFile` of YAML text; raises `MeshFileError`."""
    document, problems = read_document(source, file=str(path))
    if problems:
        raise MeshFileError(path, problems)
    if not isinstance(document.value, dict):
        raise _one(path, "expected a mapping with at least the field workloads")
    if wrong := tuple(differences(document.value, MeshShape)):
        raise MeshFileError(path, (document.problem(*each) for each in wrong))
    shape = decode(document.value, MeshShape)
    if wrong := tuple(Rules(shape, path.absolute().parent).problems()):
        raise MeshFileError(path, (document.problem(*each) for each in wrong))
    lines = {field_name(place): line for place, line in document.lines()}
    return _mesh_file(shape, path, lines)


def check_mesh_values(values: Mapping[str, Any], *, name: str) -> MeshFile:
    """Make a `MeshFile` of values that are in no file; relative paths start at the working folder.

    name: what mistakes name it by. Raises `ConfigurationError` with every mistake.
    """
    path = Path(name)
    wrong = tuple(differences(dict(values), MeshShape))
    shape = None if wrong else decode(dict(values), MeshShape)
    if shape is not None and not (wrong := tuple(Rules(shape, Path.cwd()).problems())):
        return _mesh_file(shape, path, {})
    raise ConfigurationError(
        "\n".join(f"{name}: {field_name(place)}: {message}" for place, message in wrong)
    )


def _one(path: Path, message: str) -> MeshFileError:
    return MeshFileError(path, [Problem(file=str(path), line=1, message=message)])


def _mesh_file(shape: MeshShape, path: Path, lines: Mapping[str, int]) -> MeshFile:
    directory = path.absolute().parent
    return MeshFile(
        path=path,
        name=shape.mesh.name or directory.name or "mesh",
        mesh=shape.mesh,
        certificate_lifetime=parse_duration(shape.mesh.certificate_lifetime),
        drain=parse_duration(shape.mesh.drain),
        workloads=shape.workloads,
        config=shape.config,
        config_dir=directory / shape.config_dir if shape.config_dir else None,
        checks=tuple(
            CheckPlan(check=each, request=Request.parse(each.request)) for each in shape.checks
        ),
        directory=directory,
        lines=lines,
    )
