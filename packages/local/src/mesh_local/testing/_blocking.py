"""The same mesh without asyncio: its loop runs in a thread, and each call waits for it."""

import asyncio
import ssl
import threading
from collections.abc import Collection, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from typing import Any, Self, TypeVar

from mesh_local._errors import MeshLocalError
from mesh_local._running_mesh import RunningMesh
from mesh_local.testing._mesh import REQUEST_S, Mesh
from mesh_local.testing._requests import Response
from mesh_local.testing.faults._documents import Documents
from mesh_local.testing.faults._fault import Fault

T = TypeVar("T")


class MeshThread:
    """A thread that enters and leaves a mesh, and runs what others ask of it meanwhile."""

    def __init__(self, mesh: AbstractAsyncContextManager[Mesh]) -> None:
        self._mesh = mesh
        self._started: Future[BlockingMesh] = Future()
        self._ended: Future[None] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        # Not waited for when the interpreter exits: the kernel ends the mesh with the thread.
        self._thread = threading.Thread(target=self._run, name="mesh-local", daemon=True)

    def start(self) -> "BlockingMesh":
        """Start the mesh; returns when it is ready, and raises what kept it from it."""
        self._thread.start()
        try:
            return self._started.result()
        except BaseException:
            self._interrupt()
            raise

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the mesh's thread and wait for it; raises if the mesh has ended."""
        if self._loop is None or self._ended.done() or threading.current_thread() is self._thread:
            work.close()
            reason = self._ended.exception() if self._ended.done() else None
            raise MeshLocalError(f"the mesh has ended{f': {reason}' if reason else ''}")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        """Leave the mesh's block; raises what went wrong in it."""
        if self._loop is not None and not self._ended.done():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._ended.result()

    def _interrupt(self) -> None:
        """Stop a mesh that is not ready yet, as the caller no longer waits for it."""
        if self._loop is not None and self._task is not None and not self._ended.done():
            self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits for it
            if not self._started.done():
                self._started.set_exception(error)
            self._ended.set_exception(error)
        else:
            self._ended.set_result(None)

    async def _main(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        async with self._mesh as mesh:
            self._started.set_result(BlockingMesh(mesh, self))
            await self._stop.wait()


class BlockingFault:
    """A fault that has begun: it ends with its `with` block, or by `end`."""

    def __init__(self, fault: Fault, thread: MeshThread) -> None:
        self._fault = fault
        self._thread = thread

    def __repr__(self) -> str:
        return repr(self._fault)

    def end(self) -> None:
        """End it; returns when all is as before."""
        self._thread.call(self._fault.end())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


class BlockingMesh:
    """`Mesh` for tests without asyncio; faults and rules begin when they are called."""

    def __init__(self, mesh: Mesh, thread: MeshThread) -> None:
        self._mesh = mesh
        self._thread = thread

    @property
    def running(self) -> RunningMesh:
        """The processes and their state; they belong to the mesh's thread: look, and do no more."""
        return self._mesh.running

    def url(self, workload: str) -> str:
        """Return where the test reaches a workload's program directly: `http://ADDRESS:PORT`."""
        return self._mesh.url(workload)

    def get(
        self,
        workload: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = REQUEST_S,
    ) -> Response:
        """Send a GET as a workload, through its Envoy; see `Mesh.request`."""
        return self._thread.call(
            self._mesh.get(workload, url, headers=headers, timeout_s=timeout_s)
        )

    def request(
        self,
        workload: str,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: str | bytes = b"",
        timeout_s: float = REQUEST_S,
    ) -> Response:
        """Send a request as a workload, through its Envoy; see `Mesh.request`."""
        return self._thread.call(
            self._mesh.request(
                workload, method, url, headers=headers, body=body, timeout_s=timeout_s
            )
        )

    def spiffe_id(self, workload: str) -> str:
        """Return a workload's identity."""
        return self._mesh.spiffe_id(workload)

    def ssl_context(self, workload: str, *, server: bool = False) -> ssl.SSLContext:
        """Return a TLS context with a workload's identity, that trusts the mesh's roots alone."""
        return self._mesh.ssl_context(workload, server=server)

    def logs(self, part: str) -> str:
        """Return what `backend`, `backend.agent`, `backend.envoy` or `control-plane` has logged."""
        return self._mesh.logs(part)

    def apply(self, documents: Documents) -> BlockingFault:
        """Add Istio documents; returns when every proxy has them. See `Mesh.apply`."""
        return self._begun(self._mesh.apply(documents))

    def kill(self, part: str) -> BlockingFault:
        """Kill a process, which is started again at once; returns when it has ended."""
        return self._begun(self._mesh.kill(part))

    def stop(self, part: str) -> BlockingFault:
        """Kill a process, which is started again when the fault ends."""
        return self._begun(self._mesh.stop(part))

    def cut(self, workload: str, called: str) -> BlockingFault:
        """Refuse a workload's connections to a service, and end those that are open."""
        return self._begun(self._mesh.cut(workload, called))

    def delay(self, workload: str, called: str, seconds: float) -> BlockingFault:
        """Hold each of a workload's requests to a service back for this time."""
        return self._begun(self._mesh.delay(workload, called, seconds))

    def abort(self, workload: str, called: str, status: int) -> BlockingFault:
        """Answer each of a workload's requests to a service with this status, in its Envoy."""
        return self._begun(self._mesh.abort(workload, called, status))

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The faults and rules that have begun and not ended, oldest first."""
        return self._mesh.faults

    def end_faults(self, *, but: Collection[object] = ()) -> tuple[str, ...]:
        """End the faults that have not ended, newest first, and return their names."""
        return self._thread.call(self._mesh.end_faults(but=but))

    def _begun(self, fault: Fault) -> BlockingFault:
        return BlockingFault(self._thread.call(fault.begin()), self._thread)
