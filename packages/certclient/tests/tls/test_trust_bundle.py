"""More roots than the authority's, and revocation lists."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from certclient import (
    Certificate,
    InvalidPem,
    RotationConfig,
    SpiffeId,
    TrustConfig,
    client_context,
    keep_fresh,
    server_context,
    with_trust,
)
from certclient.testing import FakeAuthority


def roots_of(certificate: Certificate | None) -> set[x509.Certificate]:
    assert certificate is not None
    return set(x509.load_pem_x509_certificates(certificate.trust_bundle_pem))


def root_of(authority: FakeAuthority) -> x509.Certificate:
    return x509.load_pem_x509_certificate(authority.root_pem)


async def test_anchors_are_published_at_once_and_a_renewal_is_asked_for(
    config: RotationConfig, real_authority: FakeAuthority
) -> None:
    other = FakeAuthority()
    async with (
        asyncio.timeout(60),
        keep_fresh(config, real_authority) as below,
        with_trust(below) as certificates,
    ):
        changes = certificates.changes()
        first = await anext(changes)
        assert roots_of(first) == {root_of(real_authority)}
        certificates.set_anchors(other.root_pem)
        second = await anext(changes)
        assert roots_of(second) == {root_of(real_authority), root_of(other)}
        assert first is not None
        assert second is not None
        # The bundle came before the leaf that may need it.
        assert second.serial == first.serial
        third = await anext(changes)
        assert third is not None
        assert third.serial != first.serial
        assert roots_of(third) == roots_of(second)


async def test_an_anchor_that_is_no_ca_is_left_out_and_reported(
    config: RotationConfig, real_authority: FakeAuthority, caplog: pytest.LogCaptureFixture
) -> None:
    other = FakeAuthority()
    async with (
        asyncio.timeout(60),
        keep_fresh(config, real_authority) as below,
        with_trust(below) as certificates,
    ):
        leaf = (await certificates.wait_for_first()).chain_pem
        with pytest.raises(InvalidPem, match="it is no CA certificate"):
            certificates.set_anchors(first_of(leaf))
        certificates.set_anchors(first_of(leaf) + other.root_pem)
        assert roots_of(certificates.latest) == {root_of(real_authority), root_of(other)}
    assert caplog.messages.count("roots left out of the trust bundle") == 1


def first_of(chain_pem: bytes) -> bytes:
    return x509.load_pem_x509_certificate(chain_pem).public_bytes(Encoding.PEM)


async def test_the_same_anchors_in_another_order_are_no_change(
    config: RotationConfig, real_authority: FakeAuthority
) -> None:
    one, two = FakeAuthority().root_pem, FakeAuthority().root_pem
    async with (
        asyncio.timeout(60),
        keep_fresh(config, real_authority) as below,
        with_trust(below) as certificates,
    ):
        await certificates.wait_for_first()
        certificates.set_anchors(one + two)
        bundle = certificates.latest
        certificates.set_anchors(two.replace(b"\n", b"\r\n") + one + two)
        assert certificates.latest is bundle
        certificates.set_anchors(b"")
        assert roots_of(certificates.latest) == {root_of(real_authority)}
        with pytest.raises(InvalidPem):
            certificates.set_anchors(b"rubbish")


async def test_a_root_that_the_authority_changes_is_published_with_its_first_leaf(
    config: RotationConfig, real_authority: FakeAuthority
) -> None:
    extra = FakeAuthority()
    async with (
        asyncio.timeout(60),
        keep_fresh(config, real_authority) as below,
        with_trust(below) as certificates,
    ):
        await certificates.wait_for_first()
        certificates.set_anchors(extra.root_pem)
        real_authority.change_root()
        await below.renew()
        async for certificate in certificates.changes():
            if root_of(real_authority) in roots_of(certificate):
                break
        assert roots_of(certificate) == {root_of(real_authority), root_of(extra)}


class RotatingRoot:
    """An authority in the middle of a root's rotation: both roots, and leaves by one of them."""

    def __init__(self, old: FakeAuthority, new: FakeAuthority) -> None:
        self._bundle = old.root_pem + new.root_pem
        self.signer = old

    async def sign(self, csr_pem: bytes, *, lifetime: timedelta) -> tuple[bytes, ...]:
        *chain, _ = await self.signer.sign(csr_pem, lifetime=lifetime)
        return *chain, self._bundle


async def test_old_and_new_workloads_talk_throughout_the_rotation_of_a_root(
    config: RotationConfig,
) -> None:
    old, new = FakeAuthority(), FakeAuthority()
    rotating = RotatingRoot(old, new)
    async with (
        asyncio.timeout(60),
        keep_fresh(config, old) as before,
        keep_fresh(config, rotating) as during,
    ):
        await before.wait_for_first()
        # Both roots are trusted before any leaf needs the new one.
        assert roots_of(await during.wait_for_first()) == {root_of(old), root_of(new)}
        async with listening(server_context(during, lambda _: True)) as port:
            await shake(port, client_context(before, lambda _: True))
        rotating.signer = new
        assert roots_of(await during.renew()) == {root_of(old), root_of(new)}
        async with (
            keep_fresh(config, new) as after,
            listening(server_context(before, lambda _: True)) as port,
        ):
            await after.wait_for_first()
            with pytest.raises(ssl.SSLCertVerificationError):
                await shake(port, client_context(after, lambda _: True))
        async with listening(server_context(during, lambda _: True)) as port:
            async with keep_fresh(config, new) as after:
                await after.wait_for_first()
                await shake(port, client_context(after, lambda _: True))


async def test_a_file_of_anchors_is_followed(
    config: RotationConfig, real_authority: FakeAuthority, tmp_path: Path
) -> None:
    other, path = FakeAuthority(), tmp_path / "anchors.pem"
    async with (
        asyncio.timeout(60),
        keep_fresh(config, real_authority) as below,
        with_trust(below, TrustConfig(anchors_path=path)) as certificates,
    ):
        changes = certificates.changes()
        assert roots_of(await anext(changes)) == {root_of(real_authority)}
        path.write_bytes(other.root_pem)
        assert roots_of(await anext(changes)) == {root_of(real_authority), root_of(other)}


async def test_a_revoked_peer_is_refused_once_the_list_says_so(
    config: RotationConfig, tmp_path: Path
) -> None:
    authority, path = FakeAuthority(), tmp_path / "crl.pem"
    server_id = SpiffeId.parse("spiffe://cluster.local/ns/shop/sa/server")
    server_config = RotationConfig(spiffe_id=server_id, lifetime=timedelta(hours=1))
    async with (
        asyncio.timeout(60),
        keep_fresh(config, authority) as below,
        with_trust(below, TrustConfig(crl_path=path)) as ours,
        keep_fresh(server_config, authority) as theirs,
    ):
        await ours.wait_for_first()
        served = await theirs.wait_for_first()
        context = client_context(ours, lambda _: True)
        async with listening(server_context(theirs, lambda _: True)) as port:
            await shake(port, context)
            changes = ours.changes()
            await anext(changes)
            path.write_bytes(authority.revocation_list())
            await anext(changes)
            await shake(port, context)
            path.write_bytes(authority.revocation_list(served.serial))
            await anext(changes)
            with pytest.raises(ssl.SSLCertVerificationError, match="revoked"):
                await shake(port, context)


@asynccontextmanager
async def listening(context: ssl.SSLContext) -> AsyncIterator[int]:
    async def end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del reader
        writer.close()

    listener = await asyncio.start_server(end, "127.0.0.1", 0, ssl=context)
    async with listener:
        yield listener.sockets[0].getsockname()[1]


async def shake(port: int, context: ssl.SSLContext) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    await reader.read()
    writer.close()
    await asyncio.gather(writer.wait_closed(), return_exceptions=True)
