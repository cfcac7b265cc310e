"""All replicas of a mesh: begins them, and changes them as an edit of the mesh file asks."""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from mesh_local._errors import AddressError, ConfigurationError, StateError
from mesh_local.config._addresses import Endpoint, is_free
from mesh_local.config._edit import Edit, edit_of
from mesh_local.config._mesh_file import MeshFile
from mesh_local.config._plan import (
    Instance,
    MeshPlan,
    gateway_endpoints,
    needed_endpoints,
    plan_mesh,
)
from mesh_local.lifetime._replica import Replica, ReplicaPlan, Surroundings, replica_plans
from mesh_local.observation._findings import check_edit
from mesh_local.state._configuration_files import (
    configuration_files,
    link_user_folder,
    update_files,
)

if TYPE_CHECKING:
    from mesh_discovery import StartSettings

log = logging.getLogger("mesh_local")


class Replicas:
    """The replicas that run, by name; those that still stop are among them."""

    def __init__(
        self,
        surroundings: Surroundings,
        tasks: asyncio.TaskGroup,
        *,
        environ: Mapping[str, str],
        allow_unsupported: bool,
    ) -> None:
        self._shared = surroundings
        self._mesh = surroundings.mesh
        self._tasks = tasks
        self._environ = environ
        self._allow_unsupported = allow_unsupported
        self._replicas: dict[str, Replica] = {}
        self._starts: Mapping[str, StartSettings] = {}

    def begin(self, plans: Iterable[ReplicaPlan], starts: "Mapping[str, StartSettings]") -> None:
        """Begin the replicas that the mesh starts with, whose files are written.

        starts: how ProxyConfigs have their agents started.
        """
        self._starts = starts
        for each in plans:
            self._begin(each, in_service=True)
        self._show()

    async def apply(self, file: MeshFile) -> Edit:
        """Have the mesh become as a new content of its file wants it; returns at once.

        What has to start, stop or both does so afterwards. Raises `MeshFileError`,
        `ConfigurationError`, `AddressError`, `StateError`; then nothing has changed, or after a
        `StateError` not all.
        """
        edit = edit_of(self._mesh.plan.file, file)
        plan = self._plan(edit.file)
        self._refuse_busy(plan)
        found = await asyncio.to_thread(
            check_edit,
            plan,
            running=self._mesh.plan.file,
            allow_unsupported=self._allow_unsupported,
        )
        if found.problems:
            raise ConfigurationError("\n".join(found.problems))
        wanted = replica_plans(plan, self._mesh.state, self._environ, found.starts)
        edit = edit.with_starts(self._starts, found.starts)
        self._become(plan, wanted)
        self._starts = found.starts
        return edit

    def _plan(self, file: MeshFile) -> MeshPlan:
        positions = {name: each.workload.instance.position for name, each in self._replicas.items()}
        running = self._mesh.plan
        try:
            return plan_mesh(file, running.block, http_port=running.http_port, positions=positions)
        except AddressError as error:
            raise AddressError(f"{file.path}:{file.line_of('workloads')}: {error}") from None

    def _refuse_busy(self, plan: MeshPlan) -> None:
        """Raise `AddressError` if a new address and port is another program's."""
        held = {*_endpoints(self._mesh.plan)}
        for each in self._replicas.values():
            held |= set(_gateway_endpoints(each.workload.instance))
        for host, port in _endpoints(plan):
            if (host, port) not in held and not is_free(host, port):
                file = plan.file
                raise AddressError(
                    f"{file.path}:{file.line_of('workloads')}: {host}:{port} is in use by another "
                    "program: stop it, or give the workload another port"
                )

    def _become(self, plan: MeshPlan, wanted: Mapping[str, ReplicaPlan]) -> None:
        """Take the first step towards another plan; all others follow from it by themselves."""
        self._mesh.plan = plan
        try:
            self._write_files()
            link_user_folder(self._mesh.state.config, plan.file.config_dir)
            for name, replica in self._replicas.items():
                replica.want(wanted.get(name))
            for name, each in wanted.items():
                if name not in self._replicas:
                    self._begin(each, in_service=False)
        except OSError as error:
            raise StateError(
                f"the state folder {self._mesh.state.path} can't be written: {error.strerror}"
            ) from None
        finally:
            self._show()

    def _begin(self, wanted: ReplicaPlan, *, in_service: bool) -> None:
        replica = Replica(wanted, self._shared, on_change=self._on_change)
        ports = set(_gateway_endpoints(wanted.instance))
        after = [
            each
            for each in self._replicas.values()
            if not each.is_wanted and ports & set(_gateway_endpoints(each.workload.instance))
        ]
        replica.begin(wanted, in_service=in_service, after=after)
        self._replicas[replica.name] = replica
        self._tasks.create_task(replica.run(), name=f"replica {replica.name}")

    def _on_change(self) -> None:
        """Forget replicas that have gone, and with the last of them their service."""
        for name, replica in [*self._replicas.items()]:
            if replica.gone:
                del self._replicas[name]
        self._write_files()
        self._show()

    def _write_files(self) -> None:
        leaving = [each.workload.instance for each in self._replicas.values()]
        files = configuration_files(self._mesh.plan, leaving=leaving)
        update_files(self._mesh.state.config, files)

    def _show(self) -> None:
        """Put the replicas into the mesh: in the file's order, and those that stop apart."""
        names = [each.name for each in self._mesh.plan.instances]
        found = self._replicas
        self._mesh.workloads = tuple(found[each].workload for each in names if each in found)
        self._mesh.leaving = tuple(each.workload for each in found.values() if not each.is_wanted)
        self._mesh.workload_updated()


def _endpoints(plan: MeshPlan) -> Iterable[Endpoint]:
    yield from needed_endpoints(plan)
    for _, endpoint in gateway_endpoints(plan.file):
        yield endpoint


def _gateway_endpoints(instance: Instance) -> Iterable[Endpoint]:
    gateway = instance.workload.gateway
    for port in gateway.ports if gateway is not None else ():
        yield (gateway.address if gateway is not None else "", port)
