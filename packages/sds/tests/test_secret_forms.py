"""What Envoy is given: the key by an accelerator, revocation lists, instruments, a light import."""

import logging
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from envoy.config.core.v3 import base_pb2
from envoy.extensions.transport_sockets.tls.v3 import secret_pb2
from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, message_factory
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from mesh_sds import (
    AllowedPeers,
    ConfigError,
    KeyAccelerator,
    PrivateKeyProvider,
    SdsConfig,
    TlsCertificate,
    TrustBundle,
    serving,
)
from mesh_sds.secrets._envoy_secret import secret_resource
from mesh_sds.testing import FakeSecrets, subscriber


def _method_config_class() -> Any:
    """The message both providers' configs are, built from their published definition."""
    file = descriptor_pb2.FileDescriptorProto(
        name="test/method_config.proto",
        package="test",
        syntax="proto3",
        dependency=[base_pb2.DESCRIPTOR.name, duration_pb2.DESCRIPTOR.name],
    )
    message = file.message_type.add(name="MethodConfig")
    for number, (name, type_name) in enumerate(
        [
            ("private_key", ".envoy.config.core.v3.DataSource"),
            ("poll_delay", ".google.protobuf.Duration"),
        ],
        start=1,
    ):
        message.field.add(name=name, number=number, type=11, label=1, type_name=type_name)
    pool: Any = descriptor_pool.Default()
    pool.Add(file) if hasattr(pool, "Add") else pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("test.MethodConfig"))


METHOD_CONFIG = _method_config_class()


def packed(
    secret: TlsCertificate | TrustBundle, provider: PrivateKeyProvider | None = None
) -> secret_pb2.Secret:
    return secret_pb2.Secret.FromString(secret_resource("default", secret, provider=provider).body)


@pytest.mark.parametrize(
    ("accelerator", "type_url"),
    [
        (KeyAccelerator.CRYPTOMB, "cryptomb.v3alpha.CryptoMbPrivateKeyMethodConfig"),
        (KeyAccelerator.QAT, "qat.v3alpha.QatPrivateKeyMethodConfig"),
    ],
)
@given(key=st.binary(max_size=5000), millis=st.integers(1, 10_000), fallback=st.booleans())
def test_a_private_key_provider_is_in_the_body_when_configured(
    accelerator: KeyAccelerator, type_url: str, key: bytes, millis: int, *, fallback: bool
) -> None:
    provider = PrivateKeyProvider(
        accelerator=accelerator, poll_delay=timedelta(milliseconds=millis), fallback=fallback
    )
    secret = TlsCertificate(chain_pem=b"chain", private_key_pem=key)
    certificate = packed(secret, provider).tls_certificate
    assert not certificate.HasField("private_key")
    assert certificate.private_key_provider.provider_name == accelerator
    assert certificate.private_key_provider.fallback is fallback
    config = certificate.private_key_provider.typed_config
    prefix = "type.googleapis.com/envoy.extensions.private_key_providers."
    assert config.type_url == prefix + type_url
    body = METHOD_CONFIG.FromString(config.value)
    assert body.private_key.inline_bytes == key
    assert body.poll_delay.ToTimedelta() == timedelta(milliseconds=millis)


def test_a_private_key_provider_does_not_change_trust_bundles() -> None:
    provider = PrivateKeyProvider(
        accelerator=KeyAccelerator.QAT, poll_delay=timedelta(milliseconds=5)
    )
    bundle = TrustBundle(roots_pem=b"roots")
    assert packed(bundle, provider) == packed(bundle)


@pytest.mark.parametrize("delay", [timedelta(0), timedelta(microseconds=999)])
def test_a_poll_delay_that_envoy_would_refuse_is_an_error(delay: timedelta) -> None:
    with pytest.raises(ConfigError, match=r"qat private key provider is .*, at least 0\.001 s"):
        PrivateKeyProvider(accelerator=KeyAccelerator.QAT, poll_delay=delay)


async def test_a_server_with_a_provider_gives_keys_through_it(
    socket_path: Path, secrets: FakeSecrets
) -> None:
    secrets.set(default=TlsCertificate(chain_pem=b"chain", private_key_pem=b"key"))
    provider = PrivateKeyProvider(
        accelerator=KeyAccelerator.CRYPTOMB, poll_delay=timedelta(milliseconds=10)
    )
    config = SdsConfig(socket_path=socket_path, private_key_provider=provider)
    async with serving(config, secrets) as server:
        async with subscriber(socket_path) as stream:
            await stream.ask("default")
            await stream.accept(await stream.read())
            await server.wait_until(lambda subscribers: subscribers[0].in_sync)


def test_revocation_lists_travel_with_the_bundle() -> None:
    plain = packed(TrustBundle(roots_pem=b"roots")).validation_context
    assert not plain.HasField("crl")
    listed = packed(
        TrustBundle(roots_pem=b"roots", crl_pem=b"crl", crl_of_leaf_only=True)
    ).validation_context
    assert (listed.trusted_ca.inline_bytes, listed.crl.inline_bytes) == (b"roots", b"crl")
    assert listed.only_verify_leaf_cert_crl


async def test_a_new_revocation_list_is_a_change_of_the_bundle(
    socket_path: Path, secrets: FakeSecrets
) -> None:
    secrets.set(ROOTCA=TrustBundle(roots_pem=b"roots"))
    async with serving(SdsConfig(socket_path=socket_path), secrets):
        async with subscriber(socket_path) as stream:
            await stream.ask("ROOTCA")
            await stream.accept(await stream.read())
            secrets.set(ROOTCA=TrustBundle(roots_pem=b"roots", crl_pem=b"crl"))
            assert (await stream.read()).secrets == {"ROOTCA": b"roots"}


async def test_metrics_count_subscribers_and_refusals(
    socket_path: Path, secrets: FakeSecrets, issue: Callable[[int], TlsCertificate]
) -> None:
    registry = CollectorRegistry()
    secrets.set(default=issue(1))
    config = SdsConfig(socket_path=socket_path, allow=AllowedPeers())

    def values() -> list[float | None]:
        names = ["subscribers", "subscribers_out_of_sync", "refusals_total"]
        names += ["refused_connections_total", "overdue_bundles_total"]
        return [registry.get_sample_value(f"mesh_sds_{name}") for name in names]

    async with serving(config, secrets, registry=registry) as server:
        async with subscriber(socket_path) as stream:
            await stream.ask("default")
            await stream.refuse(await stream.read(), "no")
            await server.wait_until(lambda subscribers: any(s.refusals for s in subscribers))
            assert values() == [1, 1, 1, 0, 0]
        await server.wait_until(lambda subscribers: not subscribers)
        assert values() == [0, 0, 1, 0, 0]
    assert values() == [None] * 5


def test_importing_it_imports_no_library_of_metrics() -> None:
    # Of what this package imports itself; a sibling may have reasons of its own.
    script = (
        "import sys, xds_server\n"
        "before = set(sys.modules)\n"
        "import mesh_sds\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(*sorted(new & {'prometheus_client', 'cryptography'}), end='')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("accelerator", [None, *KeyAccelerator])
async def test_no_byte_of_a_key_is_logged_or_shown(
    socket_path: Path,
    secrets: FakeSecrets,
    caplog: pytest.LogCaptureFixture,
    accelerator: KeyAccelerator | None,
) -> None:
    caplog.set_level(logging.DEBUG)
    canary = TlsCertificate(chain_pem=b"chain", private_key_pem=b"c4n4ry")
    secrets.set(default=canary)
    provider = (
        None
        if accelerator is None
        else PrivateKeyProvider(accelerator=accelerator, poll_delay=timedelta(milliseconds=10))
    )
    config = SdsConfig(socket_path=socket_path, allow=AllowedPeers(), private_key_provider=provider)
    shown = [repr(canary), repr(secret_resource("default", canary, provider=provider))]
    async with serving(config, secrets) as server:
        async with subscriber(socket_path) as stream:
            await stream.ask("default")
            await stream.refuse(await stream.read(), "no")
            await server.wait_until(lambda subscribers: any(s.refusals for s in subscribers))
            secrets.fail("default", ValueError("source bug"))
            await stream.ask("default", "another")
            await server.wait_until(lambda subscribers: "another" in subscribers[0].names)
            shown += [repr(server.subscribers()), repr(config), repr(vars(server))]
    shown += [caplog.text, *(repr(vars(record)) for record in caplog.records)]
    assert "response refused by client" in caplog.messages
    assert not any("c4n4ry" in text for text in shown)
