"""The mistakes in a mesh's configuration, by the file and line where the user wrote it.

The control plane reads files that are generated from the mesh file, and the user's own through a
link. Its findings name the generated files; they are shown with the user's file and line instead.
"""

import json
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from mesh_discovery import (
    StartSettings,
    StatusDocument,
    check_configuration,
    status_notes,
    status_problems,
)
from mesh_local._errors import NoAnswer
from mesh_local.config import _plan as ports
from mesh_local.config._mesh_file import MeshFile
from mesh_local.config._plan import MeshPlan
from mesh_local.config._service_names import instance_names
from mesh_local.observation._http import fetch
from mesh_local.state._configuration_files import (
    FROM_MESH_FILE,
    SERVICES,
    USER,
    WORKLOADS,
    document_files,
    service_file,
    write_configuration,
)
from mesh_local.state._istio import instance_labels

MESH_CONFIG = "mesh-config.yaml"
_GENERATED = (WORKLOADS, SERVICES, FROM_MESH_FILE)
_FIELD = r"(?:: (?P<field>[A-Za-z][\w.\-\[\]]*)(?=: ))?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The findings about a mesh's configuration, one sentence each, with file and line.

    problems: mistakes; the control plane would not start.
    unreachable: configuration that is valid, but that no request can reach.
    missing: those of `unreachable` where a rule names something that is not there.
    notes: configuration that is accepted and has no effect.
    warnings: configuration that has an effect which is probably not meant.
    starts: how ProxyConfigs want each replica's agent to be started, by its name.
    """

    problems: tuple[str, ...] = ()
    unreachable: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    starts: Mapping[str, StartSettings] = field(default_factory=dict)


class Places:
    """Maps places in generated files to the places where the user wrote them."""

    def __init__(self, file: MeshFile, *, config: Path, mesh_config: Path) -> None:
        self._file = file
        self._config = config
        self._fields = {
            **{
                Path(WORKLOADS, f"{name}.yaml"): f"workloads[{index}]"
                for index, each in enumerate(file.workloads)
                for name in instance_names(each)
            },
            # Of several workloads of a service, the first is the one whose ports count.
            **{
                service_file(each): f"workloads[{index}]"
                for index, each in reversed([*enumerate(file.workloads)])
                if each.ports
            },
            **{path: f"config[{index}]" for index, path in enumerate(document_files(file))},
        }
        self._place = re.compile(
            rf"{re.escape(str(config))}/(?P<path>(?:{'|'.join(_GENERATED)})/[^/:]+\.yaml)"
            rf"(?::(?P<line>\d+){_FIELD})?"
        )
        self._own = {
            f"{config}/{USER}": _shown(file.config_dir) if file.config_dir is not None else USER,
            f"{mesh_config}:": f"{file.path} (mesh):",
        }

    def with_user_places(self, text: str) -> str:
        """Return the text with the user's places in it."""
        for generated, own in self._own.items():
            text = text.replace(generated, own)
        return self._place.sub(self._written, text)

    def _written(self, found: re.Match[str]) -> str:
        path, field = Path(found["path"]), found["field"]
        top = self._fields.get(path)
        if top is None:  # of a workload that is stopping
            return str(self._file.path)
        if path.parts[0] == FROM_MESH_FILE:
            name = f"{top}.{field}" if field else top
        elif field is not None and field.startswith("spec.ports"):
            name = f"{top}.{field.removeprefix('spec.')}"
        else:
            name = top
        place = f"{self._file.path}:{self._file.line_of(name)}"
        return f"{place}: {name}" if field else place


def _shown(path: Path) -> str:
    """Return the path relative to the working directory, if it is below it."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def check_mesh(plan: MeshPlan, *, allow_unsupported: bool = False) -> Findings:
    """Return what a control plane would find wrong with the configuration; starts nothing."""
    with tempfile.TemporaryDirectory(prefix="mesh-local-check-") as folder:
        config, mesh_config = Path(folder) / "config", Path(folder) / MESH_CONFIG
        write_configuration(plan, config=config, mesh_config=mesh_config)
        places = Places(plan.file, config=config, mesh_config=mesh_config)
        checked = check_configuration(
            config, mesh_config=mesh_config, allow_unsupported=allow_unsupported
        )

        def texts(problems: Iterable[object]) -> tuple[str, ...]:
            return tuple(places.with_user_places(str(each)) for each in problems)

        return Findings(
            problems=texts(checked.problems),
            unreachable=texts(checked.unreachable),
            notes=texts(checked.notes),
            warnings=texts(checked.warnings),
            missing=texts(checked.missing),
            starts={
                each.name: checked.start_settings(each.workload.namespace, instance_labels(each))
                for each in plan.instances
            },
        )


def check_edit(plan: MeshPlan, *, running: MeshFile, allow_unsupported: bool) -> Findings:
    """Return what an edit of the mesh file would bring, as `check_mesh` does.

    running: what it is an edit of. Mistakes in a folder that it names already are not the edit's:
    the control plane keeps the last good content of those files, and tells of them.
    """
    found = check_mesh(plan, allow_unsupported=allow_unsupported)
    folder = plan.file.config_dir
    if folder is None or folder != running.config_dir:
        return found
    own = (each for each in found.problems if not each.startswith(f"{_shown(folder)}/"))
    return replace(found, problems=tuple(own))


async def fetch_findings(plan: MeshPlan, places: Places) -> tuple[str, ...] | None:
    """Return the running control plane's findings; None if it does not answer."""
    try:
        answer = await fetch(
            plan.monitoring_host, ports.MONITORING_PORT, target="/debug/status", timeout_s=2.0
        )
        document = json.loads(answer.body)
        return tuple(places.with_user_places(line) for line in _lines(document))
    except (NoAnswer, ValueError, KeyError, TypeError):
        return None


def _lines(document: StatusDocument) -> Iterator[str]:
    yield from status_problems(document)
    yield from status_notes(document)
