"""Who has which secret: seen over real streams, and as a model over every order of answers."""

import asyncio
import re
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from cryptography import x509
from hypothesis import given
from hypothesis import strategies as st

from mesh_sds import SdsConfig, SdsServer, Subscriber, TlsCertificate, TrustBundle, serving
from mesh_sds.secrets._leaf_serial import leaf_serial
from mesh_sds.testing import FakeSecrets, SecretSubscriber, subscriber

Issue = Callable[[int], TlsCertificate]
OLD, NEW = TrustBundle(roots_pem=b"old root"), TrustBundle(roots_pem=b"old root, new root")


def accepted_serial(subscriber: Subscriber, name: str = "default") -> str | None:
    delivery = next(d for d in subscriber.secrets if d.name == name)
    return delivery.accepted.serial if delivery.accepted else None


@pytest.mark.parametrize("delta", [False, True])
async def test_the_serial_each_subscriber_works_with_is_shown(
    server: SdsServer, secrets: FakeSecrets, issue: Issue, *, delta: bool
) -> None:
    secrets.set(default=issue(0xA1))
    async with subscriber(server.socket_path, delta=delta) as stream:
        await stream.ask("default", "not-yet")
        first = await stream.read()
        # It may be read here before the server hears that its writing is done.
        await server.wait_until(lambda every: every[0].secrets[0].sent is not None)
        (shown,) = server.subscribers()
        waiting, missing = shown.secrets
        assert (waiting.sent is not None, waiting.accepted, waiting.in_sync) == (True, None, False)
        assert (missing.name, missing.sent, missing.in_sync) == ("not-yet", None, True)
        await stream.accept(first)
        await server.wait_until(lambda subscribers: accepted_serial(subscribers[0]) == "a1")

        secrets.set(default=issue(0xA2))
        second = await stream.read()
        await stream.refuse(second, "key does not match")
        await server.wait_until(lambda subscribers: subscribers[0].refusals == 1)
        (delivery, _) = server.subscribers()[0].secrets
        assert delivery.sent is not None
        assert delivery.accepted is not None
        assert delivery.refused is not None
        assert delivery.sent.serial == delivery.refused.serial == "a2"
        assert (delivery.accepted.serial, delivery.refusal) == ("a1", "key does not match")
        assert not delivery.in_sync

        secrets.set(default=issue(0xA3))
        await stream.accept(await stream.read())
        await server.wait_until(lambda subscribers: accepted_serial(subscribers[0]) == "a3")
        (delivery, _) = server.subscribers()[0].secrets
        assert (delivery.refused, delivery.refusal, delivery.in_sync) == (None, None, True)


async def test_a_removed_secret_is_no_longer_shown_for_a_delta_client(
    server: SdsServer, secrets: FakeSecrets, issue: Issue
) -> None:
    secrets.set(default=issue(1))
    async with subscriber(server.socket_path, delta=True) as stream:
        await stream.ask("default")
        await stream.accept(await stream.read())
        await server.wait_until(lambda subscribers: accepted_serial(subscribers[0]) == "1")
        secrets.remove("default")
        await stream.accept(await stream.read())
        await server.wait_until(lambda subscribers: accepted_serial(subscribers[0]) is None)


class Rotation:
    """A root and a leaf that change together, with one stream for each."""

    def __init__(
        self, root: SecretSubscriber, leaf: SecretSubscriber, secrets: FakeSecrets
    ) -> None:
        self.root = root
        self.leaf = leaf
        self._secrets = secrets

    async def begin(self) -> None:
        await self.root.ask("ROOTCA")
        await self.root.accept(await self.root.read())
        await self.leaf.ask("default")
        await self.leaf.accept(await self.leaf.read())

    def rotate(self, secret: TlsCertificate) -> None:
        self._secrets.set(default=secret, ROOTCA=NEW)


async def rotation_on(
    server: SdsServer, secrets: FakeSecrets, issue: Issue, stack: AsyncExitStack
) -> Rotation:
    secrets.set(default=issue(1), ROOTCA=OLD)
    rotation = Rotation(
        await stack.enter_async_context(subscriber(server.socket_path)),
        await stack.enter_async_context(subscriber(server.socket_path)),
        secrets,
    )
    await rotation.begin()
    return rotation


def patient(socket_path: Path) -> SdsConfig:
    """A server that would wait for longer than any test."""
    return SdsConfig(socket_path=socket_path, bundle_ack_timeout_s=3600)


@pytest.mark.parametrize("accepting", [True, False])
async def test_a_leaf_waits_until_the_new_root_is_answered_on_another_stream(
    socket_path: Path, secrets: FakeSecrets, issue: Issue, *, accepting: bool
) -> None:
    async with serving(patient(socket_path), secrets) as server, AsyncExitStack() as stack:
        rotation = await rotation_on(server, secrets, issue, stack)
        leaf = asyncio.create_task(rotation.leaf.read())
        rotation.rotate(issue(2))
        bundle = await rotation.root.read()
        assert bundle.secrets == {"ROOTCA": NEW.roots_pem}
        (holder,) = (s for s in server.subscribers() if "default" in s.names)
        sent = holder.secrets[0].sent
        assert sent is not None
        assert sent.serial == "1"
        assert not leaf.done()
        if accepting:
            await rotation.root.accept(bundle)
        else:
            await rotation.root.refuse(bundle, "not a root")
        assert leaf_serial((await leaf).secrets["default"]) == "2"


async def test_a_subscriber_that_leaves_is_not_waited_for(
    socket_path: Path, secrets: FakeSecrets, issue: Issue
) -> None:
    async with serving(patient(socket_path), secrets) as server, AsyncExitStack() as stack:
        rotation = await rotation_on(server, secrets, issue, stack)
        async with subscriber(socket_path) as silent:
            await silent.ask("ROOTCA")
            await silent.read()
            rotation.rotate(issue(2))
            await rotation.root.accept(await rotation.root.read())
            await silent.read()
        assert leaf_serial((await rotation.leaf.read()).secrets["default"]) == "2"


async def test_a_root_that_came_a_moment_earlier_is_waited_for_as_well(
    socket_path: Path, secrets: FakeSecrets, issue: Issue
) -> None:
    async with serving(patient(socket_path), secrets) as server, AsyncExitStack() as stack:
        rotation = await rotation_on(server, secrets, issue, stack)
        secrets.set(ROOTCA=NEW)
        bundle = await rotation.root.read()
        leaf = asyncio.create_task(rotation.leaf.read())
        secrets.set(default=issue(2))
        # A second stream is served meanwhile: pushes wait, requests do not.
        async with subscriber(socket_path) as other:
            await other.ask("default")
            assert leaf_serial((await other.read()).secrets["default"]) == "2"
        assert not leaf.done()
        await rotation.root.accept(bundle)
        assert leaf_serial((await leaf).secrets["default"]) == "2"


async def test_a_root_never_answered_holds_the_leaf_back_for_a_bounded_time_and_is_logged(
    socket_path: Path, secrets: FakeSecrets, issue: Issue, caplog: pytest.LogCaptureFixture
) -> None:
    config = SdsConfig(socket_path=socket_path, bundle_ack_timeout_s=0.1)
    async with serving(config, secrets) as server, AsyncExitStack() as stack:
        rotation = await rotation_on(server, secrets, issue, stack)
        # On a busy machine the first answers may be late as well, and logged.
        await server.wait_until(
            lambda subscribers: len(subscribers) == 2 and all(s.in_sync for s in subscribers)
        )
        caplog.clear()
        rotation.rotate(issue(2))
        assert leaf_serial((await rotation.leaf.read()).secrets["default"]) == "2"
    (record,) = (r for r in caplog.records if "trust bundle not answered" in r.message)
    assert vars(record)["bundles"] == ["ROOTCA"]
    assert len(vars(record)["subscribers"]) == 1


async def test_a_leaf_alone_waits_for_nothing(
    socket_path: Path, secrets: FakeSecrets, issue: Issue
) -> None:
    async with serving(patient(socket_path), secrets) as server, AsyncExitStack() as stack:
        rotation = await rotation_on(server, secrets, issue, stack)
        async with subscriber(socket_path) as silent:
            await silent.ask("ROOTCA")
            await silent.read()
            secrets.set(default=issue(2))
            assert leaf_serial((await rotation.leaf.read()).secrets["default"]) == "2"


@given(serial=st.integers(min_value=1, max_value=2**159 - 1))
def test_a_serial_is_read_as_the_library_reads_it(serial: int) -> None:
    pem = _with_serial(serial)
    assert x509.load_pem_x509_certificate(pem).serial_number == serial
    assert leaf_serial(b"leading text\n" + pem + b"more") == f"{serial:x}"


@given(junk=st.binary(max_size=400))
def test_what_is_no_certificate_has_no_serial(junk: bytes) -> None:
    begin, end = b"-----BEGIN CERTIFICATE-----", b"-----END CERTIFICATE-----"
    for pem in (junk, begin + junk + end, _cut(junk)):
        serial = leaf_serial(pem)
        assert serial is None or re.fullmatch(r"-?[0-9a-f]+", serial)


def _with_serial(serial: int) -> bytes:
    """A certificate with another serial number in its encoding; its signature is not checked."""
    from cryptography.hazmat.primitives.serialization import Encoding

    return _TEMPLATE(serial).public_bytes(Encoding.PEM)


def _cut(junk: bytes) -> bytes:
    return _with_serial(1)[: 30 + len(junk)] + b"-----END CERTIFICATE-----"


def _template() -> Callable[[int], x509.Certificate]:
    from datetime import UTC, datetime, timedelta

    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([]))
        .issuer_name(x509.Name([]))
        .public_key(key.public_key())
        .not_valid_before(now)
        .not_valid_after(now + timedelta(hours=1))
    )
    return lambda serial: builder.serial_number(serial).sign(key, hashes.SHA256())


_TEMPLATE = _template()
