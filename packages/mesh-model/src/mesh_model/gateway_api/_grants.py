"""References between namespaces, which the namespace that is referred to has to grant."""

from collections.abc import Iterable
from typing import NamedTuple

from istio_config import ConfigObject
from istio_config.kinds.gateway_api import ReferenceGrantSpec


class Referrer(NamedTuple):
    """The object that refers."""

    group: str
    kind: str
    namespace: str


class Target(NamedTuple):
    """The object that is referred to."""

    group: str
    kind: str
    namespace: str
    name: str


class Grants:
    """All ReferenceGrants."""

    def __init__(self, objects: Iterable[ConfigObject]) -> None:
        self._named: set[tuple[Referrer, Target]] = set()
        self._whole: set[tuple[Referrer, str, str, str]] = set()
        for each in objects:
            if isinstance(each.spec, ReferenceGrantSpec):
                self._add(each.namespace, each.spec)

    def _add(self, namespace: str, spec: ReferenceGrantSpec) -> None:
        for source in spec.from_:
            referrer = Referrer(source.group, source.kind, source.namespace)
            for to in spec.to:
                if to.name:
                    self._named.add((referrer, Target(to.group, to.kind, namespace, to.name)))
                else:
                    self._whole.add((referrer, to.group, to.kind, namespace))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Grants)
            and self._named == other._named
            and self._whole == other._whole
        )

    def __hash__(self) -> int:
        return hash((frozenset(self._named), frozenset(self._whole)))

    def allow(self, referrer: Referrer, target: Target) -> bool:
        """Return whether a reference is allowed; inside a namespace all are."""
        return (
            referrer.namespace == target.namespace
            or (referrer, target) in self._named
            or (referrer, *target[:3]) in self._whole
        )
