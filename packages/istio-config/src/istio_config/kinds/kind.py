"""A kind of configuration object: how its documents are recognised, read and validated."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeAlias, TypeVar

import msgspec

from istio_config.kinds._extras import MissingExtraError
from istio_config.kinds.metadata import Metadata
from mesh_configfile import FieldPath, Value
from mesh_configfile.mending import Reduced, touches
from mesh_configfile.shapes import Finding, decode, differences

SpecT = TypeVar("SpecT", bound=msgspec.Struct)
Coded: TypeAlias = tuple[FieldPath, str, str]
"""A finding, and what Istio's analyzers call the like."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBody(Generic[SpecT]):
    """The body of a document: a spec, or mistakes and what is right beside them.

    spec: None if there are mistakes. rest: then a valid spec of all that is right, if there is any.
    unread: the fields that differ in it from the document, or were invented for it. left_out: the
    items of lists that it lacks. lacks: what is valid and not supported. Paths are those of the
    document.
    """

    spec: SpecT | None = None
    mistakes: list[Finding] = field(default_factory=list)
    rest: SpecT | None = None
    unread: tuple[FieldPath, ...] = ()
    left_out: tuple[FieldPath, ...] = ()
    warnings: list[Coded] = field(default_factory=list)
    """Each with the code of Istio's analyzers, if they have one."""
    lacks: list[Finding] = field(default_factory=list)


class Body(StrEnum):
    """Where the fields of a kind stand in its documents."""

    SPEC = "spec"
    DOCUMENT = "document"
    """Beside `metadata`, as in Kubernetes' Endpoints; the struct has `spec` too if there is one."""


def _nothing(_spec: msgspec.Struct, _metadata: Metadata) -> Iterator[Finding]:
    return iter(())


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Generic[SpecT]):
    """One kind of objects, of Istio's or of Kubernetes'."""

    name: str
    group: str
    versions: tuple[str, ...]
    spec: type[SpecT]
    validate: Callable[[SpecT, Metadata], Iterator[Finding]] = _nothing
    """Yields what must hold between fields and does not; paths start below the body."""
    warn: Callable[[SpecT, Metadata], Iterator[Finding | Coded]] = _nothing
    """Yields what is accepted and probably not meant; paths start below the body."""
    lacks: Callable[[SpecT, Metadata], Iterator[Finding]] = _nothing
    """Yields what is valid and not supported, as `NAME is not supported yet`: mistakes, unless they
    are let pass; paths start below the body."""
    body: Body = Body.SPEC
    status: type[msgspec.Struct] | None = None
    """The fields of `status` that are read, if any."""
    is_single: bool = False
    """Whether a mesh has one object of this kind at most, which needs no name."""

    stops_itself: bool = False
    """Whether an object with mistakes is left out by itself where it has never been right, so that
    a control plane starts without it; of other kinds it would be missing from what it decides."""
    is_cluster_scoped: bool = False
    """Whether its objects are in no namespace."""

    @property
    def api_versions(self) -> list[str]:
        """Return what `apiVersion` may say."""
        prefix = f"{self.group}/" if self.group else ""
        return [f"{prefix}{version}" for version in self.versions]

    def read(self, value: Value, path: FieldPath, metadata: Metadata) -> ReadBody[SpecT]:
        """Read the body of a document; paths of what is found begin with `path`.

        Fields beside wrong ones are checked too, also against each other. What only follows from
        another mistake is no finding.
        """
        spec, mistakes = decoded(value, self.spec, path)
        if spec is not None and not (found := list(_findings(self.validate, spec, metadata))):
            return ReadBody(
                spec=spec,
                warnings=_coded_below(path, _findings(self.warn, spec, metadata)),
                lacks=_below(path, self.lacks(spec, metadata)),
            )
        reduced = Reduced(value)
        if spec is None:
            if not reduced.mend(self.spec):
                return ReadBody(mistakes=mistakes)
            unread, values = tuple(reduced.unread), tuple(reduced.values)
            spec = decode(reduced.value, self.spec)
            found = [
                each
                for each in _findings(self.validate, spec, metadata)
                if not touches(each[0], unread) and not _is_beside(each[0], values)
            ]
        mistakes += _below(path, found)
        rest = self._without_mistakes(reduced, metadata)
        if rest is None:
            return ReadBody(mistakes=mistakes)
        warnings = [
            each
            for each in _untouched(reduced, _findings(self.warn, rest, metadata))
            if not _is_beside(each[0], reduced.values)
            and not _is_behind_a_match(each[0], reduced.unread)
        ]
        return ReadBody(
            mistakes=mistakes,
            rest=rest,
            unread=tuple(path + each for each in reduced.unread),
            left_out=tuple(path + each for each in reduced.left_out),
            warnings=_coded_below(path, warnings),
            lacks=_below(path, reduced.untouched(self.lacks(rest, metadata))),
        )

    def _without_mistakes(self, reduced: Reduced, metadata: Metadata) -> SpecT | None:
        """Return a valid spec of what is right in one that can be decoded.

        A wrong field is left out; if that does not help, what is around it. None if nothing valid
        remains.
        """
        while reduced.mend(self.spec):
            spec = decode(reduced.value, self.spec)
            found = next(_findings(self.validate, spec, metadata), None)
            if found is None:
                return spec
            if not reduced.leave_out(found[0]):
                return None
        return None


_F = TypeVar("_F")


def _findings(
    find: Callable[[SpecT, Metadata], Iterator[_F]], spec: SpecT, metadata: Metadata
) -> Iterator[_F | Finding]:
    """Yield what a rule finds; where it needs a library that is not installed, yield that."""
    try:
        yield from find(spec, metadata)
    except MissingExtraError as error:
        yield (), str(error)


def decoded(
    value: Value, fields: type[SpecT], path: FieldPath
) -> tuple[SpecT | None, list[Finding]]:
    """Decode plain data as a struct, or return every mistake in it.

    msgspec stops at the first mistake, so the data is compared with the struct first.
    """
    findings = list(differences(value, fields, path))
    if findings:
        return None, findings
    try:
        return decode(value, fields), []
    except msgspec.ValidationError as error:
        return None, [(path, str(error))]


def _is_beside(path: FieldPath, values: Iterable[FieldPath]) -> bool:
    """Return whether a value beside this field was not read, by which it may be right or wrong."""
    return any(path[:-1] == each[:-1] for each in values)


def _is_behind_a_match(path: FieldPath, unread: Iterable[FieldPath]) -> bool:
    """Return whether a field is in a route behind one with a match that was not read.

    Without its match the earlier route takes all requests, and the later ones seem unreachable.
    """
    for each in unread:
        at = each.index(_MATCH) - 1 if _MATCH in each[1:] else 0
        if (
            at > 0
            and len(path) > at
            and path[:at] == each[:at]
            and _index(path[at]) > _index(each[at])
        ):
            return True
    return False


def _index(part: str | int) -> int:
    return part if isinstance(part, int) else -1


_MATCH = "match"


def _coded(found: Iterable[Finding | Coded]) -> Iterator[Coded]:
    for each in found:
        path, message, *code = each
        yield path, message, "".join(code)


def _untouched(reduced: Reduced, found: Iterable[Finding | Coded]) -> Iterator[Coded]:
    for path, message, code in _coded(found):
        for place, text in reduced.untouched([(path, message)]):
            yield place, text, code


def _coded_below(path: FieldPath, found: Iterable[Finding | Coded]) -> list[Coded]:
    return [(path + inner, text, code) for inner, text, code in _coded(found)]


def _below(path: FieldPath, found: Iterable[Finding]) -> list[Finding]:
    return [(path + inner, text) for inner, text in found]
