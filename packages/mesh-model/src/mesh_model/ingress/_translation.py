"""All Ingresses of a mesh, as Gateways and VirtualServices of Istio's.

A translation is kept while neither the Ingresses and their classes change, nor the settings,
services and Secrets that it looked at.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from istio_config import ConfigObject, Snapshot
from istio_config.kinds.ingress import INGRESS, INGRESS_CLASS, IngressClassSpec, IngressSpec
from mesh_configfile import Problem
from mesh_model._services import Service
from mesh_model._visibility import HostOwners
from mesh_model.ingress._classes import IngressSettings, not_served
from mesh_model.ingress._routes import Backends, virtual_services_of
from mesh_model.ingress._servers import Certificates, ServedIngress, gateway_of, secret_warnings
from mesh_model.secrets import Secrets


@dataclass(frozen=True, kw_only=True, eq=False)
class IngressFacts:
    """The things of a mesh that Ingresses depend on, beside themselves."""

    settings: IngressSettings
    services: Mapping[tuple[str, str], Service]
    """By namespace and host."""
    secrets: Secrets
    domain: str
    owners: HostOwners

    def says_the_same_as(self, before: "IngressFacts") -> bool:
        """Return whether two meshes give the same translation, at little cost; in doubt not."""
        old, new = before.services, self.services
        return (
            (self.settings, self.domain) == (before.settings, before.domain)
            and self.owners == before.owners
            and self.secrets is before.secrets
            and len(old) == len(new)
            and all(
                (was := old.get(key)) is each or (was is not None and was.ports == each.ports)
                for key, each in new.items()
            )
        )


@dataclass(frozen=True, kw_only=True)
class Ingresses:
    """A translation; `of_mesh` makes it."""

    gateways: tuple[ConfigObject, ...] = ()
    """Istio's Gateways, one for each Ingress that is served."""
    virtual_services: tuple[ConfigObject, ...] = ()
    """One for each host."""
    warnings: tuple[Problem, ...] = ()
    """What has no effect, with its file."""
    objects: tuple[ConfigObject, ...] = field(default=(), repr=False)
    facts: IngressFacts | None = field(default=None, repr=False)

    @classmethod
    def of_mesh(
        cls, snapshot: Snapshot, facts: IngressFacts, before: "Ingresses | None" = None
    ) -> "Ingresses":
        """Translate the Ingresses of a snapshot; before: the translation that was served."""
        ingresses = snapshot.of_kind(INGRESS)
        if not ingresses:
            return NO_INGRESSES
        classes = snapshot.of_kind(INGRESS_CLASS)
        objects = (*ingresses, *classes)
        if before is not None and before._is_for(objects, facts):
            return replace(before, facts=facts)  # the mesh before is not kept
        return _translated(ingresses, classes, facts, before or NO_INGRESSES)

    def _is_for(self, objects: tuple[ConfigObject, ...], facts: IngressFacts) -> bool:
        return (
            self.facts is not None
            and len(self.objects) == len(objects)
            and all(old is new for old, new in zip(self.objects, objects, strict=True))
            and facts.says_the_same_as(self.facts)
        )


NO_INGRESSES = Ingresses()


def _translated(
    ingresses: tuple[ConfigObject, ...],
    classes: tuple[ConfigObject, ...],
    facts: IngressFacts,
    before: Ingresses,
) -> Ingresses:
    settings = facts.settings
    warnings: list[Problem] = []
    served = list(_served(ingresses, classes, settings, warnings))
    certificates = Certificates(served, facts.owners)
    backends = Backends(facts.services, facts.domain, facts.owners)
    names: dict[str, set[str]] = {}
    for namespace, name in facts.secrets.keys:
        names.setdefault(name, set()).add(namespace)
    secrets = {name: frozenset(spaces) for name, spaces in names.items()}
    gateways = (gateway_of(each, certificates, settings) for each in served)
    virtual_services = virtual_services_of(
        served, certificates, backends, namespace=settings.namespace
    )
    return Ingresses(
        gateways=_kept(gateways, before.gateways),
        virtual_services=_kept(virtual_services, before.virtual_services),
        warnings=(
            *warnings,
            *certificates.warnings,
            *(each for one in served for each in secret_warnings(one, secrets, settings)),
            *backends.warnings,
        ),
        objects=(*ingresses, *classes),
        facts=facts,
    )


def _served(
    ingresses: Iterable[ConfigObject],
    classes: Iterable[ConfigObject],
    settings: IngressSettings,
    warnings: list[Problem],
) -> Iterable[ServedIngress]:
    controllers = {
        each.name: each.spec.controller
        for each in classes
        if isinstance(each.spec, IngressClassSpec)
    }
    for each in sorted(ingresses, key=_age):
        if isinstance(each.spec, IngressSpec):
            reason = not_served(each, each.spec, controllers, settings)
            if reason is None:
                yield ServedIngress(each, each.spec)
            else:
                warnings.append(each.problem(*reason))


def _kept(
    built: Iterable[ConfigObject], before: Iterable[ConfigObject]
) -> tuple[ConfigObject, ...]:
    """Return the objects, oldest first, the same as before where they are equal."""
    known = {each.key: each for each in before}
    found: list[ConfigObject] = []
    for each in built:
        old = known.get(each.key)
        found.append(old if old is not None and old == each else each)
    return tuple(sorted(found, key=_age))


def _age(item: ConfigObject) -> tuple[str, str, str]:
    return item.created or "9999", item.name, item.namespace
