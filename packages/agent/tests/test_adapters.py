import asyncio
from datetime import timedelta

import certclient
import mesh_sds
from certclient.testing import FakeAuthority
from mesh_agent._adapters import CertificateSecrets
from mesh_lifecycle.testing import ManualClock

SPIFFE_ID = certclient.SpiffeId(
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
