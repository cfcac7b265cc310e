"""The findings of a whole mesh: a problem for each thing that is unreachable or shadowed.

Each object is valid by itself, so none of this makes a file wrong, and all else is served. An edit
has only those things looked at again that it can have changed.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from operator import is_
from typing import NamedTuple

from mesh_configfile import Problem
from mesh_findings.reachability._by_key import Key, Problems, find_again
from mesh_findings.reachability._foreign_hosts import foreign_hosts, unaddressed_ports
from mesh_findings.reachability._headless import passed_on_warnings, same_passed_on
from mesh_findings.reachability._known_hosts import KnownHosts
from mesh_findings.reachability._routes import RouteFindings
from mesh_findings.reachability._services import is_redirected, same_services, unreachable_services
from mesh_findings.unused._extensions import same_extensions, unused_extensions
from mesh_findings.unused._gateways import same_gateways, unused_gateways
from mesh_findings.unused._over_budget import over_budget, same_left_out
from mesh_findings.unused._providers import same_providers, unusable_providers
from mesh_findings.unused._proxy_configs import same_proxy_configs, unused_proxy_configs
from mesh_findings.unused._sidecars import same_sidecars, unused_sidecars
from mesh_findings.unused._telemetry import unused_telemetry
from mesh_model import MeshModel, changed_services


class _Part(NamedTuple):
    """Finds one sort of problems.

    same: whether they are the same in two models; of_services: if their services are, too.
    """

    find: Callable[[MeshModel], Iterable[Problem]]
    same: Callable[[MeshModel, MeshModel], bool]
    of_services: bool = True


def _find(part: _Part, model: MeshModel, _key: Key) -> Iterable[Problem]:
    return part.find(model)


def _sidecars(model: MeshModel) -> Iterable[Problem]:
    return unused_sidecars(model, redirected=is_redirected(model))


def _same(_old: MeshModel, _new: MeshModel) -> bool:
    return True


_PARTS = (
    _Part(unreachable_services, _same),
    _Part(unused_gateways, same_gateways, of_services=False),
    _Part(_sidecars, same_sidecars),
    _Part(unusable_providers, same_providers),
    _Part(unused_telemetry, same_providers),
    _Part(unused_extensions, same_extensions, of_services=False),
    _Part(unused_proxy_configs, same_proxy_configs, of_services=False),
    _Part(over_budget, same_left_out, of_services=False),
    _Part(foreign_hosts, _same),
)
"""The sorts of problems that are found all together."""


@dataclass(frozen=True, kw_only=True)
class Findings:
    """The problems of a model, by part."""

    model: MeshModel
    routes: RouteFindings
    """Those of VirtualServices, and of DestinationRules."""
    parts: tuple[Problems, ...]
    warnings: tuple[Problem, ...]
    """Of what is reached, though probably not as it is meant, in order."""

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        """All problems, in order."""
        found = (each for part in self.parts for each in part.values())
        return tuple(sorted(frozenset[Problem]().union(*found)))


def review(model: MeshModel, before: Findings | None = None) -> Findings:
    """Find what is unreachable or shadowed; before: the findings of an earlier model.

    It costs what differs. If the problems are those of before, `parts` is the same object.
    """
    old = before.model if before is not None else None
    same = old is not None and same_services(old, model)
    earlier = before.routes if before is not None else RouteFindings(domain=model.domain)
    hosts = earlier.rules.hosts if same else KnownHosts.build(model.services)
    routes = earlier.after(model, hosts)
    known: tuple[Problems, ...] = before.parts if before is not None else ({},) * (len(_PARTS) + 2)
    parts = tuple(
        problems
        if old is not None and (same or not part.of_services) and part.same(old, model)
        else find_again(problems, [()], partial(_find, part, model))
        for part, problems in zip(_PARTS, known[: len(_PARTS)], strict=True)
    )
    parts = (*parts, routes.rules.problems, routes.problems)
    if before is None:
        return Findings(model=model, routes=routes, parts=parts, warnings=_warnings(model, routes))
    as_before = (
        same  # a warning names the line where the object of a service stands
        and routes.objects is earlier.objects
        and routes.warnings is earlier.warnings
        and same_passed_on(before.model, model)
        and not (model.owners.is_strict and changed_services(before.model, model).pairs)
    )
    return Findings(
        model=model,
        routes=routes,
        parts=known if all(map(is_, known, parts)) else parts,
        warnings=before.warnings if as_before else _warnings(model, routes),
    )


def _warnings(model: MeshModel, routes: RouteFindings) -> tuple[Problem, ...]:
    lost = (each for warnings in routes.warnings.values() for each in warnings)
    found = {*passed_on_warnings(model, routes.leading_to), *unaddressed_ports(model), *lost}
    return tuple(sorted(found))
