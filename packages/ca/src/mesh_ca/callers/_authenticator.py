"""Who is calling: the credentials of a call, and what turns them into identities."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from mesh_ca._errors import NotAuthenticated
from mesh_ca.callers._self_renewal import ShownCertificate


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What a call brings along to show who makes it."""

    metadata: Mapping[str, str] = field(repr=False)  # lower-case keys; holds tokens
    encrypted: bool
    certificate_chain: tuple[bytes, ...] = ()
    """DER, leaf first, already verified by the TLS layer; empty if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Whom a call has proved to come from, and by which method."""

    identities: tuple[str, ...]
    method: str
    shown: ShownCertificate | None = None
    """The certificate of this authority's that was the only proof; None: there was another."""


class Authenticator(Protocol):
    """One way to tell who calls."""

    async def authenticate(self, credentials: Credentials) -> Caller:
        """Who calls; raises NotAuthenticated with a reason for the log, and what of it is told."""
        ...


class FirstOf:
    """Tries authenticators in order; the first that knows the caller decides."""

    def __init__(self, authenticators: Sequence[Authenticator]) -> None:
        """Try `authenticators` in this order."""
        self._authenticators = tuple(authenticators)

    async def authenticate(self, credentials: Credentials) -> Caller:
        """What the first one says that does not raise NotAuthenticated; else all their reasons."""
        reasons, told = [], []
        for authenticator in self._authenticators:
            try:
                return await authenticator.authenticate(credentials)
            except NotAuthenticated as error:
                reasons.append(str(error))
                told.append(error.told)
        raise NotAuthenticated(
            "; ".join(reasons) or "no way to authenticate is configured",
            told="; ".join(filter(None, told)),
        )
