from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from prometheus_client.parser import text_string_to_metric_families

import certclient
import xds_proxy
from certclient.metrics import OUTAGE
from envoy_supervisor import EnvoyState, EnvoyStatus
from mesh_agent.identity._authority_requests import AuthorityRequests, CountedAuthority
from mesh_agent.status import _metrics as metrics
from mesh_agent.status import _process_metrics as process_metrics
from mesh_agent.status import _relay_metrics as relay_metrics
from mesh_status_server import Metric, ScrapeCounts, render

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def _plane(address: str, *, healthy: bool | None) -> xds_proxy.ControlPlaneStatus:
    return xds_proxy.ControlPlaneStatus(
        address=address, healthy=healthy, since=NOW, last_error=None, streams=0
    )


def read(metrics: Iterable[Metric]) -> dict[str, float]:
    """Samples by name and labels, as the client library reads them: it adds _total to counters."""
    found = {}
    for family in text_string_to_metric_families(render(metrics).decode()):
        for sample in family.samples:
            labels = ",".join(f"{key}={text}" for key, text in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


def root(ends: datetime) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "root")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1)
    signed = builder.not_valid_before(NOW).not_valid_after(ends).sign(key, hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.PEM)


def held(ends: datetime, *, roots: bytes = b"none") -> certclient.RotationStatus:
    certificate = certclient.Certificate(
        private_key_pem=b"key",
        chain_pem=b"chain",
        trust_bundle_pem=roots,
        spiffe_id=certclient.SpiffeId.parse("spiffe://cluster.local/ns/shop/sa/web"),
        serial=0x1F,
        not_before=NOW - timedelta(hours=1),
        not_after=ends,
    )
    return certclient.RotationStatus(certificate=certificate, attempts=3, failed_attempts=1)


def test_a_certificate_tells_how_long_it_lasts_and_whether_it_is_used() -> None:
    status = held(NOW + timedelta(hours=2))
    assert read(metrics.certificate_metrics(status, {"1f"}, now=NOW)) == {
        "istio_agent_cert_expiry_seconds{resource_name=default}": 7200,
        f"{OUTAGE}{{resource_name=default}}": 7200,
        "mesh_agent_certificate_in_use": 1,
        "mesh_agent_certificate_attempts_total": 3,
        "mesh_agent_certificate_failed_attempts": 1,
    }
    for serials in (set[str](), {"1e"}, {"1e", "1f"}):
        found = read(metrics.certificate_metrics(status, serials, now=NOW))
        assert found["mesh_agent_certificate_in_use"] == 0


def test_the_outage_comes_when_the_last_root_ends_if_that_is_sooner() -> None:
    roots = [root(NOW + timedelta(minutes=minutes)) for minutes in (1, 20)]
    for bundle, seconds in ((b"".join(roots), 1200), (roots[0], 60)):
        status = held(NOW + timedelta(hours=2), roots=bundle)
        found = read(metrics.certificate_metrics(status, set(), now=NOW))
        assert found["mesh_agent_seconds_until_outage{resource_name=default}"] == seconds


@pytest.mark.parametrize("status", [certclient.RotationStatus(), held(NOW - timedelta(seconds=5))])
def test_no_valid_certificate_is_an_outage_now(status: certclient.RotationStatus) -> None:
    found = read(metrics.certificate_metrics(status, set(), now=NOW))
    assert found["mesh_agent_seconds_until_outage{resource_name=default}"] == 0


def test_the_stream_is_reported_as_it_stands() -> None:
    def known(nack: str | None) -> xds_proxy.TypeStatus:
        return xds_proxy.TypeStatus(version="1", acked=nack is None, nack=nack, in_use="1", at=NOW)

    status = xds_proxy.RelayStatus(
        connected=True,
        since=NOW,
        last_error=None,
        types={"cds": known(None), "lds": known("bad")},
        streams=2,
        control_planes=(
            _plane("a:1", healthy=False),
            _plane("b:1", healthy=True),
            _plane("c:1", healthy=None),
        ),
    )
    totals = xds_proxy.Counters(
        requests=1,
        responses=2,
        connection_failures=3,
        control_plane_ended=4,
        control_plane_failed=5,
        envoy_ended=6,
        refused=7,
        dropped=8,
        envoy_not_reading=9,
        control_plane_not_reading=10,
        crowded_out=11,
        passed_calls=12,
        beyond_limit=13,
    )
    assert read(relay_metrics.relay_metrics(status, totals)) == {
        "mesh_agent_xds_connected": 1,
        "mesh_agent_xds_control_plane_healthy{address=a:1}": 0,
        "mesh_agent_xds_control_plane_healthy{address=b:1}": 1,
        "mesh_agent_xds_streams": 2,
        "mesh_agent_xds_stale_types": 0,
        "mesh_agent_xds_stale_starts_total": 0,
        "mesh_agent_xds_resources_quarantined": 0,
        "mesh_agent_xds_last_good_given_total": 0,
        "mesh_agent_xds_types_refused": 1,
        "mesh_agent_xds_resources_refused": 0,
        "istio_agent_xds_proxy_requests_total": 1,
        "istio_agent_xds_proxy_responses_total": 2,
        "istio_agent_istiod_connection_failures_total": 3,
        "istio_agent_istiod_connection_terminations_total{type=cancelled}": 4,
        "istio_agent_istiod_connection_terminations_total{type=error}": 5,
        "istio_agent_envoy_connection_terminations_total{type=cancelled}": 6,
        "mesh_agent_xds_responses_refused_total": 7,
        "mesh_agent_xds_not_reading_total{side=envoy}": 9,
        "mesh_agent_xds_not_reading_total{side=control_plane}": 10,
        "mesh_agent_xds_streams_crowded_out_total": 11,
        "mesh_agent_xds_passed_calls_total": 12,
        "mesh_agent_xds_responses_beyond_limit_total": 13,
        "mesh_agent_xds_responses_dropped_total": 8,
    }


def test_envoy_is_in_one_state() -> None:
    status = EnvoyStatus(
        state=EnvoyState.READY,
        pid=4711,
        version="1.40.0",
        epoch=2,
        restarts=3,
        refused=4,
        crashes=5,
        retiring=1,
        retained_sockets=6,
        handed_over=7,
        last_crash=None,
        last_refusal=None,
    )
    assert read(metrics.envoy_metrics(status)) == {
        "mesh_agent_envoy_state{state=starting}": 0,
        "mesh_agent_envoy_state{state=ready}": 1,
        "mesh_agent_envoy_state{state=draining}": 0,
        "mesh_agent_envoy_state{state=exited}": 0,
        "mesh_agent_envoy_epoch": 2,
        "mesh_agent_envoy_retiring": 1,
        "mesh_agent_envoy_restarts_total": 3,
        "mesh_agent_envoy_restarts_refused_total": 4,
        "mesh_agent_envoy_crashes_total": 5,
        "mesh_agent_envoy_retained_sockets": 6,
        "mesh_agent_envoy_sockets_handed_over_total": 7,
    }


def test_the_process_is_reported_by_the_kernel() -> None:
    found = read(process_metrics.process_metrics(process_metrics.this_process()))
    assert found["istio_agent_process_resident_memory_bytes"] > 1_000_000
    assert found["istio_agent_process_cpu_seconds_total"] > 0
    assert found["istio_agent_process_open_fds"] > 2
    assert 0 < process_metrics.process_age_s() < 86_400


class Authority:
    """Signs, or refuses, and takes a second for either."""

    def __init__(self) -> None:
        self.refuses = False
        self.now_s = 0.0

    async def sign(self, csr_pem: bytes, *, lifetime: timedelta) -> tuple[bytes, ...]:
        self.now_s += 1
        if self.refuses:
            raise certclient.AuthorityUnavailable("down")
        return (csr_pem, str(lifetime).encode())


async def test_requests_to_the_authority_are_counted() -> None:
    authority, counts = Authority(), AuthorityRequests()
    counted = CountedAuthority(authority, counts, now_s=lambda: authority.now_s)
    assert await counted.sign(b"csr", lifetime=timedelta(hours=1)) == (b"csr", b"1:00:00")
    authority.refuses = True
    counts.count_retry()
    with pytest.raises(certclient.AuthorityUnavailable):
        await counted.sign(b"csr", lifetime=timedelta(hours=1))
    text = render(metrics.authority_metrics(counts)).decode()
    for name, value in (
        ("outgoing_latency", "2.0"),
        ("num_outgoing_requests", "2"),
        ("num_failed_outgoing_requests", "1"),
        ("num_outgoing_retries", "1"),
    ):
        assert f'istio_agent_{name}{{request_type="csr"}} {value}\n' in text


def test_files_that_fail_are_counted() -> None:
    status = certclient.FileStatus(watch_failures=2, load_failures=3)
    assert read(metrics.file_metrics(status)) == {
        "istio_agent_num_file_watcher_failures_total": 2,
        "istio_agent_num_file_secret_failures_total": 3,
    }


def test_scrapes_are_counted_by_what_failed() -> None:
    counts = ScrapeCounts(5, {"agent": 0, "envoy": 1, "application": 2})
    assert read(metrics.scrape_metrics(counts)) == {
        "istio_agent_scrapes_total": 5,
        "istio_agent_scrape_failures_total{type=agent}": 0,
        "istio_agent_scrape_failures_total{type=envoy}": 1,
        "istio_agent_scrape_failures_total{type=application}": 2,
    }
