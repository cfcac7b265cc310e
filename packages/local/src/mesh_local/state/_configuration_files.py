"""The files in which the control plane reads the generated configuration.

Each replica, each service and each document of the user's has a file of its own: an edit writes
the files of what was edited, and the control plane reads no other again.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from mesh_local.config._mesh_file import MeshFile
from mesh_local.config._plan import Instance, MeshPlan
from mesh_local.config._service_names import first_of_service, service_name
from mesh_local.config._shapes import Workload
from mesh_local.state._folder import write_file
from mesh_local.state._istio import (
    mesh_config,
    policy_documents,
    service_entry,
    to_yaml,
    workload_entry,
)

WORKLOADS = "workloads"
SERVICES = "services"
FROM_MESH_FILE = "from-mesh-file"
USER = "user"
_POLICIES = "mesh-local.yaml"

_IN_A_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,79}")


def write_configuration(plan: MeshPlan, *, config: Path, mesh_config: Path) -> None:
    """Write all files into an empty folder."""
    write_mesh_config(plan, mesh_config)
    update_files(config, configuration_files(plan))
    for instance in plan.instances:
        write_replica(config, instance)
    link_user_folder(config, plan.file.config_dir)


def write_mesh_config(plan: MeshPlan, path: Path) -> None:
    """Write the mesh-wide settings."""
    write_file(path, to_yaml([mesh_config(plan)]))


def configuration_files(plan: MeshPlan, *, leaving: Iterable[Instance] = ()) -> dict[Path, str]:
    """Return the generated files of a mesh but those of its replicas, by their paths.

    leaving: replicas that are no longer in the plan, whose services last as long as they do:
    Envoy would close the connections to a service that is gone.
    """
    workloads = plan.file.workloads
    services = {
        service_file(each): first_of_service(workloads, each) for each in workloads if each.ports
    }
    for instance in leaving:
        if instance.workload.ports:
            services.setdefault(service_file(instance.workload), instance.workload)
    documents = zip(document_files(plan.file), plan.file.config, strict=True)
    return {
        Path(_POLICIES): to_yaml(policy_documents(plan)),
        **{path: to_yaml([service_entry(each)]) for path, each in services.items()},
        **{path: to_yaml([each]) for path, each in documents},
    }


def update_files(config: Path, wanted: Mapping[Path, str]) -> None:
    """Write the files whose content differs, then remove those that are no longer wanted.

    In this order an object that another file has from now on is never missing.
    """
    for path, content in wanted.items():
        if _content(config / path) != content:
            write_file(config / path, content)
    for folder in (SERVICES, FROM_MESH_FILE):
        for path in (config / folder).glob("*.yaml"):
            if path.relative_to(config) not in wanted:
                path.unlink()


def write_replica(config: Path, instance: Instance, *, in_service: bool = True) -> None:
    """Write the file of a replica. in_service: others send it requests."""
    write_file(
        _replica(config, instance), to_yaml([workload_entry(instance, in_service=in_service)])
    )


def remove_replica(config: Path, instance: Instance) -> None:
    """Remove the file of a replica that has stopped."""
    _replica(config, instance).unlink(missing_ok=True)


def link_user_folder(config: Path, folder: Path | None) -> None:
    """Let the control plane follow the user's own folder, or none.

    It follows links, so edits arrive as they are saved.
    """
    link = config / USER
    if folder is None:
        link.unlink(missing_ok=True)
        return
    target = folder.resolve()
    if link.is_symlink() and link.readlink() == target:
        return
    new = config / f".{USER}.new"
    new.unlink(missing_ok=True)
    new.symlink_to(target)
    new.replace(link)


def service_file(workload: Workload) -> Path:
    """Return the file of a workload's service, in the folder of the configuration."""
    return Path(SERVICES, f"{service_name(workload)}.{workload.namespace}.yaml")


def document_files(file: MeshFile) -> tuple[Path, ...]:
    """Return the file of each of the documents in `config`.

    Its name is the object's own, so that a document keeps its file when others come and go before
    it; one that is not named well is named by its number.
    """
    names: dict[str, None] = {}
    for index, document in enumerate(file.config):
        name = _document_name(document) or str(index)
        names[name if name not in names else f"{name}~{index}"] = None
    return tuple(Path(FROM_MESH_FILE, f"{name}.yaml") for name in names)


def _document_name(document: Mapping[str, object]) -> str | None:
    metadata = document.get("metadata")
    given: Sequence[object] = (document.get("kind"), None, None)
    if isinstance(metadata, dict):
        given = (given[0], metadata.get("name"), metadata.get("namespace", "default"))
    words = [each for each in given if isinstance(each, str) and _IN_A_FILE_NAME.fullmatch(each)]
    return ".".join(words) if len(words) == len(given) else None


def _replica(config: Path, instance: Instance) -> Path:
    return config / WORKLOADS / f"{instance.name}.yaml"


def _content(path: Path) -> str | None:
    try:
        return path.read_text()
    except FileNotFoundError:
        return None
