"""Istio's metrics, on a registry of the caller's."""

import asyncio
import re
from pathlib import Path

import grpc
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from certclient import (
    AuthorityUnavailable,
    FileSecretsConfig,
    IstioCaConfig,
    RotationConfig,
    SourceUnavailable,
    file_secrets,
    istio_ca,
    keep_fresh,
)
from certclient.metrics import OUTAGE, CertificateMetrics
from certclient.testing import FakeAuthority, fake_istio_ca
from mesh_filewatch import OnEvent, Unwatch
from mesh_lifecycle.testing import ManualClock


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(name if name == OUTAGE else f"istio_agent_{name}", labels)


async def test_requests_failures_and_retries_are_counted(
    config: RotationConfig, real_authority: FakeAuthority, registry: CollectorRegistry
) -> None:
    metrics = CertificateMetrics(registry)
    assert generate_latest(registry) == b""
    async with asyncio.timeout(60), fake_istio_ca(real_authority) as ca:
        ca.answers = [grpc.StatusCode.UNAVAILABLE] * 2
        client = IstioCaConfig(address=ca.address, root_certificate=None)
        async with (
            istio_ca(client, on_retry=metrics.count_retry) as authority,
            keep_fresh(config, metrics.metered(authority)) as certificates,
        ):
            await certificates.wait_for_first()
            await certificates.renew()
    assert value(registry, "num_outgoing_requests", request_type="csr") == 2
    assert value(registry, "num_failed_outgoing_requests", request_type="csr") is None
    assert value(registry, "num_outgoing_retries", request_type="csr") == 2
    assert (value(registry, "outgoing_latency", request_type="csr") or 0) > 0
    text = generate_latest(registry).decode()
    assert 'istio_agent_num_outgoing_requests{request_type="csr"} 2.0' in text


async def test_expiry_and_outage_are_seconds_from_now(
    config: RotationConfig,
    authority: FakeAuthority,
    clock: ManualClock,
    registry: CollectorRegistry,
) -> None:
    metrics = CertificateMetrics(registry, clock=clock)
    async with keep_fresh(config, metrics.metered(authority), clock=clock) as certificates:
        metrics.show(certificates)
        assert value(registry, OUTAGE, resource_name="default") == 0
        assert value(registry, "cert_expiry_seconds", resource_name="default") is None
        await certificates.wait_for_first()
        for name in ("cert_expiry_seconds", OUTAGE):
            assert value(registry, name, resource_name="default") == pytest.approx(3600, abs=1)
        authority.fail(lambda: AuthorityUnavailable("away"))
        await clock.advance(3000)
        assert value(registry, OUTAGE, resource_name="default") == pytest.approx(600, abs=1)
        assert (value(registry, "num_failed_outgoing_requests", request_type="csr") or 0) > 0
        await clock.advance(601)
        assert value(registry, OUTAGE, resource_name="default") == 0


async def test_the_readmes_metrics_are_exposed_by_their_names(
    config: RotationConfig, real_authority: FakeAuthority, registry: CollectorRegistry
) -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    named = set(re.findall(r"`((?:istio|mesh)_agent_[a-z_]+)`", readme))
    metrics = CertificateMetrics(registry)
    async with asyncio.timeout(60), keep_fresh(config, metrics.metered(real_authority)) as kept:
        metrics.show(kept)
        await kept.wait_for_first()
        exposed = generate_latest(registry).decode()
    assert named
    assert {name for name in named if f"\n{name}{{" not in exposed} == set()


async def test_failures_of_files_are_counted(tmp_path: Path, registry: CollectorRegistry) -> None:
    def watch_directory(directory: str, on_event: OnEvent) -> Unwatch:
        raise OSError(28, "inotify watch limit reached", directory, None, str(on_event))

    metrics = CertificateMetrics(registry)
    async with (
        asyncio.timeout(60),
        file_secrets(FileSecretsConfig(), watch_directory=watch_directory) as secrets,
    ):
        metrics.show_files(secrets)
        with pytest.raises(SourceUnavailable):
            await secrets.fetch(f"file-root:{tmp_path}/no.pem")
        assert value(registry, "num_file_secret_failures_total") == 1
        assert (value(registry, "num_file_watcher_failures_total") or 0) >= 1
