"""Compares the workload certificate that Envoy serves with the newest one, after each renewal.

That the secret was sent, and acknowledged, is known from SDS. That Envoy's listeners and clusters
use it is what its admin interface tells of their TLS contexts (`/certs`), and only that counts for
a peer. Envoy is asked after each renewal until it serves the new one, and then every few minutes.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Protocol

import msgspec

import certclient
import envoy_supervisor
from mesh_lifecycle import Clock, SystemClock

log = logging.getLogger(__name__)

SETTLES_S = 15.0
"""How long Envoy may take to serve a new certificate before that is reported as trouble."""
_FIRST_LOOK_S = 0.05
_LOOKS_AGAIN_S = {True: 300.0, None: 60.0, False: 30.0}
"""After how long Envoy is asked again: if it serves the newest, serves none, or another one."""
_LOOKS_FOR_RESTART_S = 30.0


class TellsCertificates(Protocol):
    """The part of Envoy's admin interface that is asked here."""

    async def certs(self) -> Sequence[Mapping[str, envoy_supervisor.JSON]]:
        """Return the certificates of Envoy's TLS contexts; raises `AdminError`."""


class ServingEnvoy(Protocol):
    """The Envoy that serves now; a hot restart or a crash makes it another."""

    @property
    def pid(self) -> int: ...

    @property
    def admin(self) -> TellsCertificates: ...


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """A certificate that Envoy serves. not_after: in Envoy's words."""

    serial: int
    not_after: str


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one look at Envoy.

    served: the certificates of this workload in Envoy's TLS contexts; usually one.
    matches: whether Envoy serves the newest one and no other. None if that can't be said: Envoy
        serves none or does not answer, or there is none to compare with.
    """

    at: datetime
    pid: int
    served: tuple[Served, ...]
    issued: int | None
    matches: bool | None


class ServedCertificate:
    """Follows the certificate that Envoy serves.

    certificates: None where another process serves Envoy's secrets: nothing is compared then.
    spiffe_id: of the workload; by it its certificate is known among those that a gateway serves.
    """

    def __init__(
        self,
        envoy: ServingEnvoy,
        certificates: certclient.Certificates | None,
        *,
        spiffe_id: str,
        clock: Clock | None = None,
        settles_s: float = SETTLES_S,
    ) -> None:
        self._envoy = envoy
        self._certificates = certificates
        self._spiffe_id = spiffe_id
        self._clock = clock or SystemClock()
        self._settles_s = settles_s
        self.latest: Comparison | None = None
        """The newest comparison; None before the first."""

    @property
    def trouble(self) -> str | None:
        """Why peers see another certificate than the newest one; None if they do not."""
        known = self.latest
        if known is None or known.matches is not False or known.issued is None:
            return None
        served = ", ".join(sorted(f"{each.serial:x}" for each in known.served))
        return (
            f"envoy (pid {known.pid}) serves the certificate with serial {served}, "
            f"not the newest one with serial {known.issued:x}"
        )

    def describe(self) -> Mapping[str, object]:
        """Return the newest comparison for `/debug/status`; empty before the first."""
        known = self.latest
        if known is None:
            return {}
        return {
            "serial": ", ".join(f"{each.serial:x}" for each in known.served),
            "not_after": min((each.not_after for each in known.served), default=""),
            "matches": known.matches,
            "pid": known.pid,
            "at": known.at.isoformat(),
        }

    async def follow(self) -> None:
        """Compare after each renewal, and then seldom. Runs until cancelled."""
        while True:
            pid, issued = self._envoy.pid, self._issued
            await self._settle()
            matches = None if self.latest is None else self.latest.matches
            again_at = self._clock.monotonic() + _LOOKS_AGAIN_S[matches]
            while (pid, issued) == (self._envoy.pid, self._issued):
                left_s = again_at - self._clock.monotonic()
                if left_s <= 0:
                    break
                await self._wait_renewal(min(left_s, _LOOKS_FOR_RESTART_S))

    async def _settle(self) -> None:
        """Look until Envoy serves the newest certificate, for at most `settles_s`."""
        until = self._clock.monotonic() + self._settles_s
        pause_s = _FIRST_LOOK_S
        while True:
            found = await self._compare()
            overdue = self._clock.monotonic() >= until
            if found.matches or overdue:
                self._keep(found)
                return
            await self._clock.sleep(pause_s)
            pause_s *= 2

    async def _compare(self) -> Comparison:
        pid, issued = self._envoy.pid, self._issued
        try:
            certificates = await self._envoy.admin.certs()
        except envoy_supervisor.AdminError as error:
            log.debug("envoy's certificates are not known", extra={"reason": str(error)})
            certificates = []
        of_serial = {each.serial: each for each in served_by(certificates, self._own_id)}
        served = tuple(of_serial.values())
        comparable = issued is not None and served
        return Comparison(
            at=datetime.fromtimestamp(self._clock.now(), tz=UTC),
            pid=pid,
            served=served,
            issued=issued,
            matches=all(each.serial == issued for each in served) if comparable else None,
        )

    def _keep(self, found: Comparison) -> None:
        before, self.latest = self.trouble, found
        if (trouble := self.trouble) != before:
            if trouble is None:
                log.info("envoy serves the newest certificate again", extra={"pid": found.pid})
            else:
                log.warning("envoy serves another certificate", extra={"reason": trouble})

    @property
    def _issued(self) -> int | None:
        latest = None if self._certificates is None else self._certificates.latest
        return None if latest is None else latest.serial

    @property
    def _own_id(self) -> str:
        latest = None if self._certificates is None else self._certificates.latest
        return self._spiffe_id if latest is None else str(latest.spiffe_id)

    async def _wait_renewal(self, longest_s: float) -> None:
        """Wait until there is another certificate, or for so long."""
        if self._certificates is None:
            await self._clock.sleep(longest_s)
            return
        before = self._certificates.latest
        waiting = asyncio.ensure_future(_changed(self._certificates, before))
        sleeping = asyncio.ensure_future(self._clock.sleep(longest_s))
        try:
            await asyncio.wait({waiting, sleeping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in (waiting, sleeping):
                each.cancel()
            await asyncio.wait({waiting, sleeping})


async def _changed(
    certificates: certclient.Certificates, before: certclient.Certificate | None
) -> None:
    async for certificate in certificates.changes():
        if certificate is not before:
            return
    await asyncio.Event().wait()  # rotation has stopped: no other one will come


def served_by(
    certificates: Sequence[Mapping[str, envoy_supervisor.JSON]], spiffe_id: str
) -> Iterator[Served]:
    """Yield the certificates with this SPIFFE id; `certificates` is Envoy's answer to `/certs`."""
    for context in certificates:
        chain = context.get("cert_chain")
        for leaf in chain if isinstance(chain, list) else ():
            if isinstance(leaf, dict) and _names(leaf, spiffe_id):
                try:
                    serial = int(str(leaf.get("serial_number")), 16)
                except ValueError:
                    continue
                yield Served(serial=serial, not_after=str(leaf.get("expiration_time", "")))


def _names(leaf: Mapping[str, envoy_supervisor.JSON], spiffe_id: str) -> bool:
    names = leaf.get("subject_alt_names")
    return isinstance(names, list) and any(
        isinstance(name, dict) and name.get("uri") == spiffe_id for name in names
    )
