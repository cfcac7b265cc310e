"""The two kinds of secret, and who provides them."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsCertificate:
    """What one side of a handshake shows. chain_pem: leaf first, no root."""

    chain_pem: bytes
    private_key_pem: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustBundle:
    """What the other side is checked against: any number of roots, as PEM.

    crl_pem: revocation lists, empty for none. Once there is one, Envoy wants one of every
    authority in a chain; crl_of_leaf_only makes it ask only that of the leaf's issuer.
    """

    roots_pem: bytes
    crl_pem: bytes = b""
    crl_of_leaf_only: bool = False


Secret = TlsCertificate | TrustBundle


class SecretSource(Protocol):
    """Where secrets come from: the state now, and word of every change."""

    def get(self, name: str) -> TlsCertificate | TrustBundle | None:
        """Return the newest secret of that name; None: there is none, or none yet. Never blocks.

        What it raises is logged, costs that name alone, and makes it be asked again soon.
        """

    def changes(self) -> AsyncIterator[frozenset[str]]:
        """Yield names whose secret changed, appeared or went away.

        Changes may be gathered into one set, but the last one of a name is never missed.
        """
