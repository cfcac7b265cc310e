"""The certificate as a value, with its key and its trust bundle."""

from dataclasses import dataclass, field
from datetime import datetime

from mesh_identity import SpiffeId


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A workload certificate with its key and the roots it trusts, as one unit.

    chain_pem: leaf first, no root. trust_bundle_pem: the roots peers are checked against.
    crl_pem: revocation lists for peers' chains, PEM; empty for none.
    federated_bundles: other trust domains and their roots, PEM. Each bundle verifies peers of its
        own trust domain only, as trust_bundle_pem verifies peers of ours.
    not_after: when the chain stops being valid (the earliest end among leaf and intermediates).
    Times are aware and UTC.
    """

    private_key_pem: bytes = field(repr=False)
    chain_pem: bytes = field(repr=False)
    trust_bundle_pem: bytes = field(repr=False)
    spiffe_id: SpiffeId
    serial: int
    not_before: datetime
    not_after: datetime
    crl_pem: bytes = field(default=b"", repr=False)
    federated_bundles: tuple[tuple[str, bytes], ...] = field(default=(), repr=False)
