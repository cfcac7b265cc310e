"""The judgement of a whole mesh: a problem for each thing that comes to nothing.

Each object is valid by itself, so none of this makes a file wrong, and all else is served. After an
edit only the parts are judged again that it can have changed.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

from mesh_configfile import Problem
from mesh_discovery.model._model import MeshModel
from mesh_discovery.plan.gateway._unused import same_use, unused_parts
from mesh_discovery.plan.reachability._rules import same_rules, unused_rules
from mesh_discovery.plan.reachability._services import (
    is_captured,
    same_services,
    unreachable_services,
)
from mesh_discovery.plan.sidecars._unused import same_sidecars, unused_sidecars
from mesh_discovery.plan.virtual_hosts._unused import same_routes, unused_routes

_Same: TypeAlias = Callable[[MeshModel, MeshModel], bool]


class _Part(NamedTuple):
    """Finds one sort of problems; same: whether they are the same, if the services are."""

    find: Callable[[MeshModel], Iterable[Problem]]
    same: _Same


def _sidecars(model: MeshModel) -> Iterable[Problem]:
    return unused_sidecars(model, captured=is_captured(model))


def _same(_old: MeshModel, _new: MeshModel) -> bool:
    return True


_PARTS = (
    _Part(unreachable_services, _same),
    _Part(unused_parts, same_use),
    _Part(unused_routes, same_routes),
    _Part(unused_rules, same_rules),
    _Part(_sidecars, same_sidecars),
)


@dataclass(frozen=True)
class Judgement:
    """The problems of a model, by part."""

    model: MeshModel
    parts: tuple[frozenset[Problem], ...]

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        """All problems, in order."""
        return tuple(sorted(frozenset[Problem]().union(*self.parts)))


def judge(model: MeshModel, before: Judgement | None = None) -> Judgement:
    """Find what comes to nothing; before: the judgement of an earlier model.

    If nothing has changed for any part, it costs what differs, and the parts are the same object.
    """
    if before is None or not same_services(before.model, model):
        return Judgement(model, tuple(frozenset(each.find(model)) for each in _PARTS))
    same = [each.same(before.model, model) for each in _PARTS]
    if all(same):
        return Judgement(model, before.parts)
    return Judgement(
        model,
        tuple(
            known if is_same else frozenset(part.find(model))
            for part, known, is_same in zip(_PARTS, before.parts, same, strict=True)
        ),
    )


def unreachable(model: MeshModel) -> tuple[Problem, ...]:
    """Return a problem for everything that comes to nothing, in order."""
    return judge(model).problems
