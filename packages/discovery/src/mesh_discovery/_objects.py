"""One YAML document as a typed configuration object, or as all that is wrong with it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from mesh_discovery._documents import Document, Value
from mesh_discovery._problems import Path, Problem, field_name
from mesh_discovery._schema import (
    IGNORED_MESH_FIELDS,
    MeshConfigSpec,
    Metadata,
    PeerAuthenticationSpec,
    ServiceEntrySpec,
    WorkloadEntrySpec,
)
from mesh_discovery._shape import Finding, decode, differences
from mesh_discovery._validation import Spec, contradictions


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigObject:
    """A valid object and where it stands."""

    kind: str
    namespace: str
    name: str
    spec: Spec
    labels: tuple[tuple[str, str], ...] = ()
    created: str = ""
    """RFC 3339, empty when unknown; decides which of two equals is older."""
    file: str
    line: int

    @property
    def key(self) -> tuple[str, str, str]:
        """Kind, namespace and name: what must be unique."""
        return self.kind, self.namespace, self.name


@dataclass(frozen=True, slots=True)
class _Kind:
    group: str
    versions: tuple[str, ...]
    spec: type[Any]

    @property
    def api_versions(self) -> list[str]:
        return [f"{self.group}/{version}" for version in self.versions]


KINDS = {
    "ServiceEntry": _Kind("networking.istio.io", ("v1", "v1beta1", "v1alpha3"), ServiceEntrySpec),
    "WorkloadEntry": _Kind("networking.istio.io", ("v1", "v1beta1", "v1alpha3"), WorkloadEntrySpec),
    "PeerAuthentication": _Kind("security.istio.io", ("v1", "v1beta1"), PeerAuthenticationSpec),
    "MeshConfig": _Kind("mesh.istio.io", ("v1alpha1",), MeshConfigSpec),
}


@dataclass(frozen=True, slots=True)
class Read:
    """What became of a document: an object or problems, and notes on what has no effect."""

    item: ConfigObject | None
    problems: tuple[Problem, ...] = ()
    notes: tuple[Problem, ...] = ()


def read_object(document: Document, *, file: str) -> Read:
    """Make an object of a document with apiVersion, kind, metadata and spec."""
    reader = _Reader(document, file)
    value = document.value
    if not isinstance(value, dict):
        reader.add((), "expected an object with apiVersion, kind, metadata and spec")
        return reader.result()
    kind = reader.kind(value)
    for key in value:
        if key not in ("apiVersion", "kind", "metadata", "spec", "status"):
            reader.add((key,), "unknown field; known here: apiVersion, kind, metadata, spec")
    metadata = reader.metadata(value, needed=kind is not KINDS["MeshConfig"])
    if kind is None:
        return reader.result()
    spec = reader.spec(value.get("spec"), kind, ("spec",))
    if metadata is None or spec is None:
        return reader.result()
    return reader.result(_object(document, file, str(value["kind"]), metadata, spec))


def read_mesh_config(document: Document, *, file: str) -> Read:
    """Make a mesh config of Istio's bare mapping, or of a MeshConfig document."""
    if isinstance(document.value, dict) and "kind" in document.value:
        return read_object(document, file=file)
    reader = _Reader(document, file)
    spec = reader.spec(document.value, KINDS["MeshConfig"], ())
    if spec is None:
        return reader.result()
    metadata = Metadata(name="default")
    return reader.result(_object(document, file, "MeshConfig", metadata, spec))


def _object(
    document: Document, file: str, kind: str, metadata: Metadata, spec: Spec
) -> ConfigObject:
    return ConfigObject(
        kind=kind,
        namespace=metadata.namespace,
        name=metadata.name,
        spec=spec,
        labels=tuple(sorted(metadata.labels.items())),
        created=metadata.creation_timestamp or "",
        file=file,
        line=document.line,
    )


class _Reader:
    """Gathers what is wrong with one document."""

    def __init__(self, document: Document, file: str) -> None:
        self._document = document
        self._file = file
        self._problems: list[Problem] = []
        self._notes: list[Problem] = []

    def result(self, item: ConfigObject | None = None) -> Read:
        if self._problems:
            item = None
        return Read(item, tuple(self._problems), tuple(self._notes))

    def add(self, path: Path, message: str) -> None:
        self._problems.append(self._problem(path, message))

    def kind(self, value: dict[str, Value]) -> _Kind | None:
        name = value.get("kind")
        if name is None:
            self.add((), f"the field kind is missing; known kinds: {', '.join(sorted(KINDS))}")
            return None
        kind = KINDS.get(name) if isinstance(name, str) else None
        if kind is None:
            self.add(("kind",), f'unknown kind "{name}"; known kinds: {", ".join(sorted(KINDS))}')
            return None
        version = value.get("apiVersion")
        wanted = " or ".join(kind.api_versions)
        if version is None:
            self.add((), f"the field apiVersion is missing; for a {name} it is {wanted}")
        elif version not in kind.api_versions:
            self.add(("apiVersion",), f'a {name} has {wanted}, found "{version}"')
        return kind

    def metadata(self, value: dict[str, Value], *, needed: bool) -> Metadata | None:
        given = value.get("metadata")
        if given is None:
            if not needed:
                return Metadata(name="default")
            self.add((), "the field metadata is missing; it holds name and namespace")
            return None
        metadata: Metadata | None = self._decoded(given, Metadata, ("metadata",))
        return metadata

    def spec(self, value: Value, kind: _Kind, path: Path) -> Spec | None:
        if value is None:
            value = {}
        if kind.spec is MeshConfigSpec and isinstance(value, dict):
            value = self._without_ignored(value, path)
        spec: Spec | None = self._decoded(value, kind.spec, path)
        if spec is None:
            return None
        for inner, message in contradictions(spec):
            self.add(path + inner, message)
        return spec

    def _without_ignored(self, value: dict[str, Value], path: Path) -> dict[str, Value]:
        for key in value.keys() & IGNORED_MESH_FIELDS:
            self._notes.append(self._problem((*path, key), "has no effect in this control plane"))
        return {key: item for key, item in value.items() if key not in IGNORED_MESH_FIELDS}

    def _decoded(self, value: Value, shape: type[Any], path: Path) -> Any:
        findings: Iterator[Finding] = differences(value, shape, path)
        wrong = False
        for where, message in findings:
            wrong = True
            self.add(where, message)
        if wrong:
            return None
        try:
            return decode(value, shape)
        except msgspec.ValidationError as error:
            self.add(path, str(error))
            return None

    def _problem(self, path: Path, message: str) -> Problem:
        return Problem(
            file=self._file,
            line=self._document.line_of(path),
            field=field_name(path),
            message=message,
        )
