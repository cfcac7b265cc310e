"""A kind of configuration object: how its documents are recognised, read and validated."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

from mesh_configfile import FieldPath, Value
from mesh_configfile.shapes import Finding, decode, differences
from mesh_discovery.config.kinds._metadata import Metadata

SpecT = TypeVar("SpecT", bound=msgspec.Struct)


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
    warn: Callable[[SpecT, Metadata], Iterator[Finding]] = _nothing
    """Yields what is accepted as it is and hardly meant so; paths start below the body."""
    lacks: Callable[[SpecT, Metadata], Iterator[Finding]] = _nothing
    """Yields what is valid and not supported, as `NAME is not supported yet`: mistakes, unless they
    are let pass; paths start below the body."""
    body: Body = Body.SPEC
    status: type[msgspec.Struct] | None = None
    """The fields of `status` that are read, if any."""
    is_single: bool = False
    """Whether a mesh has one object of this kind, which needs no name."""

    @property
    def api_versions(self) -> list[str]:
        """Return what `apiVersion` may say."""
        prefix = f"{self.group}/" if self.group else ""
        return [f"{prefix}{version}" for version in self.versions]

    def read(
        self, value: Value, path: FieldPath, metadata: Metadata
    ) -> tuple[SpecT | None, list[Finding], list[Finding]]:
        """Read a spec; return what is wrong with it, and the warnings.

        How fields go together is looked at once each of them is right.
        """
        spec, findings = decoded(value, self.spec, path)
        warnings: list[Finding] = []
        if spec is not None:
            findings = [(path + inner, text) for inner, text in self.validate(spec, metadata)]
            if not findings:
                warnings = [(path + inner, text) for inner, text in self.warn(spec, metadata)]
        return spec, findings, warnings


def decoded(
    value: Value, fields: type[SpecT], path: FieldPath
) -> tuple[SpecT | None, list[Finding]]:
    """Make a struct of plain data, or name every field that is wrong.

    msgspec stops at the first mistake, so the data is compared with the struct before.
    """
    findings = list(differences(value, fields, path))
    if findings:
        return None, findings
    try:
        return decode(value, fields), []
    except msgspec.ValidationError as error:
        return None, [(path, str(error))]
