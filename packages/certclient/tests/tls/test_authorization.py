"""Which peers are accepted, over real handshakes: first the trust domain, then the workload."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from certclient import (
    Authorize,
    Certificates,
    InvalidConfig,
    InvalidSpiffeId,
    RotationConfig,
    SpiffeId,
    TrustConfig,
    authorize_ids,
    authorize_namespace,
    authorize_service_account,
    client_context,
    keep_fresh,
    server_context,
    with_trust,
)
from certclient.testing import FakeAuthority

OURS = "spiffe://cluster.local/ns/shop/sa/cart"
THEIRS = "spiffe://partner.example/ns/shop/sa/cart"


def shake(ours: ssl.SSLContext, theirs: ssl.SSLContext) -> None:
    """One handshake in memory, by real TLS: `ours` serves. Raises what either side raises."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = theirs.wrap_bio(to_client, to_server, server_hostname="anything")
    server = ours.wrap_bio(to_server, to_client, server_side=True)
    waiting = [client, server]
    while waiting:
        for side in tuple(waiting):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(side)


@asynccontextmanager
async def holder(
    uri: str, authority: FakeAuthority, trust: TrustConfig | None = None
) -> AsyncIterator[Certificates]:
    config = RotationConfig(spiffe_id=SpiffeId.parse(uri))
    async with keep_fresh(config, authority) as kept, with_trust(kept, trust) as certificates:
        async for certificate in certificates.changes():
            wanted = len(trust.federated) if trust else 0
            if certificate is not None and len(certificate.federated_bundles) == wanted:
                break  # the files are read
        yield certificates


@pytest.fixture
def partner() -> FakeAuthority:
    authority = FakeAuthority(intermediates=1)
    authority.change_root()  # to another name
    return authority


@pytest.fixture
def roots(tmp_path: Path, real_authority: FakeAuthority, partner: FakeAuthority) -> Path:
    (tmp_path / "ours.pem").write_bytes(real_authority.root_pem)
    (tmp_path / "partner.pem").write_bytes(partner.root_pem)
    return tmp_path


@pytest.mark.parametrize(
    "authorize",
    [None, lambda _: True, lambda peer: peer.namespace == "shop", authorize_namespace("shop")],
    ids=["nothing said", "everybody", "by hand", "helper"],
)
async def test_another_trust_domain_is_not_let_in_whatever_is_asked_of_its_namespace(
    authorize: Authorize | None, real_authority: FakeAuthority
) -> None:
    async with (
        holder(OURS, real_authority) as ours,
        # An authority that signs for two trust domains: the chain is good, the name is foreign.
        holder(THEIRS, real_authority) as foreign,
    ):
        shake(server_context(ours, authorize), client_context(ours, authorize))
        with pytest.raises(ssl.SSLCertVerificationError, match=r"only trust domain cluster\.local"):
            shake(server_context(foreign), client_context(ours, authorize))


async def test_an_anchor_added_to_our_trust_speaks_for_no_other_trust_domain(
    roots: Path, real_authority: FakeAuthority, partner: FakeAuthority
) -> None:
    trust = TrustConfig(
        anchors_path=roots / "partner.pem", federated=(("third.example", roots / "partner.pem"),)
    )
    async with (
        holder(OURS, real_authority, trust) as ours,
        holder(THEIRS, partner) as theirs,
    ):
        let_in = client_context(ours, trust_domains=["partner.example", "third.example"])
        with pytest.raises(ssl.SSLCertVerificationError, match=r"no root of partner\.example"):
            shake(server_context(theirs), let_in)


async def test_a_federated_root_does_not_speak_for_our_trust_domain(
    roots: Path, real_authority: FakeAuthority, partner: FakeAuthority
) -> None:
    trust = TrustConfig(federated=(("partner.example", roots / "partner.pem"),))
    async with (
        holder(OURS, real_authority, trust) as ours,
        holder(OURS, partner) as pretender,
    ):
        let_in = client_context(ours, trust_domains=["partner.example"])
        with pytest.raises(ssl.SSLCertVerificationError, match=r"no root of cluster\.local"):
            shake(server_context(pretender), let_in)
        shake(server_context(ours), let_in)


async def test_two_trust_domains_meet_when_each_knows_the_others_roots_and_lets_it_in(
    roots: Path, real_authority: FakeAuthority, partner: FakeAuthority
) -> None:
    we = TrustConfig(federated=(("partner.example", roots / "partner.pem"),))
    they = TrustConfig(federated=(("cluster.local", roots / "ours.pem"),))
    async with (
        holder(OURS, real_authority, we) as ours,
        holder(THEIRS, partner, they) as theirs,
    ):
        server = server_context(
            ours, authorize_namespace("shop"), trust_domains=["partner.example"]
        )
        shake(server, client_context(theirs, trust_domains=["cluster.local"]))
        # A bundle alone does not make peers accepted.
        with pytest.raises(ssl.SSLError):
            shake(server_context(ours), client_context(theirs, trust_domains=["cluster.local"]))
        other = server_context(ours, authorize_namespace("x"), trust_domains=["partner.example"])
        with pytest.raises(ssl.SSLCertVerificationError, match="may not connect"):
            shake(other, client_context(theirs, trust_domains=["cluster.local"]))


@pytest.mark.parametrize(
    ("authorize", "allowed"),
    [
        (authorize_namespace("shop"), True),
        (authorize_namespace("bank", "shop"), True),
        (authorize_namespace("bank"), False),
        (authorize_service_account("shop", "cart"), True),
        (authorize_service_account("shop", "web"), False),
        (authorize_ids(OURS), True),
        (authorize_ids(SpiffeId.parse(OURS), THEIRS), True),
        (authorize_ids(THEIRS), False),
    ],
)
async def test_helpers_say_who_may_connect(
    authorize: Authorize, *, allowed: bool, real_authority: FakeAuthority
) -> None:
    assert authorize(SpiffeId.parse(OURS)) is allowed
    async with holder(OURS, real_authority) as ours:
        if allowed:
            shake(server_context(ours, authorize), client_context(ours))
        else:
            with pytest.raises(ssl.SSLCertVerificationError, match="may not connect"):
                shake(server_context(ours, authorize), client_context(ours))


def test_an_id_of_another_form_is_of_no_namespace() -> None:
    other = SpiffeId.parse("spiffe://cluster.local/database")
    assert not authorize_namespace("shop")(other)
    for nothing in ((), ("",)):
        with pytest.raises(InvalidConfig, match="must be named"):
            authorize_namespace(*nothing)
    with pytest.raises(InvalidConfig, match="must be named"):
        authorize_service_account("shop", "")
    with pytest.raises(InvalidSpiffeId):
        authorize_ids("shop/cart")


async def test_trust_domains_are_a_collection_of_names(
    config: RotationConfig, real_authority: FakeAuthority
) -> None:
    async with asyncio.timeout(60), keep_fresh(config, real_authority) as certificates:
        with pytest.raises(InvalidConfig, match="a collection of names is right"):
            server_context(certificates, trust_domains="partner.example")
        with pytest.raises(InvalidSpiffeId, match="trust domain"):
            client_context(certificates, trust_domains=["spiffe://partner.example"])
    with pytest.raises(InvalidSpiffeId, match="trust domain"):
        replace(TrustConfig(), federated=(("Partner", Path("x")),))
