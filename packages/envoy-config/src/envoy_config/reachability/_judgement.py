"""The judgement of a whole mesh: a problem for each thing that comes to nothing.

Each object is valid by itself, so none of this makes a file wrong, and all else is served. After an
edit only that is judged again that it can have changed.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from operator import is_
from typing import NamedTuple

from envoy_config.plan.gateway._unused import same_gateways, unused_gateways
from envoy_config.plan.policies._unusable_providers import same_providers, unusable_providers
from envoy_config.plan.sidecars._unused import same_sidecars, unused_sidecars
from envoy_config.plan.telemetry._unused import unused_telemetry
from envoy_config.plan.virtual_hosts._over_budget import over_budget, same_left_out
from envoy_config.reachability._by_place import Problems, judged_again
from envoy_config.reachability._foreign_hosts import foreign_hosts, unaddressed_ports
from envoy_config.reachability._headless import passed_on_warnings, same_passed_on
from envoy_config.reachability._known_hosts import KnownHosts
from envoy_config.reachability._routes import JudgedRoutes
from envoy_config.reachability._services import is_captured, same_services, unreachable_services
from mesh_configfile import Problem
from mesh_model import MeshModel, changed_services


class _Part(NamedTuple):
    """Finds one sort of problems.

    same: whether they are the same in two models; of_services: if their services are, too.
    """

    find: Callable[[MeshModel], Iterable[Problem]]
    same: Callable[[MeshModel, MeshModel], bool]
    of_services: bool = True


def _sidecars(model: MeshModel) -> Iterable[Problem]:
    return unused_sidecars(model, captured=is_captured(model))


def _same(_old: MeshModel, _new: MeshModel) -> bool:
    return True


_PARTS = (
    _Part(unreachable_services, _same),
    _Part(unused_gateways, same_gateways, of_services=False),
    _Part(_sidecars, same_sidecars),
    _Part(unusable_providers, same_providers),
    _Part(unused_telemetry, same_providers),
    _Part(over_budget, same_left_out, of_services=False),
    _Part(foreign_hosts, _same),
)
"""The sorts of problems that are found all together."""


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The problems of a model, by part."""

    model: MeshModel
    routes: JudgedRoutes
    """The judgement of VirtualServices, and of DestinationRules."""
    parts: tuple[Problems, ...]
    warnings: tuple[Problem, ...]
    """Of what is reached, though hardly as it is meant, in order."""

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        """All problems, in order."""
        found = (each for part in self.parts for each in part.values())
        return tuple(sorted(frozenset[Problem]().union(*found)))


def judge(model: MeshModel, before: Judgement | None = None) -> Judgement:
    """Find what comes to nothing; before: the judgement of an earlier model.

    It costs what differs. If nothing else comes to nothing now, the parts are the same object.
    """
    if before is None:
        routes = JudgedRoutes(domain=model.domain).after(model, KnownHosts.of(model.services))
        parts = tuple(_judged(each.find(model), {}) for each in _PARTS)
        return Judgement(
            model=model,
            routes=routes,
            parts=(*parts, *_parts(routes)),
            warnings=_warnings(model, routes),
        )
    old = before.model
    same = same_services(old, model)
    hosts = before.routes.rules.hosts if same else KnownHosts.of(model.services)
    routes = before.routes.after(model, hosts)
    parts = tuple(
        known
        if (same or not part.of_services) and part.same(old, model)
        else _judged(part.find(model), known)
        for part, known in zip(_PARTS, before.parts[: len(_PARTS)], strict=True)
    )
    parts = (*parts, *_parts(routes))
    if all(map(is_, before.parts, parts)):
        parts = before.parts
    as_before = (
        same  # a warning names the line where the object of a service stands
        and routes.objects is before.routes.objects
        and same_passed_on(old, model)
        and not (model.owners.is_strict and changed_services(old, model).pairs)
    )
    warnings = before.warnings if as_before else _warnings(model, routes)
    return Judgement(model=model, routes=routes, parts=parts, warnings=warnings)


def _warnings(model: MeshModel, routes: JudgedRoutes) -> tuple[Problem, ...]:
    found = (*passed_on_warnings(model, routes.leading_to), *unaddressed_ports(model))
    return tuple(sorted(set(found)))


def _judged(found: Iterable[Problem], known: Problems) -> Problems:
    return judged_again(known, [()], lambda _: found)


def _parts(routes: JudgedRoutes) -> tuple[Problems, ...]:
    return routes.rules.problems, routes.problems


def unreachable(model: MeshModel) -> tuple[Problem, ...]:
    """Return a problem for everything that comes to nothing, in order."""
    return judge(model).problems
