"""Certificates for programs that have no event loop: one runs in a thread beside them."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType
from typing import Self, TypeVar

from certclient._errors import FeedClosed
from certclient.authorities._istio_ca import istio_ca
from certclient.authorities._istio_ca_config import IstioCaConfig
from certclient.feed._certificates import FIRST_WITHIN_S, Certificates
from certclient.rotation._rotation import keep_fresh
from certclient.rotation._rotation_config import RotationConfig
from certclient.x509._certificate import Certificate

T = TypeVar("T")


class CertificatesInThread:
    """Keeps certificates fresh in a thread while the block runs.

    TLS contexts of `certificates` work in every thread. A program that forks has to start it
    afterwards: threads do not go along. Errors of the source's start are raised on entering.
    """

    def __init__(self, source: Callable[[], AbstractAsyncContextManager[Certificates]]) -> None:
        """source: opens the certificates, as `lambda: follow_files(config)` does; it is called in
        the thread.
        """
        self._source = source
        self._thread = threading.Thread(target=self._run, name="certclient", daemon=True)
        self._opened = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._certificates: Certificates | None = None
        self._failure: BaseException | None = None

    @classmethod
    def from_ca(cls, ca: IstioCaConfig, workload: RotationConfig) -> Self:
        """Ask an Istio CA for them."""
        return cls(lambda: _FromCa(ca, workload))

    def __enter__(self) -> Self:
        self._thread.start()
        self._opened.wait()
        if self._certificates is None:
            self._thread.join()
            self._raise_failure()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        loop, stopping = self._loop, self._stopping
        if loop is not None and stopping is not None and not loop.is_closed():
            loop.call_soon_threadsafe(stopping.set)
        self._thread.join()

    @property
    def certificates(self) -> Certificates:
        """The source for TLS contexts; its coroutines are of the thread."""
        if self._certificates is None:
            raise FeedClosed("certificates are there while the block of `with` runs")
        return self._certificates

    @property
    def latest(self) -> Certificate | None:
        """The valid certificate; None before the first and after the last expired."""
        return self.certificates.latest

    @property
    def last_error(self) -> str | None:
        """Why the newest attempt failed; None after a success."""
        return self.certificates.last_error

    def wait_for_first(self, *, timeout_s: float | None = FIRST_WITHIN_S) -> Certificate:
        """Wait until there is a valid certificate; raises as `Certificates.wait_for_first` does."""
        return self._call(self.certificates.wait_for_first(timeout_s=timeout_s))

    def renew(self) -> Certificate:
        """Request a new certificate and wait for it; raises RenewalFailed with the reason."""
        return self._call(self.certificates.renew())

    def _call(self, work: Coroutine[object, object, T]) -> T:
        loop = self._loop
        if loop is None or loop.is_closed():
            work.close()
            self._raise_failure()
        assert loop is not None  # noqa: S101 - it was just looked at
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure
        raise FeedClosed("the thread that keeps the certificates has ended")

    def _run(self) -> None:
        try:
            asyncio.run(self._keep())
        except BaseException as error:  # noqa: BLE001 - it is raised in the program's own thread
            self._failure = error
        finally:
            self._opened.set()

    async def _keep(self) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        async with self._source() as certificates:
            self._certificates = certificates
            self._opened.set()
            await self._stopping.wait()


class _FromCa(AbstractAsyncContextManager[Certificates]):
    def __init__(self, ca: IstioCaConfig, workload: RotationConfig) -> None:
        self._ca = ca
        self._workload = workload
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Certificates:
        authority = await self._stack.enter_async_context(istio_ca(self._ca))
        keeping = keep_fresh(self._workload, authority, depends_on=self._ca.files)
        return await self._stack.enter_async_context(keeping)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return await self._stack.__aexit__(kind, error, traceback)
