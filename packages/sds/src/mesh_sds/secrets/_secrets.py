"""The two kinds of secret, and the protocol of their source."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsCertificate:
    """The certificate and key of one side of a handshake. chain_pem: leaf first, no root."""

    chain_pem: bytes
    private_key_pem: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustBundle:
    """The roots that a peer's chain may lead to, any number, as PEM.

    crl_pem: revocation lists, empty for none. With one, Envoy needs a list of every authority in a
    chain; with crl_of_leaf_only, only the list of the leaf's issuer.
    """

    roots_pem: bytes
    crl_pem: bytes = b""
    crl_of_leaf_only: bool = False


Secret = TlsCertificate | TrustBundle


class SecretSource(Protocol):
    """The source of secrets: their current state, and the names of those that change."""

    def get(self, name: str) -> TlsCertificate | TrustBundle | None:
        """Return the newest secret of that name; None if there is none (yet). Never blocks.

        An exception is logged; the name is asked for again soon, and other names are served.
        """

    def changes(self) -> AsyncIterator[frozenset[str]]:
        """Yield names whose secret changed, appeared or was removed; first all that there are.

        Several changes may be one set, but the last change of a name is never missed.
        """
