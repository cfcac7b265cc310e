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
    only_port: int | None = None
    """The port that is meant where none is named."""
    stands_for: str = ""
    """Of a service of type ExternalName: the host of the service in the mesh that has the ports."""


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
                or (was is not None and _answered_by(was) == _answered_by(each))
                for key, each in new.items()
            )
        )

    def answer(self, question: Question) -> object:
        """Return the answer, which is compared with that of another mesh."""
        kind, namespace, name = question
        match kind:
            case "host" | "alias":
                return self._of_host(kind, (namespace, name))
            case "entry":
                return _found(self._by_name.get((namespace, name)))
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

    def _of_host(self, kind: str, key: Key) -> Backend | None:
        if kind == "alias":
            return self._aliases.get(key) or self._aliases_by_host.get(key[1])
        return _found(self._services.get(key) or self._by_host.get(key[1]))

    @cached_property
    def _aliases(self) -> Mapping[Key, Backend]:
        found: dict[Key, Backend] = {}
        for service in self._services.values():
            ports = dict(service.alias_ports)
            target = _backend(service)
            for namespace, host in service.aliases:
                found[namespace, host] = target._replace(
                    host=host, only_port=ports.get(host, target.only_port), stands_for=service.host
                )
        return found

    @cached_property
    def _aliases_by_host(self) -> Mapping[str, Backend]:
        return {each.host: each for each in reversed(tuple(self._aliases.values()))}

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

    def alias(self, namespace: str, name: str) -> Backend | None:
        """Return a service of type ExternalName that stands for another, by its Kubernetes name."""
        return self.alias_of_host(namespace, f"{name}.{namespace}.svc.{self.domain}")

    def alias_of_host(self, namespace: str, host: str) -> Backend | None:
        """Return such a service by its host; that of the namespace if there are several."""
        found = self._ask("alias", namespace, host)
        return found if isinstance(found, Backend) else None

    def why_absent(self, kind: str, namespace: str, name: str) -> str:
        """Return, as a sentence, why no Service or ServiceEntry of this name was found."""
        found = self.alias(namespace, name) if kind == "Service" else None
        if found is None:
            return f"there is no {kind} {namespace}/{name}"
        return (
            f"Service {namespace}/{name} is of type ExternalName and stands for "
            f"{found.stands_for}: name that service"
        )

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


def _found(service: Service | None) -> Backend | None:
    return _backend(service) if service is not None else None


def _backend(service: Service) -> Backend:
    ports = tuple(port.number for port in service.ports)
    return Backend(
        service.host,
        ports,
        tuple((port.name, port.number) for port in service.ports),
        only_port=ports[0] if len(ports) == 1 else None,
    )


def _answered_by(service: Service) -> tuple[object, ...]:
    """Return the parts of a service that answers are built from."""
    return service.name, service.ports, service.aliases, service.alias_ports
