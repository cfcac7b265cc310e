"""Reads one YAML document as a typed configuration object, or names every mistake in it."""

from dataclasses import dataclass, replace
from typing import TypeAlias

import msgspec

from istio_config._origins import InFile, Origin
from istio_config._seniority import BY_NAME
from istio_config.documents import mesh_config_in, metadata_mistakes
from istio_config.kinds.kind import Body, decoded
from istio_config.kinds.mesh_config import (
    AGENT_FIELDS,
    DEFAULT_CONFIG_FIELDS,
    MESH_CONFIG,
    MESH_FIELDS,
    proxy_metadata_mistakes,
)
from istio_config.kinds.metadata import Metadata
from istio_config.kinds.registry import KIND_NAMES, KINDS, AnyKind, find_kind
from istio_config.kinds.service_entry import SERVICE_ENTRY
from istio_config.kinds.unread_kinds import (
    FOREIGN,
    is_foreign_kind,
    unserved_kind,
)
from mesh_configfile import Document, FieldPath, Problem, Value, field_name, suggestion
from mesh_configfile.mending import mended, restored
from mesh_configfile.shapes import Finding, decode

ObjectKey: TypeAlias = tuple[str, str, str, str]
"""Kind with its group, namespace, name, cluster. All objects of a single kind have the same key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigObject:
    """A valid object, and where it comes from."""

    kind: str
    namespace: str
    name: str
    spec: msgspec.Struct
    """The struct of its kind; `isinstance` tells which."""
    group: str = ""
    """The API group, such as networking.istio.io; empty for Kubernetes' core."""
    labels: tuple[tuple[str, str], ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()
    status: msgspec.Struct | None = None
    """The fields of `status` that its kind reads."""
    is_ending: bool = False
    """Whether it is deleted and not gone yet, as a pod that still has its grace period."""
    created: str = ""
    """Its age as a text that sorts; empty for the youngest.

    The age of an object in a file follows from its namespace and its date (`_seniority`).
    """
    origin: Origin
    lines: tuple[tuple[FieldPath, int], ...] = ()
    """The lines of fields that can conflict with another object's, counted from its own line."""
    unread: tuple[FieldPath, ...] = ()
    """In the rest of an object with mistakes: the fields that differ from the document."""
    left_out: tuple[FieldPath, ...] = ()
    """In such a rest: the items of lists that were left out."""

    @property
    def seniority(self) -> tuple[str, str, str, str, str]:
        """A key that sorts the oldest first, then by name and namespace, as Istio breaks ties.

        Undated ones are youngest.
        """
        return self.created or "9999", self.name, self.namespace, self.kind, self.origin.cluster

    @property
    def file(self) -> str:
        """The name of its file; of an object in no file the store, and the object."""
        if isinstance(self.origin, InFile):
            return self.origin.file
        return f"{self.origin.store}: {self.kind} {self.full_name}"

    @property
    def full_name(self) -> str:
        """Namespace and name, as messages have them; the name alone of what is in no namespace."""
        kind = KINDS.get((self.group, self.kind))
        if kind is not None and kind.is_cluster_scoped:
            return self.name
        return f"{self.namespace}/{self.name}"

    @property
    def line(self) -> int:
        """The line of the file on which it begins; 0 for what is in none."""
        return self.origin.line if isinstance(self.origin, InFile) else 0

    @property
    def place(self) -> str:
        """File and line for messages, or what stands for them."""
        return self.problem((), "").place

    def problem(self, path: FieldPath, message: str, code: str = "") -> Problem:
        """Return the problem of a field, with its line or that of the nearest field around it.

        code: what Istio's analyzers call the like.
        """
        path = restored(path, self.left_out) if self.left_out else path
        lines, around = dict(self.lines), path
        while around and around not in lines:
            around = around[:-1]
        return Problem(
            file=self.file,
            line=self.line + (lines.get(around, 0) if self.line else 0),
            field=field_name(path),
            message=message,
            code=code,
        )

    def moved(self, by: int) -> "ConfigObject":
        """Return the object with a line that is so many lines further down."""
        return replace(self, origin=self.origin.moved(by))

    @property
    def key(self) -> ObjectKey:
        """The key that no other object may have."""
        return f"{self.kind}.{self.group}", self.namespace, self.name, self.origin.cluster


@dataclass(frozen=True, slots=True)
class Read:
    """The result of reading a document: an object or problems.

    rest: what is right in an object with problems, as an object that is valid by itself; it is
    checked against others, and never served. notes: on fields without effect. warnings: on fields
    with an effect that is probably not meant.
    """

    item: ConfigObject | None
    problems: tuple[Problem, ...] = ()
    rest: ConfigObject | None = None
    notes: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    document: Document | None = None
    """What was read, if lines are kept: a check looks into it again."""
    stops_itself: bool = False
    """Whether problems stop this object alone, and not the start of a control plane."""

    def moved(self, by: int) -> "Read":
        """Return the same for a document that is so many lines further down."""
        return Read(
            item=self.item.moved(by) if self.item is not None else None,
            problems=tuple(replace(each, line=each.line + by) for each in self.problems),
            rest=self.rest.moved(by) if self.rest is not None else None,
            notes=tuple(replace(each, line=each.line + by) for each in self.notes),
            warnings=tuple(replace(each, line=each.line + by) for each in self.warnings),
            stops_itself=self.stops_itself,
        )


def read_object(
    document: Document, *, allow_unsupported: bool = False, keep_lines: bool = False
) -> Read:
    """Make an object of a document with apiVersion, kind, metadata and spec.

    allow_unsupported: fields and choices that only Istio has are noted, instead of being mistakes.
    keep_lines: the object knows the lines of all its fields.
    """
    reader = _Reader(document, allow_unsupported=allow_unsupported, keep_lines=keep_lines)
    value = document.value
    if not isinstance(value, dict):
        reader.add((), "expected an object with apiVersion, kind, metadata and spec")
        return reader.result()
    if "kind" not in value and isinstance(value.get("workloads"), list):
        reader.add(
            (), f"is a file of mesh-local, which checks it: mesh-local check {document.file}"
        )
        return reader.result()
    passing = unserved_kind(value.get("apiVersion"), value.get("kind")) or _foreign_kind(value)
    if passing:
        reader.let_pass(passing)
        return reader.result()
    kind = reader.kind(value)
    whole = kind is not None and kind.body is Body.DOCUMENT
    for key in () if whole else value:
        if key not in ("apiVersion", "kind", "metadata", "spec", "status"):
            reader.add((key,), "unknown field; known here: apiVersion, kind, metadata, spec")
    metadata = reader.metadata(value, kind)
    if kind is None:
        return reader.result()
    if whole:
        fields = {key: each for key, each in value.items() if key not in _OF_EVERY_OBJECT}
        spec = reader.spec(fields, kind, (), metadata)
    else:
        spec = reader.spec(value.get("spec"), kind, ("spec",), metadata)
    status = reader.status(value.get("status"), kind)
    return reader.result(kind, metadata, spec, status)


def read_single(
    document: Document,
    kind: AnyKind = MESH_CONFIG,
    *,
    allow_unsupported: bool = False,
    keep_lines: bool = False,
) -> Read:
    """Read a document of a single kind, which Istio writes as a mapping without kind and metadata.

    A document that names a kind is read as any other; but where a mesh config is asked for, that
    of an IstioOperator is read.
    """
    if kind is MESH_CONFIG:
        document = mesh_config_in(document)
    if isinstance(document.value, dict) and "kind" in document.value:
        return read_object(document, allow_unsupported=allow_unsupported, keep_lines=keep_lines)
    reader = _Reader(document, allow_unsupported=allow_unsupported, keep_lines=keep_lines)
    metadata = Metadata(name="default")
    return reader.result(kind, metadata, reader.spec(document.value, kind, (), metadata))


_OF_EVERY_OBJECT = ("apiVersion", "kind", "metadata")
_NAMES_OF_A_MESH = frozenset(KIND_NAMES)


def _foreign_kind(value: dict[str, Value]) -> str:
    """Return what is said of an object that means nothing to a mesh; "" for all others."""
    version, name = value.get("apiVersion"), value.get("kind")
    if not isinstance(version, str) or not isinstance(name, str):
        return ""
    group = version.rpartition("/")[0]
    if not is_foreign_kind(group, name, known=_NAMES_OF_A_MESH):
        return ""
    return f"{name}.{group} {FOREIGN}" if group else f"{name} {FOREIGN}"


def _lines(document: Document) -> tuple[tuple[FieldPath, int], ...]:
    """Return the lines of the fields that `_CONFLICTING` names; all would take much memory."""
    return tuple(
        (path, line - document.line)
        for path, line in document.lines()
        if path[:1] == ("spec",)
        and (len(path) == 1 or (len(path) <= 3 and path[1] in _CONFLICTING))
    )


_CONFLICTING = ("addresses", "hosts", "ports", "resolution")


class _Reader:
    """Gathers every mistake in one document."""

    def __init__(self, document: Document, *, allow_unsupported: bool, keep_lines: bool) -> None:
        self._document = document
        self._allow_unsupported = allow_unsupported
        self._keep_lines = keep_lines
        self._unread: list[FieldPath] = []
        """The fields with mistakes, which the metadata and the spec were read without."""
        self._left_out: tuple[FieldPath, ...] = ()
        self._problems: list[Problem] = []
        self._notes: list[Problem] = []
        self._warnings: list[Problem] = []

    def result(
        self,
        kind: AnyKind | None = None,
        metadata: Metadata | None = None,
        spec: msgspec.Struct | None = None,
        status: msgspec.Struct | None = None,
    ) -> Read:
        """Return what was read; where there are problems, the object is the `rest`."""
        found: ConfigObject | None = None
        if kind is not None and metadata is not None and spec is not None:
            found = self._object(kind, metadata, spec, status)
        problems = tuple(self._problems)
        return Read(
            item=None if problems else found,
            problems=problems,
            rest=found if problems else None,
            notes=tuple(self._notes),
            warnings=tuple(self._warnings),
            document=self._document if self._keep_lines else None,
            stops_itself=kind is not None and kind.stops_itself,
        )

    def _object(
        self,
        kind: AnyKind,
        metadata: Metadata,
        spec: msgspec.Struct,
        status: msgspec.Struct | None,
    ) -> ConfigObject:
        document = self._document
        lines: tuple[tuple[FieldPath, int], ...] = ()
        if self._keep_lines:
            lines = tuple((path, line - document.line) for path, line in document.lines())
        elif kind is SERVICE_ENTRY:
            lines = _lines(document)
        return ConfigObject(
            kind=kind.name,
            group=kind.group,
            namespace=metadata.namespace,
            name=metadata.name,
            spec=spec,
            status=status,
            labels=tuple(sorted(metadata.labels.items())),
            annotations=tuple(sorted(metadata.annotations.items())),
            is_ending=metadata.deletion_timestamp is not None,
            created=BY_NAME.age(metadata.namespace, metadata.creation_timestamp or ""),
            origin=InFile(document.file, document.line),
            lines=lines,
            unread=tuple(self._unread),
            left_out=self._left_out,
        )

    def add(self, path: FieldPath, message: str) -> None:
        self._problems.append(self._document.problem(path, message))

    def unsupported(self, path: FieldPath, message: str) -> None:
        """Note a kind or a choice that only Istio has, or make it a mistake."""
        if self._allow_unsupported:
            self._note(path, f"{message}: let pass, without effect")
        else:
            self.add(path, f"{message}; remove it, or let it pass with --allow-unsupported")

    def let_pass(self, message: str) -> None:
        """Note a kind of objects that no proxy is given anything of."""
        self._note(("kind",), message)

    def kind(self, value: dict[str, Value]) -> AnyKind | None:
        name = value.get("kind")
        if name is None:
            self.add((), f"the field kind is missing; known kinds: {', '.join(KIND_NAMES)}")
            return None
        version = value.get("apiVersion")
        group = version if isinstance(version, str) else ""
        kind = find_kind(group, name) if isinstance(name, str) else None
        if kind is None:
            self.add(("kind",), f'unknown kind "{name}"{suggestion(str(name), KIND_NAMES)}')
            return None
        wanted = " or ".join(kind.api_versions)
        if version is None:
            self.add((), f"the field apiVersion is missing; for a {name} it is {wanted}")
        elif version not in kind.api_versions:
            self.add(("apiVersion",), f'a {name} has {wanted}, found "{version}"')
        return kind

    def metadata(self, value: dict[str, Value], kind: AnyKind | None) -> Metadata | None:
        given = value.get("metadata")
        if given is None:
            if kind is not None and kind.is_single:
                return Metadata(name="default")
            self.add((), "the field metadata is missing; it holds name and namespace")
            return None
        if isinstance(given, dict):  # as tools write it: null is no value in metadata
            given = {key: each for key, each in given.items() if each is not None}
        metadata, findings = decoded(given, Metadata, ("metadata",))
        self._add_all(findings)
        if metadata is None and (near := mended(given, Metadata, ("metadata",))) is not None:
            metadata = decode(near.value, Metadata)
            self._unread += near.unread
        if metadata is not None:
            self._add_all(list(metadata_mistakes(metadata, kind)))
        return metadata

    def status(self, value: Value, kind: AnyKind) -> msgspec.Struct | None:
        """Read the status, if the kind has one that matters here."""
        if value is None or kind.status is None:
            return None
        status, findings = decoded(value, kind.status, ("status",))
        self._add_all(findings)
        return status

    def spec(
        self, value: Value, kind: AnyKind, path: FieldPath, metadata: Metadata | None
    ) -> msgspec.Struct | None:
        """Read a spec; return what is right in it, None if nothing is."""
        if value is None:
            value = {}
        if kind is MESH_CONFIG and isinstance(value, dict):
            value = self._without_unused(value, path)
        known = metadata if metadata is not None else Metadata(name="unknown")
        body = kind.read(value, path, known)
        self._add_all(body.mistakes)
        self._unread += body.unread
        self._left_out = body.left_out
        for inner, message, code in body.warnings:
            self._warnings.append(self._document.problem(inner, message, code))
        for inner, message in body.lacks:
            self.unsupported(inner, message)
        spec: msgspec.Struct | None = body.spec if body.spec is not None else body.rest
        return spec

    def _without_unused(self, value: dict[str, Value], path: FieldPath) -> dict[str, Value]:
        """Leave out the mesh config's fields that nothing here reads, and note them."""
        for key in sorted(value.keys() & MESH_FIELDS):
            self._note((*path, key), "not supported yet: has no effect in this control plane")
        agents = value.get("defaultConfig")
        agents = agents if isinstance(agents, dict) else {}
        for key in agents:
            here = (*path, "defaultConfig", key)
            if key == "proxyMetadata":
                self._add_all(list(proxy_metadata_mistakes(agents[key], here)))
            if key in AGENT_FIELDS:
                self._note(here, "has no effect here: agents read it from their own settings")
            elif key not in DEFAULT_CONFIG_FIELDS:
                known = (*AGENT_FIELDS, *DEFAULT_CONFIG_FIELDS)
                self.add(here, f"unknown field{suggestion(key, known, listed=False)}")
        used = {key: item for key, item in value.items() if key not in MESH_FIELDS}
        if isinstance(value.get("defaultConfig"), dict):
            used["defaultConfig"] = {
                key: item for key, item in agents.items() if key in DEFAULT_CONFIG_FIELDS
            }
        if used.get("proxyHttpPort") == 0:  # Istio's way to say that there is none
            del used["proxyHttpPort"]
        return used

    def _note(self, path: FieldPath, message: str) -> None:
        self._notes.append(self._document.problem(path, message))

    def _add_all(self, findings: list[Finding]) -> None:
        for path, message in findings:
            self.add(path, message)
