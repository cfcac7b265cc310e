import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from envoy.service.discovery.v3.discovery_pb2 import DiscoveryResponse

import certclient
import mesh_sds
import xds_proxy
from certclient.testing import FakeAuthority
from mesh_agent.identity._certificate_secrets import CertificateSecrets
from mesh_agent.identity._learned_roots import (
    CERTIFICATE_AUTHORITY,
    CONFIGURATION,
    further_roots,
    learn_from_answers,
)
from mesh_agent.identity._trust_bundle_updates import TrustBundleUpdates
from mesh_identity import LearnedRoots
from mesh_lifecycle import in_background
from mesh_lifecycle.testing import ManualClock
from mesh_protos import type_urls
from mesh_protos.proxy_config_pb2 import ProxyConfig
from mesh_testkit import until

SPIFFE_ID = certclient.SpiffeId.for_service_account(
    trust_domain="mesh.example", namespace="shop", service_account="web"
)
ROTATION = certclient.RotationConfig(spiffe_id=SPIFFE_ID, lifetime=timedelta(hours=1), jitter=0)
BOTH = frozenset({"default", "ROOTCA"})


async def test_nothing_is_there_before_the_first_certificate() -> None:
    clock = ManualClock()
    async with certclient.keep_fresh(
        ROTATION, FakeAuthority(clock=clock), clock=clock
    ) as certificates:
        secrets = CertificateSecrets(certificates)
        assert secrets.get("default") is None
        assert secrets.get("ROOTCA") is None


async def test_certificate_and_bundle_appear_together_and_other_names_never() -> None:
    clock = ManualClock()
    async with certclient.keep_fresh(
        ROTATION, FakeAuthority(clock=clock), clock=clock
    ) as certificates:
        secrets = CertificateSecrets(certificates)
        changes = secrets.changes()
        assert await anext(changes) == BOTH
        certificate = certificates.latest
        assert certificate is not None
        assert secrets.get("default") == mesh_sds.TlsCertificate(
            chain_pem=certificate.chain_pem, private_key_pem=certificate.private_key_pem
        )
        assert secrets.get("ROOTCA") == mesh_sds.TrustBundle(roots_pem=certificate.trust_bundle_pem)
        assert secrets.get("kubernetes://other") is None


async def test_a_renewal_changes_the_certificate_alone() -> None:
    clock = ManualClock()
    async with certclient.keep_fresh(
        ROTATION, FakeAuthority(clock=clock), clock=clock
    ) as certificates:
        changes = CertificateSecrets(certificates).changes()
        await anext(changes)
        renewal = asyncio.create_task(certificates.renew())
        await clock.advance(5)
        await renewal
        assert await anext(changes) == {"default"}


async def test_a_root_that_changed_is_logged_once_and_one_that_did_not_is_not() -> None:
    clock = ManualClock()
    authority = FakeAuthority(clock=clock)
    async with certclient.keep_fresh(ROTATION, authority, clock=clock) as certificates:
        secrets = CertificateSecrets(certificates)
        changes = secrets.changes()
        assert await anext(changes) == BOTH
        for changed, names in ((True, BOTH), (False, {"default"}), (True, BOTH)):
            if changed:
                authority.change_root()
            renewal = asyncio.create_task(certificates.renew())
            await clock.advance(5)
            certificate = await renewal
            assert await anext(changes) == names
            assert secrets.get("ROOTCA") == mesh_sds.TrustBundle(roots_pem=authority.root_pem)
            assert certificate.trust_bundle_pem == authority.root_pem


async def test_an_expired_certificate_is_withdrawn_and_the_bundle_stays() -> None:
    clock = ManualClock()
    authority = FakeAuthority(clock=clock)
    async with certclient.keep_fresh(ROTATION, authority, clock=clock) as certificates:
        secrets = CertificateSecrets(certificates)
        changes = secrets.changes()
        await anext(changes)
        authority.fail(lambda: certclient.AuthorityUnavailable("down"))
        await clock.advance(2 * 3600)
        assert await anext(changes) == {"default"}
        assert secrets.get("default") is None
        assert secrets.get("ROOTCA") is not None


def bundle_response(*roots_pem: bytes) -> bytes:
    """A DiscoveryResponse that carries a ProxyConfig with these roots."""
    config = ProxyConfig(ca_certificates_pem=[pem.decode() for pem in roots_pem])
    response = DiscoveryResponse(version_info="1", nonce="1", type_url=type_urls.PROXY_CONFIG)
    response.resources.add(type_url=type_urls.PROXY_CONFIG, value=config.SerializeToString())
    return bytes(response.SerializeToString())


@asynccontextmanager
async def trusting(
    authority: FakeAuthority, clock: ManualClock
) -> AsyncIterator[certclient.TrustingCertificates]:
    """A workload's certificates, to which further roots can be added."""
    async with (
        certclient.keep_fresh(ROTATION, authority, clock=clock) as renewed,
        certclient.with_trust(renewed, clock=clock) as certificates,
    ):
        yield certificates


async def test_a_new_root_is_trusted_at_once_and_a_certificate_asked_for() -> None:
    clock = ManualClock()
    authority = FakeAuthority(clock=clock)
    async with trusting(authority, clock) as certificates:
        old = (await certificates.wait_for_first()).trust_bundle_pem
        await clock.advance(5)
        new = FakeAuthority(clock=clock).root_pem
        updates = TrustBundleUpdates(certificates)
        updates.apply(bundle_response(old, new))
        trusted = certificates.latest
        assert trusted is not None
        assert new.strip() in trusted.trust_bundle_pem
        assert old.strip() in trusted.trust_bundle_pem
        await clock.advance(5)
        assert len(authority.requests) == 2


async def test_announced_roots_are_learned_for_the_agents_own_connections(tmp_path: Path) -> None:
    clock = ManualClock()
    authority = FakeAuthority(clock=clock)
    learned = LearnedRoots(tmp_path / "learned-roots.json", now=clock.now)
    async with trusting(authority, clock) as certificates:
        old = (await certificates.wait_for_first()).trust_bundle_pem
        new, refused = FakeAuthority(clock=clock).root_pem, b"no certificate"
        for_stream = further_roots(learned, CONFIGURATION)
        assert for_stream is not None
        assert for_stream(old) == b""
        updates = TrustBundleUpdates(certificates, learned)
        with pytest.raises(xds_proxy.InterceptorRefused):
            updates.apply(bundle_response(refused))
        updates.apply(bundle_response(old, new))
        assert for_stream(old) == new


async def test_an_answers_root_is_learned_for_the_agents_own_connections(tmp_path: Path) -> None:
    clock = ManualClock()
    authority = FakeAuthority(clock=clock)
    learned = LearnedRoots(tmp_path / "learned-roots.json", now=clock.now)
    old = authority.root_pem
    for_calls = further_roots(learned, CERTIFICATE_AUTHORITY)
    assert for_calls is not None
    assert for_calls(old) == b""
    async with certclient.keep_fresh(ROTATION, authority, clock=clock) as certificates:
        async with in_background(learning(certificates, learned), name="learning"):
            await certificates.wait_for_first()
            authority.change_root()
            await clock.advance(5)
            certificates.request_renewal()
            await until(lambda: for_calls(old) == authority.root_pem, what="the new root")


async def learning(certificates: certclient.Certificates, learned: LearnedRoots) -> None:
    await learn_from_answers(certificates, learned)
    await asyncio.Event().wait()


async def test_the_roots_that_are_trusted_already_change_nothing() -> None:
    clock = ManualClock()
    authority = FakeAuthority(clock=clock)
    async with trusting(authority, clock) as certificates:
        known = (await certificates.wait_for_first()).trust_bundle_pem
        TrustBundleUpdates(certificates).apply(bundle_response(known))
        await clock.advance(60)
        assert len(authority.requests) == 1


async def test_a_certificate_is_asked_for_when_another_root_comes_first() -> None:
    clock = ManualClock()
    authority = FakeAuthority(clock=clock)
    async with trusting(authority, clock) as certificates:
        old = (await certificates.wait_for_first()).trust_bundle_pem
        new = FakeAuthority(clock=clock).root_pem
        updates = TrustBundleUpdates(certificates)
        asked = []
        for roots in ((old, new), (new, old), (new, old), (new,)):
            updates.apply(bundle_response(*roots))
            await clock.advance(5)
            asked.append(len(authority.requests))
        assert asked == [2, 3, 3, 4]


async def test_roots_that_are_none_are_refused_with_the_reason() -> None:
    clock = ManualClock()
    async with trusting(FakeAuthority(clock=clock), clock) as certificates:
        updates = TrustBundleUpdates(certificates)
        with pytest.raises(xds_proxy.InterceptorRefused):
            updates.apply(bundle_response(b"not a certificate"))
