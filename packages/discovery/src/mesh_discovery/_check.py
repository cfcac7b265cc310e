"""Reads a configuration as the server would, and judges it, for people who write it."""

from dataclasses import dataclass
from pathlib import Path

from mesh_configfile import Problem
from mesh_discovery._problems import ConfigError
from mesh_discovery.comparison._differences import DifferentResource, differences
from mesh_discovery.comparison._expected import expected_of
from mesh_discovery.comparison._held import Held
from mesh_discovery.config._first_load import first_reading
from mesh_discovery.config._loader import ConfigLoader
from mesh_discovery.model._model import MeshModel, build_model
from mesh_discovery.plan._proxy import NodeError, parse_proxy
from mesh_discovery.plan.reachability._judgement import judge
from mesh_discovery.push.context._context import PushContext


class NotComparableError(Exception):
    """A config dump that does not say whose it is, or is of a proxy that can't be served."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The result of `check_configuration`.

    problems: mistakes, with which the server would not start.
    unreachable: objects that the server accepts and no proxy can reach.
    notes: objects and fields that it accepts and that have no effect.
    warnings: fields with an effect that is hardly meant.
    different: what the proxy of a config dump has otherwise; None if there was nothing to compare.
    """

    objects: int
    files: int
    problems: tuple[Problem, ...]
    unreachable: tuple[Problem, ...]
    notes: tuple[Problem, ...]
    warnings: tuple[Problem, ...] = ()
    different: tuple[DifferentResource, ...] | None = None

    @property
    def is_good(self) -> bool:
        """Whether the server would start with it, reach all of it, and give what a proxy has."""
        return not (self.problems or self.unreachable or self.different)


def check_configuration(
    directory: Path,
    *,
    mesh_config: Path | None = None,
    mesh_networks: Path | None = None,
    allow_unsupported: bool = False,
    believe_timestamps: bool = False,
    strict_namespaces: bool = False,
    against: Held | None = None,
    trust_domain: str = "cluster.local",
    domain: str = "cluster.local",
) -> Checked:
    """Read a configuration once and judge it.

    strict_namespaces: as if a namespace governed its own hosts alone.
    against: what a proxy has, to be compared with what it would be given. Raises
    `NotComparableError`. trust_domain: unless the mesh config says another.
    """
    loader = ConfigLoader(
        directory,
        mesh_config=mesh_config,
        mesh_networks=mesh_networks,
        allow_unsupported=allow_unsupported,
        believe_timestamps=believe_timestamps,
    )
    try:
        load = first_reading(loader.load, loader)
    except ConfigError as error:
        return Checked(objects=0, files=0, problems=error.problems, unreachable=(), notes=())
    model = build_model(
        load.snapshot,
        default_trust_domain=trust_domain,
        domain=domain,
        strict_namespaces=strict_namespaces,
    )
    judgement = judge(model)
    return Checked(
        objects=len(load.snapshot.objects),
        files=len(load.files),
        problems=load.problems,
        unreachable=judgement.problems,
        notes=load.snapshot.notes,
        warnings=(*load.snapshot.warnings, *model.gateway_api.warnings, *judgement.warnings),
        different=_different(model, against, domain) if against is not None else None,
    )


def _different(model: MeshModel, held: Held, domain: str) -> tuple[DifferentResource, ...]:
    if held.node is None:
        raise NotComparableError("the config dump does not have the node of its Envoy")
    try:
        proxy = parse_proxy(
            held.node,
            domain_suffix=domain,
            mesh_interception=model.mesh_config.default_config.interception_mode,
        )
    except NodeError as error:
        raise NotComparableError(str(error)) from error
    return tuple(differences(expected_of(PushContext(model), proxy), held))
