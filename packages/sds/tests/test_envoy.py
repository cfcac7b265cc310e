"""A real Envoy whose listener takes its certificate and its trust bundle from us."""

import asyncio
import os
import ssl
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from envoy_with_sds import bootstrap, client_context, connected, running_envoy, wait_for_serial
from localhost_issuer import Issuer
from mesh_sds import (
    AllowedPeers,
    KeyAccelerator,
    PrivateKeyProvider,
    SdsConfig,
    TlsCertificate,
    TrustBundle,
    serving,
)
from mesh_sds.testing import FakeSecrets


@pytest.fixture
def issuer() -> Issuer:
    return Issuer()


class AskedSecrets(FakeSecrets):
    """Tells when a name was asked for the first time."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = {"default": asyncio.Event(), "ROOTCA": asyncio.Event()}

    def get(self, name: str) -> TlsCertificate | TrustBundle | None:
        self.asked[name].set()
        return super().get(name)


@pytest.mark.parametrize(
    ("api_type", "allow"),
    [
        ("GRPC", None),
        ("DELTA_GRPC", None),
        ("GRPC", AllowedPeers(uids=frozenset({os.geteuid()}))),
        ("DELTA_GRPC", AllowedPeers(uids=frozenset({os.geteuid()}))),
    ],
)
async def test_envoy_serves_each_rotation_and_old_connections_live_on(
    *,
    api_type: str,
    allow: AllowedPeers | None,
    socket_dir: Path,
    tmp_path: Path,
    issuer: Issuer,
    envoy_binary: Path,
    free_port: Callable[..., int],
) -> None:
    secrets = AskedSecrets()
    socket_path, port = socket_dir / "sds" / "socket", free_port()
    config = bootstrap(socket_path, port, api_type)
    first, second = issuer.issue(), issuer.issue()
    context = client_context(tmp_path, issuer.issue(), issuer.bundle)
    async with (
        asyncio.timeout(60),
        serving(SdsConfig(socket_path=socket_path, allow=allow), secrets) as server,
        running_envoy(envoy_binary, tmp_path, config, port) as envoy,
    ):
        # Envoy is there before the secrets are, and waits for them.
        for asked in secrets.asked.values():
            await asked.wait()
        secrets.set(default=first.secret, ROOTCA=issuer.bundle)
        await envoy.wait_for_log(b"starting workers")
        await wait_for_serial(port, context, first.serial)
        async with connected(port, context) as old:
            await old.ask()
            assert old.serial == first.serial

            secrets.set(default=second.secret)
            await wait_for_serial(port, context, second.serial)
            await old.ask()
            assert old.serial == first.serial

            # A new root arrives before the certificate that chains to it.
            successor = Issuer()
            third = successor.issue()
            both = TrustBundle(roots_pem=issuer.bundle.roots_pem + successor.bundle.roots_pem)
            secrets.set(default=third.secret, ROOTCA=both)
            trusting_both = client_context(tmp_path, issuer.issue(), both)
            await wait_for_serial(port, trusting_both, third.serial)
            of_successor = client_context(tmp_path, successor.issue(), both)
            await wait_for_serial(port, of_successor, third.serial)
            await old.ask()
        # What is said to be in use is what was seen on the wire.
        await server.wait_until(lambda every: all(s.in_sync for s in every))
        subscribers = server.subscribers()
        in_use = {d.name: d.accepted for s in subscribers for d in s.secrets}
        assert in_use["default"] is not None
        assert in_use["default"].serial == f"{third.serial:x}"
        if allow is not None:
            assert {s.process.pid for s in subscribers if s.process} == {envoy.pid}
        assert frozenset.union(*(s.names for s in subscribers)) == {"default", "ROOTCA"}
        assert [s.refusal for s in subscribers] == [None] * len(subscribers)


async def test_a_secret_envoy_cannot_use_is_refused_and_the_old_one_stays(
    *,
    socket_dir: Path,
    tmp_path: Path,
    issuer: Issuer,
    secrets: FakeSecrets,
    envoy_binary: Path,
    free_port: Callable[..., int],
) -> None:
    socket_path, port = socket_dir / "sds" / "socket", free_port()
    first, second = issuer.issue(), issuer.issue()
    secrets.set(default=first.secret, ROOTCA=issuer.bundle)
    context = client_context(tmp_path, issuer.issue(), issuer.bundle)
    async with (
        asyncio.timeout(60),
        serving(SdsConfig(socket_path=socket_path), secrets) as server,
        running_envoy(envoy_binary, tmp_path, bootstrap(socket_path, port, "GRPC"), port) as envoy,
    ):
        await envoy.wait_for_log(b"starting workers")
        mismatched = TlsCertificate(
            chain_pem=first.secret.chain_pem, private_key_pem=second.secret.private_key_pem
        )
        secrets.set(default=mismatched)
        while not any(subscriber.refusals for subscriber in server.subscribers()):
            await wait_for_serial(port, context, first.serial)
        secrets.set(default=second.secret)
        await wait_for_serial(port, context, second.serial)


async def test_a_revoked_client_is_refused_as_soon_as_the_list_is_there(
    *,
    socket_path: Path,
    tmp_path: Path,
    issuer: Issuer,
    secrets: FakeSecrets,
    envoy_binary: Path,
    free_port: Callable[..., int],
) -> None:
    port = free_port()
    server_side, good, bad = issuer.issue(), issuer.issue(), issuer.issue()
    secrets.set(default=server_side.secret, ROOTCA=issuer.bundle)
    (tmp_path / "good").mkdir()
    (tmp_path / "bad").mkdir()
    as_good = client_context(tmp_path / "good", good, issuer.bundle)
    as_bad = client_context(tmp_path / "bad", bad, issuer.bundle)
    async with (
        asyncio.timeout(60),
        serving(SdsConfig(socket_path=socket_path), secrets) as server,
        running_envoy(envoy_binary, tmp_path, bootstrap(socket_path, port, "GRPC"), port) as envoy,
    ):
        await envoy.wait_for_log(b"starting workers")
        await wait_for_serial(port, as_bad, server_side.serial)
        before = {d.sent for s in server.subscribers() for d in s.secrets if d.name == "ROOTCA"}
        secrets.set(ROOTCA=issuer.bundle_revoking(bad.serial))
        await server.wait_until(
            lambda subscribers: all(
                d.in_sync and d.sent not in before
                for s in subscribers
                for d in s.secrets
                if d.name == "ROOTCA"
            )
        )
        # An accepted list is in use by each worker a moment later.
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            while True:
                await wait_for_serial(port, as_bad, server_side.serial)
        await wait_for_serial(port, as_good, server_side.serial)


async def test_an_envoy_without_the_accelerator_refuses_the_key_and_that_is_shown(
    *,
    socket_path: Path,
    tmp_path: Path,
    issuer: Issuer,
    secrets: FakeSecrets,
    envoy_binary: Path,
    free_port: Callable[..., int],
) -> None:
    port = free_port()
    secrets.set(default=issuer.issue().secret, ROOTCA=issuer.bundle)
    provider = PrivateKeyProvider(
        accelerator=KeyAccelerator.CRYPTOMB, poll_delay=timedelta(milliseconds=10), fallback=True
    )
    sds = SdsConfig(socket_path=socket_path, private_key_provider=provider)
    async with (
        asyncio.timeout(60),
        serving(sds, secrets) as server,
        running_envoy(envoy_binary, tmp_path, bootstrap(socket_path, port, "GRPC"), port),
    ):
        await server.wait_until(lambda subscribers: any(s.refusal for s in subscribers))
        (refusal,) = (s.refusal for s in server.subscribers() if s.refusal)
        assert "cryptomb" in refusal
