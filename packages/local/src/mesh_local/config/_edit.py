"""The difference that an edit of the mesh file makes: which processes start, stop, or both.

Processes get what concerns them in their arguments, their environment and the files that they read
at their start. All else reaches the proxies as configuration, and nothing is started again for it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from mesh_configfile import FieldPath, Problem, field_name
from mesh_local._errors import MeshFileError
from mesh_local.config._mesh_file import MeshFile
from mesh_local.config._rules import Rules
from mesh_local.config._service_names import instance_names, service_name
from mesh_local.config._shapes import Mesh, MeshShape, Workload

KEPT_SETTINGS = (
    "trust_domain",
    "certificate_lifetime",
    "http_proxy_port",
    "dns_port",
    "drain",
)
"""The fields of `mesh` that the control plane or each agent is started with."""
CHANGED_SETTINGS = ("name", "mtls")
"""The fields of `mesh` that change while it runs."""
_NAMING = ("name", "replicas")
"""The fields of a workload by which its replicas come and go."""
_BY_PROXY_CONFIGS = "ProxyConfig"
"""In place of a field: what an agent is started with is in objects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """The processes of a replica that are started again, and the fields for which they are.

    fields: of the workload; "ProxyConfig" among them where it is objects that want it.
    """

    fields: tuple[str, ...]
    program: bool
    agent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """The difference between the file that runs and its new content.

    file: what runs afterwards: the new content, with those settings that can't change.
    added, removed: names of replicas. restarted: of those that stay, by name.
    updated: what changes without a process, as in `config` and `ports of backend`.
    kept: a sentence for each setting that can't change.
    """

    file: MeshFile
    added: tuple[str, ...]
    removed: tuple[str, ...]
    restarted: Mapping[str, Restart]
    updated: tuple[str, ...] = ()
    kept: tuple[Problem, ...] = ()

    @property
    def changes_processes(self) -> bool:
        """Whether any process starts or stops."""
        return bool(self.added or self.removed or self.restarted)

    def with_starts(self, before: Mapping[str, object], after: Mapping[str, object]) -> "Edit":
        """Return the edit with the agents that are started again as ProxyConfigs want it now.

        before, after: how they want the replicas' agents to be started, by name.
        """
        restarted = dict(self.restarted)
        for name, start in after.items():
            if name in before and before[name] != start:
                known = restarted.get(name, Restart(fields=(), program=False, agent=True))
                fields = (*known.fields, _BY_PROXY_CONFIGS)
                restarted[name] = replace(known, fields=fields, agent=True)
        return replace(self, restarted=restarted)


def edit_of(running: MeshFile, new: MeshFile) -> Edit:
    """Compare the file that runs with its new content.

    Raises `MeshFileError` if the new workloads contradict settings that can't change.
    """
    kept = tuple(_kept(running.mesh, new))
    file = new
    if kept:
        file = _with_settings(new, running, kept)
    before, after = _replicas(running.workloads), _replicas(file.workloads)
    restarts = {
        name: _restart(before[name], workload)
        for name, workload in after.items()
        if name in before and before[name] != workload
    }
    return Edit(
        file=file,
        added=tuple(name for name in after if name not in before),
        removed=tuple(name for name in before if name not in after),
        restarted={name: each for name, each in restarts.items() if each.fields},
        updated=tuple(_updated(running, file)),
        kept=kept,
    )


def _replicas(workloads: Iterable[Workload]) -> dict[str, Workload]:
    return {name: each for each in workloads for name in instance_names(each)}


def _restart(old: Workload, new: Workload) -> Restart:
    program = _differences(_of_program(old), _of_program(new))
    agent = _differences(_of_agent(old), _of_agent(new))
    concerned = program | agent
    return Restart(
        fields=tuple(_yaml_name(new, name) for name in WORKLOAD_FIELDS if name in concerned),
        program=bool(program),
        agent=bool(agent),
    )


def _of_program(workload: Workload) -> dict[str, object]:
    """Return what a program is started with, by the field that it is from."""
    if not workload.command:
        return {"command": ()}
    return {
        "command": workload.command,
        "directory": Path(workload.directory),
        "env": workload.env,
        "namespace": workload.namespace,
        "service_account": workload.service_account or workload.name,
        "ports": workload.ports[0].port if workload.ports else None,
        "proxyless": workload.proxyless,
    }


def _of_agent(workload: Workload) -> dict[str, object]:
    """Return what an agent is started with, by the field that it is from."""
    gateway = workload.gateway
    return {
        "namespace": workload.namespace,
        "service_account": workload.service_account or workload.name,
        "service": service_name(workload),
        "version": workload.version,
        "locality": workload.locality,
        "labels": workload.labels,
        "proxyless": workload.proxyless,
        "gateway": None if gateway is None else gateway.address,
        "agent_env": workload.agent_env,
    }


def _differences(old: Mapping[str, object], new: Mapping[str, object]) -> set[str]:
    if len(old) != len(new):  # there is a program on one side alone
        return {"command"}
    return {name for name in new if old[name] != new[name]}


_EXAMPLE = Workload(name="a", command=("a",))
WORKLOAD_FIELDS = tuple(
    name
    for name in Workload.__struct_fields__
    if name in {*_NAMING, *_of_program(_EXAMPLE), *_of_agent(_EXAMPLE)}
)
"""The fields of a workload that this module knows, in the file's order."""


def _updated(running: MeshFile, new: MeshFile) -> Iterator[str]:
    for name in CHANGED_SETTINGS:
        if getattr(running.mesh, name) != getattr(new.mesh, name):
            yield f"mesh.{_yaml_name(new.mesh, name)}"
    before = {each.name: each for each in running.workloads}
    for each in new.workloads:
        old = before.get(each.name, each)
        for field in ("ports", "gateway"):
            # What else these fields have is a reason to start something again.
            if getattr(old, field) != getattr(each, field) and not _restart(old, each).fields:
                yield f"{field} of {each.name}"
    for field, name in (("config", "config"), ("config_dir", "configDir"), ("checks", "checks")):
        if getattr(running, field) != getattr(new, field):
            yield name


def _kept(running: Mesh, new: MeshFile) -> Iterator[Problem]:
    for name in KEPT_SETTINGS:
        value = getattr(running, name)
        if value != getattr(new.mesh, name):
            yield _problem(
                new,
                ("mesh", _yaml_name(running, name)),
                f"can't be changed while the mesh runs, which goes on with {value}: "
                "stop it and run it again",
            )


def _with_settings(new: MeshFile, running: MeshFile, kept: Iterable[Problem]) -> MeshFile:
    """Return the new file with the settings that run; raises `MeshFileError`."""
    settings = {name: getattr(running.mesh, name) for name in KEPT_SETTINGS}
    mesh = msgspec.structs.replace(new.mesh, **settings)
    shape = MeshShape(
        workloads=new.workloads, mesh=mesh, checks=tuple(each.check for each in new.checks)
    )
    contradictions = [_problem(new, *each) for each in Rules(shape, new.directory).problems()]
    if contradictions:
        raise MeshFileError(new.path, (*kept, *contradictions))
    return replace(
        new,
        mesh=mesh,
        certificate_lifetime=running.certificate_lifetime,
        drain=running.drain,
    )


def _problem(file: MeshFile, place: FieldPath, message: str) -> Problem:
    name = field_name(place)
    return Problem(file=str(file.path), line=file.line_of(name), field=name, message=message)


def _yaml_name(struct: msgspec.Struct, name: str) -> str:
    names = zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True)
    return dict(names)[name]
