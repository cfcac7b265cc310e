"""Which peers may connect: first of which trust domain, then which of its workloads.

A SPIFFE id's namespace means something within its trust domain only: anybody can found a trust
domain and have a namespace "shop" in it. So the trust domain is looked at first, whatever else is
asked, and a peer speaks for a trust domain only if its certificate leads to a root of that one.
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
    """Say yes to the workloads of these namespaces."""
    _check_named(namespaces, what="namespace")
    return lambda peer: peer.namespace in namespaces


def authorize_service_account(namespace: str, service_account: str) -> Authorize:
    """Say yes to the workloads of one service account."""
    _check_named((namespace, service_account), what="namespace and service account")
    wanted = namespace, service_account
    return lambda peer: (peer.namespace, peer.service_account) == wanted


def authorize_ids(*spiffe_ids: SpiffeId | str) -> Authorize:
    """Say yes to these SPIFFE ids; raises InvalidSpiffeId for a text that is none.

    Of ids of other trust domains only those count whose trust domain is let in at all.
    """
    _check_named(spiffe_ids, what="SPIFFE id")
    wanted = frozenset(
        SpiffeId.parse(each) if isinstance(each, str) else each for each in spiffe_ids
    )
    return lambda peer: peer in wanted


def _check_named(names: Collection[object], *, what: str) -> None:
    # An empty namespace is that of every id of another form, which nobody means to name.
    if not names or not all(names):
        raise InvalidConfig(f"{what} must be named, got {names!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerRule:
    """Which peers may connect.

    authorize: asked about a peer whose trust domain is let in; None lets all of these in.
    trust_domains: whose peers are let in besides those of our own trust domain.
    """

    authorize: Authorize | None = None
    trust_domains: frozenset[str] = frozenset()

    def refusal(self, peer: SpiffeId, *, own_trust_domain: str) -> str | None:
        """Why this peer may not connect; None if it may."""
        domain = peer.trust_domain
        if domain != own_trust_domain and domain not in self.trust_domains:
            let_in = " or ".join((own_trust_domain, *sorted(self.trust_domains)))
            return f"the peer is {peer}, and only trust domain {let_in} is let in"
        if self.authorize is not None and not self.authorize(peer):
            return f"the peer is {peer}, which may not connect"
        return None


def peer_rule(authorize: Authorize | None, trust_domains: Collection[str]) -> PeerRule:
    """Make a rule of what a caller passed; raises InvalidConfig for what is no trust domain."""
    if isinstance(trust_domains, str):
        raise InvalidConfig(
            f"trust_domains is one string, {trust_domains!r}: a collection of names is right"
        )
    domains = frozenset(checked_trust_domain(domain) for domain in trust_domains)
    return PeerRule(authorize=authorize, trust_domains=domains)


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchors:
    """The roots that may speak for each trust domain, DER."""

    by_trust_domain: Mapping[str, frozenset[bytes]]

    def refusal(self, peer: SpiffeId, verified_chain: tuple[bytes, ...]) -> str | None:
        """Why this chain does not speak for the peer's trust domain; None if it does.

        verified_chain: DER, leaf first, root last; empty where a session was resumed.
        """
        if len(self.by_trust_domain) == 1 and peer.trust_domain in self.by_trust_domain:
            return None  # all that the connection was verified by is this trust domain's
        if not verified_chain:
            return f"the peer is {peer}, in a resumed session, which does not tell its root"
        if verified_chain[-1] in self.by_trust_domain.get(peer.trust_domain, ()):
            return None
        return f"the peer is {peer}, and its certificate leads to no root of {peer.trust_domain}"


def bundles_for(certificate: Certificate, rule: PeerRule) -> dict[str, bytes]:
    """The PEM bundles that peers under this rule are verified by, by trust domain."""
    own = certificate.spiffe_id.trust_domain
    bundles = {own: certificate.trust_bundle_pem}
    for domain, pem in certificate.federated_bundles:
        if domain == own or domain in rule.trust_domains:
            bundles[domain] = bundles.get(domain, b"") + pem
    return bundles


def anchors(bundles: Mapping[str, bytes]) -> Anchors:
    """Take bundles apart."""
    return Anchors(
        by_trust_domain={
            domain: frozenset(
                root.public_bytes(Encoding.DER) for root in x509.load_pem_x509_certificates(pem)
            )
            for domain, pem in bundles.items()
        }
    )
