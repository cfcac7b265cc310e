"""Which peers may connect: first the trust domain is checked, then the workload.

The namespace of a SPIFFE id means something within its trust domain only: anyone can set up a trust
domain with a namespace "shop". So the trust domain is always checked first, and a peer belongs to a
trust domain only if its certificate leads to a root of that trust domain.
SPIFFE Federation, section 5: a bundle is used for the ids of its own trust domain alone.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from certclient._errors import InvalidConfig
from certclient.x509._certificate import Certificate
from mesh_identity import SpiffeId, checked_trust_domain

Authorize = Callable[[SpiffeId], bool]


def authorize_namespace(*namespaces: str) -> Authorize:
    """Authorize the workloads of these namespaces."""
    _check_named(namespaces, what="namespace")
    return lambda peer: peer.namespace in namespaces


def authorize_service_account(namespace: str, service_account: str) -> Authorize:
    """Authorize the workloads of one service account."""
    _check_named((namespace, service_account), what="namespace and service account")
    wanted = namespace, service_account
    return lambda peer: (peer.namespace, peer.service_account) == wanted


def authorize_ids(*spiffe_ids: SpiffeId | str) -> Authorize:
    """Authorize these SPIFFE ids; raises InvalidSpiffeId for a text that is none.

    An id of another trust domain is authorized only if that trust domain is accepted too: see
    `trust_domains` of `server_context`.
    """
    _check_named(spiffe_ids, what="SPIFFE id")
    wanted = frozenset(
        SpiffeId.parse(each) if isinstance(each, str) else each for each in spiffe_ids
    )
    return lambda peer: peer in wanted


def _check_named(names: Collection[object], *, what: str) -> None:
    # Ids of other forms have an empty namespace, so an empty name would authorize all of them.
    if not names or not all(names):
        raise InvalidConfig(f"{what} must be named, got {names!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerRule:
    """Which peers may connect.

    authorize: called for a peer of an accepted trust domain; None accepts all of these.
    trust_domains: accepted besides our own trust domain.
    """

    authorize: Authorize | None = None
    trust_domains: frozenset[str] = frozenset()

    def refusal(self, peer: SpiffeId, *, own_trust_domain: str) -> str | None:
        """Return why this peer may not connect; None if it may."""
        domain = peer.trust_domain
        if domain != own_trust_domain and domain not in self.trust_domains:
            accepted = " or ".join((own_trust_domain, *sorted(self.trust_domains)))
            return f"the peer is {peer}, and only trust domain {accepted} is accepted"
        if self.authorize is not None and not self.authorize(peer):
            return f"the peer is {peer}, which may not connect"
        return None


def peer_rule(authorize: Authorize | None, trust_domains: Collection[str]) -> PeerRule:
    """Make a rule; raises InvalidConfig or InvalidSpiffeId for names that are no trust domains."""
    if isinstance(trust_domains, str):
        raise InvalidConfig(
            f"trust_domains is one string, {trust_domains!r}: a collection of names is right"
        )
    domains = frozenset(checked_trust_domain(domain) for domain in trust_domains)
    return PeerRule(authorize=authorize, trust_domains=domains)


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchors:
    """The roots that certificates of each trust domain must lead to, DER."""

    by_trust_domain: Mapping[str, frozenset[bytes]]

    def refusal(self, peer: SpiffeId, verified_chain: tuple[bytes, ...]) -> str | None:
        """Return why this chain does not prove the peer's trust domain; None if it does.

        verified_chain: DER, leaf first, root last; empty if a session was resumed.
        """
        if len(self.by_trust_domain) == 1 and peer.trust_domain in self.by_trust_domain:
            return None  # only this trust domain's roots verified the connection
        if not verified_chain:
            return f"the peer is {peer}, in a resumed session, which has no record of its root"
        if verified_chain[-1] in self.by_trust_domain.get(peer.trust_domain, ()):
            return None
        return f"the peer is {peer}, and its certificate leads to no root of {peer.trust_domain}"


def bundles_for(certificate: Certificate, rule: PeerRule) -> dict[str, bytes]:
    """Return the PEM bundles that peers under this rule are verified by, by trust domain."""
    own = certificate.spiffe_id.trust_domain
    bundles = {own: certificate.trust_bundle_pem}
    for domain, pem in certificate.federated_bundles:
        if domain == own or domain in rule.trust_domains:
            bundles[domain] = bundles.get(domain, b"") + pem
    return bundles


def anchors(bundles: Mapping[str, bytes]) -> Anchors:
    """Read PEM bundles into the roots of each trust domain."""
    return Anchors(
        by_trust_domain={
            domain: frozenset(
                root.public_bytes(Encoding.DER) for root in x509.load_pem_x509_certificates(pem)
            )
            for domain, pem in bundles.items()
        }
    )
