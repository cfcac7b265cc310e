"""Everything of the mesh that a translation asks for: services, namespaces, secrets.

The answers are kept, so that a later mesh that gives the same answers needs no new translation,
however else it differs.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import NamedTuple, TypeAlias

from mesh_discovery.config._objects import ConfigObject
from mesh_discovery.model._services import Service

Labels: TypeAlias = Mapping[str, str]
Key: TypeAlias = tuple[str, str]
"""A namespace, and a host or a name."""


class Backend(NamedTuple):
    """The host of a service and the numbers of its ports."""

    host: str
    ports: tuple[int, ...]


Question: TypeAlias = tuple[str, str, str]
"""The kind of thing asked for, a namespace, and a host or a name."""


class MeshFacts:
    """The answers of one mesh to each question."""

    def __init__(
        self,
        *,
        services: Mapping[Key, Service],
        namespaces: Iterable[ConfigObject] = (),
        has_secret: Callable[[str, str], bool] | None = None,
        domain: str = "cluster.local",
    ) -> None:
        """Answer for these services, by namespace and host, and Namespaces.

        has_secret: tells whether a Secret, by namespace and name, holds a certificate; None: that
        is not known, and every Secret is taken to be there.
        """
        self._services = services
        self._namespaces = tuple(namespaces)
        self._has_secret = has_secret
        self.domain = domain

    def answer(self, question: Question) -> object:
        """Return the answer, which is compared with that of another mesh."""
        kind, namespace, name = question
        match kind:
            case "host":
                service = self._services.get((namespace, name)) or self._by_host.get(name)
                return _backend(service)
            case "entry":
                return _backend(self._by_name.get((namespace, name)))
            case "labels":
                return {"kubernetes.io/metadata.name": namespace} | self._labels.get(namespace, {})
            case _:
                return self._has_secret is None or self._has_secret(namespace, name)

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


class Surroundings:
    """Answers a translation's questions about one mesh, and remembers them."""

    def __init__(self, facts: MeshFacts) -> None:
        self._facts = facts
        self._asked: dict[Question, object] = {}

    @property
    def domain(self) -> str:
        """The DNS suffix of Kubernetes services."""
        return self._facts.domain

    def apart(self) -> "Surroundings":
        """Return the same surroundings, with no question asked so far."""
        return Surroundings(self._facts)

    def gives_the_same(self, later: "Surroundings") -> bool:
        """Tell whether another mesh answers all questions asked here as this one did."""
        facts = later._facts
        return self.domain == facts.domain and all(
            facts.answer(question) == answer for question, answer in self._asked.items()
        )

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

    def labels(self, namespace: str) -> Labels:
        """Return the labels of a namespace."""
        found = self._ask("labels", namespace, "")
        return found if isinstance(found, dict) else {}

    def has_secret(self, namespace: str, name: str) -> bool:
        """Tell whether there is a Secret with a certificate."""
        return bool(self._ask("secret", namespace, name))

    def _ask(self, kind: str, namespace: str, name: str) -> object:
        question = kind, namespace, name
        if question not in self._asked:
            self._asked[question] = self._facts.answer(question)
        return self._asked[question]


def _backend(service: Service | None) -> Backend | None:
    if service is None:
        return None
    return Backend(service.host, tuple(port.number for port in service.ports))
