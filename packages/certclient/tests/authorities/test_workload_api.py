"""The SPIFFE Workload API, over a real socket."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from certclient import (
    Certificate,
    Certificates,
    InvalidConfig,
    InvalidPem,
    SpiffeId,
    WorkloadApiConfig,
    follow_workload_api,
)
from certclient.authorities._workload_api import _split
from certclient.testing import FakeAuthority, fake_workload_api, issued
from mesh_lifecycle import Backoff

Issue = Callable[[], Awaitable[Certificate]]

QUICK = Backoff(initial_s=0.01, maximum_s=0.05)


@pytest.fixture
def address(socket_dir: Path) -> str:
    return f"unix://{socket_dir}/api.sock"


async def error_has(certificates: Certificates, text: str) -> None:
    async for status in certificates.statuses():
        if text in (status.last_error or ""):
            return


async def test_each_message_brings_the_next_certificate(address: str, issue: Issue) -> None:
    async with (
        asyncio.timeout(60),
        fake_workload_api(address) as api,
        follow_workload_api(WorkloadApiConfig(address=address)) as certificates,
    ):
        api.serve(first := await issue())
        assert await certificates.wait_for_first() == first
        changes = certificates.changes()
        assert await anext(changes) == first
        newer = first
        for _ in range(3):
            api.serve(newer := await issue())
            assert await anext(changes) == newer
        assert api.streams == 1
        assert (await certificates.renew()) == newer
        assert api.streams == 2


async def test_an_api_that_comes_later_or_goes_away_is_found_again(
    address: str, issue: Issue
) -> None:
    config = WorkloadApiConfig(address=address, backoff=QUICK)
    async with asyncio.timeout(60), follow_workload_api(config) as certificates:
        await error_has(certificates, "UNAVAILABLE")
        async with fake_workload_api(address) as api:
            api.serve(first := await issue())
            assert await certificates.wait_for_first() == first
        await error_has(certificates, "workload API at unix:")
        assert certificates.latest == first
        async with fake_workload_api(address) as api:
            api.serve(second := await issue())
            async for certificate in certificates.changes():
                if certificate == second:
                    break


async def test_a_refusal_is_reported_and_the_certificate_stays(address: str, issue: Issue) -> None:
    config = WorkloadApiConfig(address=address, backoff=QUICK)
    async with (
        asyncio.timeout(60),
        fake_workload_api(address) as api,
        follow_workload_api(config) as certificates,
    ):
        api.serve(first := await issue())
        await certificates.wait_for_first()
        api.refuse(grpc.StatusCode.PERMISSION_DENIED, "no identity issued")
        await error_has(certificates, "PERMISSION_DENIED: no identity issued")
        assert certificates.latest == first


async def test_an_identity_is_chosen_by_name_or_hint(
    address: str, real_authority: FakeAuthority
) -> None:
    names = [SpiffeId.parse(f"spiffe://example.org/{path}") for path in ("one", "two/more")]
    one, two = [await issued(real_authority, name) for name in names]
    async with asyncio.timeout(60), fake_workload_api(address) as api:
        api.serve(one, two, hints=("internal", "external"))
        for config, expected in (
            (WorkloadApiConfig(address=address), one),
            (WorkloadApiConfig(address=address, spiffe_id=names[1]), two),
            (WorkloadApiConfig(address=address, hint="external"), two),
        ):
            async with follow_workload_api(config) as certificates:
                assert await certificates.wait_for_first() == expected
        missing = WorkloadApiConfig(
            address=address, spiffe_id=SpiffeId.parse("spiffe://example.org/three")
        )
        async with follow_workload_api(missing) as certificates:
            await error_has(
                certificates,
                "offers spiffe://example.org/one, spiffe://example.org/two/more, "
                "and spiffe://example.org/three is wanted",
            )


async def test_the_identity_stays_when_another_is_offered_before_it(
    address: str, real_authority: FakeAuthority
) -> None:
    names = [SpiffeId.parse(f"spiffe://example.org/{path}") for path in ("first", "added")]
    first, added = [await issued(real_authority, name) for name in names]
    renewed = await issued(real_authority, names[0])
    async with (
        asyncio.timeout(60),
        fake_workload_api(address) as api,
        follow_workload_api(WorkloadApiConfig(address=address)) as certificates,
    ):
        api.serve(first)
        assert await certificates.wait_for_first() == first
        api.serve(added, renewed)
        async for certificate in certificates.changes():
            if certificate != first:
                break
        assert certificate == renewed
        api.serve(added)
        async for certificate in certificates.changes():
            if certificate == added:
                break  # there is no other any more


async def test_what_is_not_whole_is_thrown_away(
    address: str, issue: Issue, real_authority: FakeAuthority, spiffe_id: SpiffeId
) -> None:
    other = await issued(FakeAuthority(), spiffe_id)
    short = await issued(real_authority, spiffe_id, lifetime=timedelta(hours=1))
    async with (
        asyncio.timeout(60),
        fake_workload_api(address) as api,
        follow_workload_api(WorkloadApiConfig(address=address)) as certificates,
    ):
        api.serve(first := await issue())
        await certificates.wait_for_first()
        api.serve_raw(spiffe_id=str(spiffe_id), x509_svid=b"x", x509_svid_key=b"y", bundle=b"z")
        await error_has(certificates, "cannot be read")
        api.serve(_mixed(short, other))
        await error_has(certificates, "does not lead to a valid root")
        revoking = real_authority.revocation_list(short.serial)
        api.serve(replace(short, crl_pem=revoking))
        await error_has(certificates, "the returned certificate is revoked by a list that came")
        api.serve()
        await error_has(certificates, "offers none, and any is wanted")
        assert certificates.latest == first


def _mixed(certificate: Certificate, other: Certificate) -> Certificate:
    return replace(certificate, trust_bundle_pem=other.trust_bundle_pem)


@pytest.mark.parametrize("address", ["", "unix:relative", "tcp://host", "http://x:1", "/run/x"])
def test_an_address_of_another_form_is_refused(address: str) -> None:
    with pytest.raises(InvalidConfig, match=r"must be unix:///PATH or tcp://IP:PORT"):
        WorkloadApiConfig(address=address)


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=9), st.binary(max_size=20))
def test_certificates_that_follow_each_other_are_taken_apart(
    bodies: list[bytes], rest: bytes
) -> None:
    ders = [_element(body) for body in bodies]
    assert _split(b"".join(ders)) == ders
    with suppress(InvalidPem):
        assert b"".join(_split(rest)) == rest


def _element(body: bytes) -> bytes:
    if len(body) < 0x80:
        return bytes((0x30, len(body))) + body
    return b"\x30\x82" + len(body).to_bytes(2, "big") + body


@pytest.mark.parametrize("ders", [b"", b"\x30", b"\x30\x85", b"\x30\x7f", b"\x31\x00", b"\x30\x80"])
def test_a_chain_that_cannot_be_taken_apart_is_refused(ders: bytes) -> None:
    with pytest.raises(ValueError, match="workload API sent"):
        _split(ders)
