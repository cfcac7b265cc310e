"""The secure port's certificate is renewed in time, and a failure keeps the one there is."""

import resource
import ssl
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from datetime import timedelta

import pytest

from mesh_ca import Authority, NotReadyError
from mesh_ca.testing import throwaway_authority
from mesh_discovery.serve._serving_certificate import ServingCertificate, serving_certificate
from mesh_lifecycle.testing import ManualClock


class Flaky:
    """An authority that a test can let fail."""

    def __init__(self, authority: Authority) -> None:
        self._authority = authority
        self.failing = False
        self.tries = 0

    @property
    def root_pem(self) -> bytes:
        return self._authority.root_pem

    def issue_server_certificate(
        self, dns_names: Sequence[str], lifetime: timedelta
    ) -> tuple[bytes, bytes]:
        self.tries += 1
        if self.failing:
            raise NotReadyError("not now")
        return self._authority.issue_server_certificate(dns_names, lifetime)


def serving(
    authority: Flaky, names: list[str], *, clock: ManualClock | None = None
) -> AbstractAsyncContextManager[ServingCertificate]:
    return serving_certificate(
        authority, names=lambda: names, lifetime=timedelta(hours=1), clock=clock
    )


async def test_it_is_renewed_at_half_of_its_life_and_kept_when_that_fails() -> None:
    clock = ManualClock()
    authority = Flaky(throwaway_authority(clock=clock.now))
    async with serving(authority, ["localhost"], clock=clock) as certificate:
        first = certificate.context()
        await clock.advance(29 * 60)
        assert certificate.context() is first
        authority.failing = True
        await clock.advance(60 * 2)
        assert authority.tries > 1
        assert certificate.context() is first
        authority.failing = False
        await clock.advance(600)

        assert certificate.context() is not first


@pytest.mark.parametrize("jump_s", [40 * 60, 3 * 24 * 3600, -2 * 24 * 3600])
async def test_a_clock_that_is_set_gets_a_certificate_that_counts_within_seconds(
    jump_s: float,
) -> None:
    clock = ManualClock()
    lifetime = timedelta(days=365)
    authority = Flaky(throwaway_authority(clock=clock.now, root_lifetime=lifetime))
    clock.jump(10 * 24 * 3600)
    async with serving(authority, ["localhost"], clock=clock) as certificate:
        first = certificate.context()
        clock.jump(jump_s)
        await clock.advance(6)
        assert certificate.context() is not first
        assert authority.tries == 2
        await clock.advance(600)
        assert authority.tries == 2


async def test_a_process_without_a_descriptor_left_keeps_its_certificate_and_tries_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    authority = Flaky(throwaway_authority(clock=clock.now))
    async with serving(authority, ["localhost"], clock=clock) as certificate:
        first = certificate.context()
        with no_descriptors_left():
            await clock.advance(31 * 60)
        assert certificate.context() is first
        assert "serving certificate not renewed" in caplog.text
        await clock.advance(120)
        assert certificate.context() is not first


@contextmanager
def no_descriptors_left() -> Iterator[None]:
    """Take all that the process may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_other_names_get_another_certificate_at_once() -> None:
    names = ["localhost"]
    async with serving(Flaky(throwaway_authority()), names) as certificate:
        first = certificate.context()
        certificate.refresh()
        assert certificate.context() is first

        names.append("mesh.example.com")
        certificate.refresh()

        assert certificate.context() is not first


def handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> str:
    """The cipher suite that two contexts agree on, in memory; ssl.SSLError if on none."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    waiting = True
    while waiting:
        waiting = False
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                waiting = True
    agreed = ends[0].cipher()
    assert agreed is not None
    return agreed[0]


async def test_only_modern_tls_is_spoken() -> None:
    authority = throwaway_authority()
    async with serving(Flaky(authority), ["localhost"]) as certificate:
        context = certificate.context()

    def client(ciphers: str, newest: ssl.TLSVersion) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=authority.root_pem.decode())
        context.set_ciphers(ciphers)
        context.maximum_version = newest
        return context

    one_point_two = ssl.TLSVersion.TLSv1_2
    everything = client("ALL:@SECLEVEL=0", ssl.TLSVersion.TLSv1_3)
    assert handshake(context, everything).startswith("TLS_")
    weak = client("ALL:!AESGCM:!CHACHA20:@SECLEVEL=0", one_point_two)
    with pytest.raises(ssl.SSLError, match=r"HANDSHAKE_FAILURE|NO_SHARED_CIPHER"):
        handshake(context, weak)
    forward_secret = client("ECDHE+AESGCM", one_point_two)
    assert handshake(context, forward_secret).startswith("ECDHE-ECDSA-AES")
