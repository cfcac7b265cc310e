"""Roots, token and client certificate that change, and files that are no such thing."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from mesh_testkit import PATIENCE_S, until
from mesh_testkit.certificates import Authority, Issued
from relays import server_credentials
from upstream_planes import (
    ads,
    config_for,
    end_of,
    exchange,
    fail_until_delays_are_long,
    reason_of_failure,
)
from xds_proxy import ClientCertificate, UpstreamConfig
from xds_proxy.testing import ControlPlane, ControlPlaneStream, control_plane
from xds_proxy.upstream._control_planes import ControlPlanes, control_planes


@pytest.fixture
def root(tmp_path: Path, authority: Authority) -> Path:
    path = tmp_path / "root-cert.pem"
    path.write_bytes(authority.root_pem)
    return path


@asynccontextmanager
async def _both(
    authority: Authority,
    root: Path,
    *,
    clients_show_theirs: bool = False,
    own: Callable[[], ClientCertificate | None] | None = None,
    token: Path | None = None,
    client: tuple[Path, Path] | None = None,
) -> AsyncIterator[tuple[ControlPlane, ControlPlanes]]:
    """A control plane, and the upstream side of a relay to it."""
    credentials = server_credentials(
        authority, "127.0.0.1", clients_show_theirs=clients_show_theirs
    )
    async with control_plane(credentials=credentials) as plane:
        config: UpstreamConfig = replace(config_for(plane.address, root=root), token_path=token)
        if client is not None:
            config = replace(config, client_certificate_path=client[0], client_key_path=client[1])
        async with control_planes(config, max_message_bytes=1 << 20, own_certificate=own) as planes:
            yield plane, planes


def _shown(stream: ControlPlaneStream) -> list[str]:
    """Return the names in the certificate that the relay showed."""
    names = stream._context.auth_context().get("x509_subject_alternative_name", ())
    return [name.decode() for name in names]


def _token(*, expires_at: int) -> str:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": expires_at}).encode()).decode().rstrip("=")
    return f"e30.{claims}.sig"


def _own(issued: Issued) -> ClientCertificate:
    return ClientCertificate(chain_pem=issued.chain_pem, key_pem=issued.key_pem)


async def test_a_root_that_is_replaced_is_for_new_streams_and_old_ones_live_on(
    authority: Authority, root: Path
) -> None:
    """The server's certificate is of the old root, so that a new stream fails by the new one."""
    async with _both(authority, root) as (plane, planes):
        async with ads(planes) as call:
            stream = await exchange(call, plane)
            root.write_bytes(Authority().root_pem)
            assert "wrong root certificate" in await reason_of_failure(planes)
            await stream.send(b"still here")
            assert await call.read() == b"still here"
        root.write_bytes(authority.root_pem)
        async with ads(planes) as call:
            await exchange(call, plane)


@pytest.mark.parametrize("replaced", ["in place", "by a link"])
async def test_a_root_that_is_replaced_during_an_outage_is_tried_at_once(
    authority: Authority, root: Path, tmp_path: Path, replaced: str
) -> None:
    if replaced == "by a link":  # as Kubernetes does
        for name, content in (("old", Authority().root_pem), ("new", authority.root_pem)):
            (tmp_path / name).mkdir()
            (tmp_path / name / "root-cert.pem").write_bytes(content)
        (tmp_path / "..data").symlink_to("old")
        root.unlink()
        root.symlink_to("..data/root-cert.pem")
    else:
        root.write_bytes(Authority().root_pem)
    async with _both(authority, root) as (plane, planes):
        await fail_until_delays_are_long(planes)
        watch_began = planes._watches_files
        await watch_began.wait()
        # A delay that no test would wait for: only the file's change can end it.
        planes._selection.entries[0].again.due_at += 100 * PATIENCE_S
        if replaced == "by a link":
            (tmp_path / "..new").symlink_to("new")
            (tmp_path / "..new").replace(tmp_path / "..data")
        else:
            root.write_bytes(authority.root_pem)
        await planes.wait_to_retry()
        async with ads(planes) as call:
            await exchange(call, plane)
        await until(lambda: not watch_began.is_set(), what="the end of the watch")


def _directory(path: Path) -> None:
    path.mkdir()


def _large(path: Path) -> None:
    path.write_bytes(b"-----BEGIN CERTIFICATE-----\n" + b"A" * 20_000_000)


def _endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (_directory, "it is a directory, a regular file is needed"),
        (os.mkfifo, "a regular file is needed"),
        (_large, "it is larger than 1048576 bytes, more is not read"),
        (_endless, "a regular file is needed"),
        (lambda path: path.write_bytes(b"\0" * 1000), "holds no PEM certificate"),
        (lambda path: path.write_bytes(b""), "holds no PEM certificate"),
        (
            lambda path: path.write_bytes(b"-----BEGIN CERTIFICATE-----\nAAAA\n"),
            "",
        ),
    ],
    ids=["directory", "FIFO", "20 MB", "endless", "zeros", "empty", "half"],
)
async def test_a_root_file_that_is_none_is_said_and_a_good_one_is_used(
    authority: Authority, root: Path, make: Callable[[Path], object], said: str
) -> None:
    root.unlink()
    make(root)
    async with _both(authority, root) as (plane, planes):
        reason = await reason_of_failure(planes)
        assert said in reason
        assert str(root) in reason or not said
        if root.is_dir():
            root.rmdir()
        else:
            root.unlink()
        root.write_bytes(authority.root_pem)
        async with ads(planes) as call:
            await exchange(call, plane)


async def test_a_certificate_that_is_rotated_is_shown_on_the_next_stream(
    authority: Authority, root: Path, tmp_path: Path
) -> None:
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    async with _both(authority, root, clients_show_theirs=True, client=(chain, key)) as (
        plane,
        planes,
    ):
        seen = []
        for name in ("first.example", "second.example", "third.example"):
            issued = authority.issue(name)
            chain.write_bytes(issued.chain_pem)
            key.write_bytes(issued.key_pem)
            async with ads(planes) as call:
                seen += _shown(await exchange(call, plane))
        assert seen == ["first.example", "second.example", "third.example"]


async def test_a_certificate_that_is_half_replaced_is_not_shown(
    authority: Authority, root: Path, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("a-token")
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    chain.write_bytes(authority.issue("first.example").chain_pem)
    key.write_bytes(authority.issue("second.example").key_pem)
    async with _both(authority, root, client=(chain, key), token=token) as (plane, planes):
        plane.refusal = (grpc.StatusCode.UNAUTHENTICATED, "who are you")
        async with ads(planes) as call:
            await end_of(call)
            assert call.failure is not None
            assert f"no client certificate, as {chain} does not belong to its key" in call.failure


@pytest.mark.parametrize("token", [None, "", "expired"], ids=["missing", "empty", "expired"])
async def test_the_workloads_own_certificate_stands_in_for_a_token_that_is_no_good(
    authority: Authority, root: Path, tmp_path: Path, token: str | None
) -> None:
    path = tmp_path / "token"
    if token is not None:
        path.write_text(_token(expires_at=1) if token else "")
    held: list[ClientCertificate] = []
    async with _both(
        authority,
        root,
        clients_show_theirs=True,
        own=lambda: held[0] if held else None,
        token=path,
    ) as (plane, planes):
        assert await reason_of_failure(planes)  # neither is there
        for name in ("spiffe://mesh/ns/a/sa/b", "spiffe://mesh/ns/c/sa/d"):
            held[:] = [_own(authority.issue(name))]
            async with ads(planes) as call:
                assert _shown(await exchange(call, plane)) == [name]


async def test_with_a_good_token_the_own_certificate_is_not_shown(
    authority: Authority, root: Path, tmp_path: Path
) -> None:
    """A control plane that does not trust its issuer would refuse the whole connection."""
    path = tmp_path / "token"
    path.write_text(_token(expires_at=1 << 40))
    own = _own(Authority().issue("spiffe://other/ns/a/sa/b"))
    async with _both(authority, root, own=lambda: own, token=path) as (plane, planes):
        async with ads(planes) as call:
            assert _shown(await exchange(call, plane)) == []
            assert "own certificate" not in call.shown


async def test_after_a_refusal_of_the_token_the_own_certificate_is_shown(
    authority: Authority, root: Path, tmp_path: Path
) -> None:
    path = tmp_path / "token"
    path.write_text("an-opaque-token")
    own = _own(authority.issue("spiffe://mesh/ns/a/sa/b"))
    async with _both(authority, root, own=lambda: own, token=path) as (plane, planes):
        plane.refusal = (grpc.StatusCode.UNAUTHENTICATED, "token revoked")
        shown = []
        for _ in range(3):
            async with ads(planes) as call:
                await end_of(call)
                shown.append("own certificate" in call.shown)
        assert shown == [False, True, False]
        plane.refusal = None
        async with ads(planes) as call:
            await exchange(call, plane)


async def test_a_token_that_is_replaced_goes_with_the_next_stream_and_waits_end(
    authority: Authority, root: Path, tmp_path: Path
) -> None:
    path = tmp_path / "token"
    async with _both(authority, root, token=path) as (plane, planes):
        await fail_until_delays_are_long(planes)
        await planes._watches_files.wait()
        planes._selection.entries[0].again.due_at += 100 * PATIENCE_S
        path.write_text("first")
        await planes.wait_to_retry()
        for token in ("first", "second"):
            path.write_text(token)
            async with ads(planes) as call:
                stream = await exchange(call, plane)
                assert stream.metadata["authorization"] == f"Bearer {token}"
