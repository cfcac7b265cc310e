"""One signer process as the serving process has it: its start, its requests, its end."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from signal import SIGKILL
from typing import assert_never, cast

from cryptography.hazmat.primitives import serialization

from mesh_ca._errors import CaError, CsrError
from mesh_ca.authority._authority import Authority, Issued, Order
from mesh_ca.authority._csr import check_size
from mesh_ca.authority._signer import Signer
from mesh_ca.signers._frames import Answer, Failed, Frames, Install, Refused, Sign, Signed, frame
from mesh_lifecycle.processes import start_tied

# -P: no module is taken from the directory that the server was started in.
_COMMAND = (sys.executable, "-P", "-m", "mesh_ca.signers._process")
_KILLED_S = 2.0


@dataclass(slots=True, kw_only=True, eq=False)
class Call:
    """One call of `sign`, and its answer as soon as there is one."""

    csr: bytes
    identities: Sequence[str]
    lifetime: timedelta | None
    proven_at: datetime | None
    answer: "asyncio.Future[Issued]" = field(repr=False)
    begun: float  # by the event loop's clock
    order: Order | None = None
    ended_processes: int = 0
    """How many processes ended while they were at this call."""

    def fail(self, error: Exception) -> None:
        """Answer with an error, unless the caller has gone."""
        if not self.answer.done():
            self.answer.set_exception(error)


class SignerProcess(asyncio.Protocol):
    """The calls that a running process was given and has not answered yet, in order."""

    def __init__(self, authority: Authority, *, answered: Callable[[], None]) -> None:
        """answered: is called after each answer."""
        self._authority = authority
        self._answered = answered
        self._installed: Signer | None = None
        self._frames = Frames()
        self._number = 0
        self._transport: asyncio.WriteTransport
        self._loop = asyncio.get_running_loop()
        self._heard = 0.0
        self._has_answered = False
        self._calls: dict[int, tuple[Call, Order]] = {}
        self.ended = asyncio.Event()
        self.reason = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's is no subclass of it

    def connection_lost(self, _error: Exception | None) -> None:
        self.end("it has ended")

    def end(self, reason: str) -> None:
        """The process gets no more calls, and is killed."""
        self.reason = self.reason or reason
        self.ended.set()

    def close(self) -> None:
        """End the connection at once."""
        self._transport.abort()

    @property
    def load(self) -> int:
        """How many calls have no answer yet."""
        return len(self._calls)

    def unanswered(self) -> list[Call]:
        """Return the calls that have no answer yet, in order; the process was at the first."""
        return [call for call, _ in self._calls.values()]

    def give(self, call: Call) -> None:
        """Have a call signed, by the signer that the authority has now."""
        signer = self._authority.signer
        if call.order is None or call.order.signer is not signer:
            try:
                check_size(call.csr)
                call.order = self._authority.order(
                    call.identities, lifetime=call.lifetime, proven_at=call.proven_at
                )
            except CaError as error:
                call.fail(error)
                self._answered()
                return
        if signer is not self._installed:
            self._transport.write(frame(_install(signer)))
            self._installed = signer
        leaf = call.order.leaf
        if not self._calls:
            self._heard = self._loop.time()
        self._number += 1
        self._calls[self._number] = call, call.order
        self._transport.write(
            frame(
                Sign(
                    number=self._number,
                    csr=call.csr,
                    names=leaf.names,
                    common_name=leaf.common_name,
                    serial=leaf.serial.to_bytes(20, "big"),
                    not_before=int(leaf.not_before.timestamp()),
                    not_after=int(leaf.not_after.timestamp()),
                )
            )
        )

    def hangs(self, *, silent_s: float, start_s: float) -> bool:
        """Return whether it has calls and answers none, before its first answer for `start_s`."""
        longest_s = silent_s if self._has_answered else start_s
        return bool(self._calls) and self._loop.time() - self._heard > longest_s

    def data_received(self, data: bytes) -> None:
        self._heard, self._has_answered = self._loop.time(), True
        try:
            for answer in self._frames.answers(data):
                self._take(answer)
        except (ValueError, KeyError) as error:
            self.end(f"it sent what is no answer: {error!r}")

    def _take(self, answer: Answer) -> None:
        call, order = self._calls.pop(answer.number)
        if not call.answer.done():
            match answer:
                case Signed():
                    issued = order.issued(
                        answer.leaf_pem, public_key_sha256=answer.public_key_sha256
                    )
                    call.answer.set_result(issued)
                case Refused():
                    call.answer.set_exception(CsrError(answer.reason))
                case Failed():
                    call.answer.set_exception(RuntimeError(answer.reason))
                case _:
                    assert_never(answer)
        self._answered()


def _install(signer: Signer) -> Install:
    return Install(
        certificate=signer.certificate.public_bytes(serialization.Encoding.DER),
        key=signer.key.private_bytes(
            serialization.Encoding.DER,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )


@asynccontextmanager
async def started(
    authority: Authority, *, answered: Callable[[], None]
) -> AsyncIterator[tuple[SignerProcess, int]]:
    """Start a process, which ends with the block or with this process; gives its id too.

    Raises OSError.
    """
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            popen = start_tied(_COMMAND, end_signal=SIGKILL, stdin=theirs.fileno())
    except OSError:
        ours.close()
        raise
    try:
        _, process = await asyncio.get_running_loop().create_unix_connection(
            lambda: SignerProcess(authority, answered=answered), sock=ours
        )
        try:
            yield process, popen.pid
        finally:
            process.close()
    finally:
        ours.close()
        _kill(popen)


def _kill(popen: "subprocess.Popen[bytes]") -> None:
    popen.kill()  # it has nothing to finish, and a stopped one would not end by the socket's end
    # Without awaiting, so that a second cancellation leaves no zombie. Only a process that hangs in
    # a system call takes time to end.
    with suppress(subprocess.TimeoutExpired):
        popen.wait(_KILLED_S)
