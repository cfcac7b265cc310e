"""Everything of the mesh that a translation asks for: services, namespaces, secrets.

The answers are kept, so that a later mesh that gives the same answers needs no new translation,
however else it differs.
"""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import NamedTuple, TypeAlias

from istio_config import ConfigObject
from istio_config.kinds.gateway_api import ReferenceGrantSpec
from mesh_model._services import Service
from mesh_model._visibility import HostOwners
from mesh_model.secrets import CONFIG_MAP, ROOTS_SUFFIX, KeyPair, Roots, SecretName, Secrets


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


Labels: TypeAlias = Mapping[str, str]
Key: TypeAlias = tuple[str, str]
"""A namespace, and a host or a name."""


class Backend(NamedTuple):
    """The host of a service and its ports."""

    host: str
    ports: tuple[int, ...]
    named: tuple[tuple[str, int], ...] = ()
    """The names of the ports with their numbers."""


Question: TypeAlias = tuple[str, str, str]
"""The kind of thing asked for, a namespace, and a host or a name."""


class MeshFacts:
    """The answers of one mesh to each question."""

    def __init__(
        self,
        *,
        services: Mapping[Key, Service],
        namespaces: Iterable[ConfigObject],
        secrets: Secrets,
        domain: str,
        owners: HostOwners,
    ) -> None:
        """Answer for these services, by namespace and host, Namespaces and Secrets."""
        self._services = services
        self._namespaces = tuple(namespaces)
        self._secrets = secrets
        self.domain = domain
        self._owners = owners

    def answers_alike(self, later: "MeshFacts") -> bool:
        """Tell at little cost whether another mesh answers all questions alike; in doubt not.

        Services whose endpoints alone differ answer alike.
        """
        old, new = self._services, later._services
        return (
            self.domain == later.domain
            and self._owners == later._owners
            and self._secrets is later._secrets
            and self._namespaces == later._namespaces
            and len(old) == len(new)
            and all(
                (was := old.get(key)) is each
                or (was is not None and (was.name, was.ports) == (each.name, each.ports))
                for key, each in new.items()
            )
        )

    def answer(self, question: Question) -> object:
        """Return the answer, which is compared with that of another mesh."""
        kind, namespace, name = question
        match kind:
            case "host":
                service = self._services.get((namespace, name)) or self._by_host.get(name)
                return _backend(service)
            case "entry":
                return _backend(self._by_name.get((namespace, name)))
            case "entries":
                found = (each for each in self._services.values() if each.name == name)
                return tuple(_backend(each) for each in found if each.namespace == namespace)
            case "owns":
                return self._owners.owns(namespace, name)
            case "labels":
                return {"kubernetes.io/metadata.name": namespace} | self._labels.get(namespace, {})
            case _:
                secret = self._secrets.find(SecretName(namespace, name, by_gateway=True))
                return isinstance(secret, KeyPair | Roots)

    @cached_property
    def _by_host(self) -> Mapping[str, Service]:
        return {each.host: each for each in reversed(tuple(self._services.values()))}

    @cached_property
    def _by_name(self) -> Mapping[Key, Service]:
        services = reversed(tuple(self._services.values()))
        return {(each.namespace, each.name): each for each in services}

    @cached_property
    def _labels(self) -> Mapping[str, dict[str, str]]:
        return {each.name: dict(each.labels) for each in self._namespaces}


class Answers:
    """The answers that a part of a translation is built with."""

    def __init__(self, domain: str) -> None:
        self._domain = domain
        self.given: dict[Question, object] = {}

    def hold_in(self, facts: MeshFacts) -> bool:
        """Return whether a mesh answers the same questions in the same way."""
        return self._domain == facts.domain and all(
            facts.answer(question) == answer for question, answer in self.given.items()
        )


class Surroundings:
    """Answers the questions about a mesh that a part of a translation has, and notes them."""

    def __init__(self, facts: MeshFacts) -> None:
        self._facts = facts
        self.answers = Answers(facts.domain)
        """Those given so far; they are kept beside the part, and the mesh is not."""

    @property
    def domain(self) -> str:
        """The DNS suffix of Kubernetes services."""
        return self._facts.domain

    def service(self, namespace: str, name: str) -> Backend | None:
        """Return a service by its Kubernetes name."""
        found = self._ask("host", namespace, f"{name}.{namespace}.svc.{self.domain}")
        return found if isinstance(found, Backend) else None

    def host(self, namespace: str, host: str) -> Backend | None:
        """Return a service by its host; that of the namespace if there are several."""
        found = self._ask("host", namespace, host)
        return found if isinstance(found, Backend) else None

    def entry(self, namespace: str, name: str) -> Backend | None:
        """Return the first service of a ServiceEntry."""
        found = self._ask("entry", namespace, name)
        return found if isinstance(found, Backend) else None

    def entries(self, namespace: str, name: str) -> tuple[Backend, ...]:
        """Return all services of a ServiceEntry."""
        found = self._ask("entries", namespace, name)
        return found if isinstance(found, tuple) else ()

    def has_roots(self, namespace: str, name: str, *, kind: str = "ConfigMap") -> bool:
        """Return whether there is a ConfigMap, or Secret, with certificates of authorities."""
        prefix = CONFIG_MAP if kind == "ConfigMap" else ""
        return bool(self._ask("secret", namespace, f"{prefix}{name}{ROOTS_SUFFIX}"))

    def labels(self, namespace: str) -> Labels:
        """Return the labels of a namespace."""
        found = self._ask("labels", namespace, "")
        return found if isinstance(found, dict) else {}

    def has_secret(self, namespace: str, name: str) -> bool:
        """Return whether there is a Secret with a certificate."""
        return bool(self._ask("secret", namespace, name))

    def owns(self, namespace: str, host: str) -> bool:
        """Return whether a host, or all hosts of a pattern, are a namespace's."""
        return bool(self._ask("owns", namespace, host))

    def _ask(self, kind: str, namespace: str, name: str) -> object:
        question = kind, namespace, name
        given = self.answers.given
        if question not in given:
            given[question] = self._facts.answer(question)
        return given[question]


def _backend(service: Service | None) -> Backend | None:
    if service is None:
        return None
    return Backend(
        service.host,
        tuple(port.number for port in service.ports),
        tuple((port.name, port.number) for port in service.ports),
    )
