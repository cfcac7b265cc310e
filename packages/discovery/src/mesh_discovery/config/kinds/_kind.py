"""A kind of configuration object: how its documents are recognised, read and validated."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from mesh_configfile import FieldPath, Value
from mesh_configfile.shapes import Finding, decode, differences

SpecT = TypeVar("SpecT", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Generic[SpecT]):
    """One of Istio's kinds."""

    name: str
    group: str
    versions: tuple[str, ...]
    spec: type[SpecT]
    validate: Callable[[SpecT], Iterator[Finding]]
    """Yields what must hold between fields and does not; paths start below `spec`."""
    unsupported: tuple[tuple[FieldPath, str], ...] = ()
    """Choices that Istio has and this control plane has not yet: the field and its value."""

    @property
    def api_versions(self) -> list[str]:
        """Return what `apiVersion` may say."""
        return [f"{self.group}/{version}" for version in self.versions]

    def read(self, value: Value, path: FieldPath) -> tuple[SpecT | None, list[Finding]]:
        """Read a spec; the findings are all that is wrong with it.

        How fields go together is looked at once each of them is right.
        """
        spec, findings = decoded(value, self.spec, path)
        if spec is not None:
            findings = [(path + inner, message) for inner, message in self.validate(spec)]
        return spec, findings

    def unsupported_values(self, spec: Value) -> Iterator[tuple[FieldPath, str]]:
        """Yield the choices in a spec that only Istio has, with their paths."""
        for path, choice in self.unsupported:
            value = spec
            for key in path:
                value = value.get(str(key)) if isinstance(value, dict) else None
            if value == choice:
                yield path, choice


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
