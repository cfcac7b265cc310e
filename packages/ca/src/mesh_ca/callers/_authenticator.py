"""The protocol of authenticators: from the credentials of a call to the identities of its caller.

The modules beside it do the work: `_client_certificate` by the certificate of the TLS connection,
`_jwt` by a token, with the keys of `_jwks` or `_remote_jwks`. `_self_renewal` limits renewals by a
certificate alone, and `_token_issuer` issues tokens.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from mesh_ca._errors import NotAuthenticated
from mesh_ca.callers._self_renewal import ShownCertificate


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """The metadata and the client certificate of a call, by which its caller is authenticated.

    address: of the caller, for the log; never a proof.
    """

    metadata: Mapping[str, str] = field(repr=False)  # lower-case keys; holds tokens
    encrypted: bool
    certificate_chain: tuple[bytes, ...] = ()
    """DER, leaf first, already verified by the TLS layer; empty if there is none."""
    address: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The identities that a caller has proved to have, and the method of the proof."""

    identities: tuple[str, ...]
    method: str
    shown: ShownCertificate | None = None
    """The certificate of this authority, if it was the only proof; None if there was another."""


class Authenticator(Protocol):
    """One way to authenticate callers."""

    async def authenticate(self, credentials: Credentials) -> Caller:
        """Return the caller; raises NotAuthenticated with the reason."""
        ...


class FirstOf:
    """Tries authenticators in order, until one authenticates the caller."""

    def __init__(self, authenticators: Sequence[Authenticator]) -> None:
        """Try `authenticators` in this order."""
        self._authenticators = tuple(authenticators)

    async def authenticate(self, credentials: Credentials) -> Caller:
        """Return the first success; if all fail, raises NotAuthenticated with every reason."""
        reasons, public_reasons = [], []
        for authenticator in self._authenticators:
            try:
                return await authenticator.authenticate(credentials)
            except NotAuthenticated as error:
                reasons.append(str(error))
                public_reasons.append(error.public_reason)
        raise NotAuthenticated(
            "; ".join(reasons) or "no authenticator is configured",
            public_reason="; ".join(filter(None, public_reasons)),
        )
