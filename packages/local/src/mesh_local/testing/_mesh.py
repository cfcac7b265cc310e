"""A running mesh as a test has it: requests, identities, logs, rules and faults; with asyncio."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

from mesh_local._errors import FaultError
from mesh_local._parts import replicas, sender
from mesh_local._running_mesh import RunningMesh
from mesh_local.testing import _certificates, _logs, _requests
from mesh_local.testing._requests import Response
from mesh_local.testing.faults import _processes
from mesh_local.testing.faults._configuration import Configuration
from mesh_local.testing.faults._documents import Documents, yaml_of
from mesh_local.testing.faults._fault import Fault, Faults
from mesh_local.testing.faults._rules import HttpFault
from mesh_local.testing.faults._traffic import TrafficFaults

REQUEST_S = 30.0


class Mesh:
    """A mesh in a test; `running` makes it. Workloads are named as in the mesh file.

    Faults and rules begin when they are awaited, and end with their `async with` or by `end`.
    What can't be raises `FaultError`, with one sentence that says what there is.
    """

    def __init__(self, mesh: RunningMesh) -> None:
        self.running = mesh
        """The processes and their state, for what this class does not do."""
        self._faults = Faults()
        self._configuration = Configuration(mesh)
        self._traffic = TrafficFaults(mesh, self._configuration)

    def url(self, workload: str) -> str:
        """Return where the test reaches a workload's program directly: `http://ADDRESS:PORT`."""
        instance = replicas(self.running, workload)[0].instance
        if not instance.workload.ports:
            raise FaultError(f"{workload} has no port: it only calls others")
        return f"http://{instance.addresses.app}:{instance.workload.ports[0].port}"

    async def get(
        self,
        workload: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = REQUEST_S,
    ) -> Response:
        """Send a GET as a workload, through its Envoy; see `request`."""
        return await self.request(workload, "GET", url, headers=headers, timeout_s=timeout_s)

    async def request(
        self,
        workload: str,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: str | bytes = b"",
        timeout_s: float = REQUEST_S,
    ) -> Response:
        """Send a request as a workload, through its Envoy, with a connection of its own.

        url: `http://SERVICE/path`; without a port it is the service's first. Raises `NoAnswer`
        if the Envoy does not answer; a service that can't be reached is an answer, of 503.
        """
        instance = sender(self.running, workload)[0].instance
        data = body.encode() if isinstance(body, str) else body
        return await _requests.send(
            self.running.plan,
            instance,
            method,
            url,
            headers=headers,
            body=data,
            timeout_s=timeout_s,
        )

    def spiffe_id(self, workload: str) -> str:
        """Return a workload's identity."""
        return replicas(self.running, workload)[0].instance.spiffe_id

    def ssl_context(self, workload: str, *, server: bool = False) -> ssl.SSLContext:
        """Return a TLS context with a workload's identity, that trusts the mesh's roots alone."""
        return _certificates.tls_context(
            self.running.state,
            trust_domain=self.running.plan.file.mesh.trust_domain,
            spiffe_id=self.spiffe_id(workload),
            server=server,
        )

    def logs(self, part: str) -> str:
        """Return what `backend`, `backend.agent`, `backend.envoy` or `control-plane` has logged."""
        return _logs.text_of(self.running, part)

    def apply(self, documents: Documents) -> Fault:
        """Add Istio documents: mappings, YAML text, or the path of a file.

        Begun when every proxy has them, ended when none has. Raises `ConfigurationError`.
        """
        return self._fault("apply documents", partial(self._applied, documents))

    def kill(self, part: str) -> Fault:
        """Kill a process by SIGKILL; its supervisor starts it again at once.

        Begun when it has ended, ended when it is back and works.
        """
        make = partial(_processes.killed, self.running, part)
        return self._fault(f"kill {part}", make, is_moment=True)

    def stop(self, part: str) -> Fault:
        """Kill a process by SIGKILL, and let it be started again when the fault ends."""
        return self._fault(f"stop {part}", partial(_processes.stopped, self.running, part))

    def cut(self, workload: str, called: str) -> Fault:
        """Refuse a workload's connections to a service, and end those that are open.

        Its Envoy answers requests with 503, as if nothing listened there. Other workloads'
        connections stay.
        """
        make = partial(self._traffic.cut, workload, called)
        return self._fault(f"cut {workload} off from {called}", make)

    def delay(self, workload: str, called: str, seconds: float) -> Fault:
        """Hold each of a workload's requests to a service back for this time."""
        if type(seconds) not in (int, float) or not seconds > 0:
            raise FaultError(f"a delay is a number of seconds above 0, found {seconds!r}")
        make = partial(self._traffic.http, workload, called, HttpFault(delay_s=seconds))
        return self._fault(f"delay {workload} to {called}", make)

    def abort(self, workload: str, called: str, status: int) -> Fault:
        """Answer each of a workload's requests to a service with this status, in its Envoy."""
        if type(status) is not int or not 200 <= status < 600:
            raise FaultError(
                f"a request is answered with a status from 200 to 599, found {status!r}"
            )
        make = partial(self._traffic.http, workload, called, HttpFault(abort_status=status))
        return self._fault(f"abort {workload} to {called}", make)

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The faults and rules that have begun and not ended, oldest first."""
        return self._faults.active

    async def end_faults(self, *, but: Collection[object] = ()) -> tuple[str, ...]:
        """End the faults that have not ended, newest first, and return their names.

        but: faults that stay. A kill that was not waited for is waited for, and not named.
        """
        left = [each for each in self.faults if each not in but]
        for each in reversed(left):
            await each.end()
        return tuple(each.name for each in left if not each.is_moment)

    @asynccontextmanager
    async def _applied(self, documents: Documents) -> AsyncIterator[None]:
        name = self._configuration.new_name("applied")
        await self._configuration.put(name, await asyncio.to_thread(yaml_of, documents))
        yield
        await self._configuration.remove(name)

    def _fault(
        self,
        name: str,
        make: Callable[[], AbstractAsyncContextManager[object]],
        *,
        is_moment: bool = False,
    ) -> Fault:
        return Fault(name, make, faults=self._faults, is_moment=is_moment)
