"""Reads a configuration as the server would, and judges it, for people who write it."""

from dataclasses import dataclass
from pathlib import Path

from mesh_configfile import Problem
from mesh_discovery._problems import ConfigError
from mesh_discovery.config._first_load import first_reading
from mesh_discovery.config._loader import ConfigLoader
from mesh_discovery.model._model import build_model
from mesh_discovery.plan._reachability import unreachable


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The result of `check_configuration`.

    problems: mistakes, with which the server would not start.
    unreachable: objects that the server accepts and no proxy can reach.
    notes: objects and fields that it accepts and that have no effect.
    warnings: fields with an effect that is hardly meant.
    """

    objects: int
    files: int
    problems: tuple[Problem, ...]
    unreachable: tuple[Problem, ...]
    notes: tuple[Problem, ...]
    warnings: tuple[Problem, ...] = ()


def check_configuration(
    directory: Path, *, mesh_config: Path | None = None, allow_unsupported: bool = False
) -> Checked:
    """Read a configuration once and judge it."""
    loader = ConfigLoader(directory, mesh_config=mesh_config, allow_unsupported=allow_unsupported)
    try:
        load = first_reading(loader.load, loader)
    except ConfigError as error:
        return Checked(objects=0, files=0, problems=error.problems, unreachable=(), notes=())
    return Checked(
        objects=len(load.snapshot.objects),
        files=len(load.files),
        problems=load.problems,
        unreachable=unreachable(load.snapshot, build_model(load.snapshot)),
        notes=load.snapshot.notes,
        warnings=load.snapshot.warnings,
    )
