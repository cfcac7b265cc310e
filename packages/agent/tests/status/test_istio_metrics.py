"""Istio's metrics: names, types and labels, against the list of those that Istio's agent has."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

import certclient
import mesh_dnsproxy
import wasm_modules
import xds_proxy
from mesh_agent.identity._authority_requests import AuthorityRequests
from mesh_agent.status import _metrics as metrics
from mesh_agent.status._dns_metrics import dns_metrics
from mesh_agent.status._process_metrics import process_metrics, this_process
from mesh_agent.status._relay_metrics import relay_metrics
from mesh_agent.status._wasm_metrics import wasm_metrics
from mesh_status_server import Kind, Metric, ScrapeCounts

NOW = datetime(2030, 1, 1, tzinfo=UTC)
PREFIX = "istio_agent_"
CSR = {"request_type": {"csr"}}
ENDS = {"type": {"cancelled", "error"}}
Labels = Mapping[str, set[str]]

# As Istio's agents have them: kind, and the values of each label.
ISTIOS: dict[str, tuple[Kind, Labels]] = {
    "scrapes_total": (Kind.COUNTER, {}),
    "scrape_failures_total": (Kind.COUNTER, {"type": {"envoy", "application", "agent"}}),
    "istiod_connection_failures": (Kind.COUNTER, {}),
    "istiod_connection_terminations": (Kind.COUNTER, ENDS),
    "envoy_connection_terminations": (Kind.COUNTER, ENDS),
    "xds_proxy_requests": (Kind.COUNTER, {}),
    "xds_proxy_responses": (Kind.COUNTER, {}),
    "outgoing_latency": (Kind.COUNTER, CSR),
    "num_outgoing_requests": (Kind.COUNTER, CSR),
    "num_failed_outgoing_requests": (Kind.COUNTER, CSR),
    "num_outgoing_retries": (Kind.COUNTER, CSR),
    "num_file_watcher_failures_total": (Kind.COUNTER, {}),
    "num_file_secret_failures_total": (Kind.COUNTER, {}),
    "cert_expiry_seconds": (Kind.GAUGE, {"resource_name": {"default"}}),
    "dns_requests_total": (Kind.COUNTER, {}),
    "dns_upstream_requests_total": (Kind.COUNTER, {}),
    "dns_upstream_failures_total": (Kind.COUNTER, {}),
    "dns_upstream_request_duration_seconds": (
        Kind.HISTOGRAM,
        {"le": {"0.001", "0.005", "0.01", "0.1", "1", "5", "+Inf"}},
    ),
    "wasm_cache_entries": (Kind.GAUGE, {}),
    "wasm_cache_lookup_count": (Kind.COUNTER, {"hit": {"true", "false"}}),
    "wasm_remote_fetch_count": (
        Kind.COUNTER,
        {
            "result": {
                "success",
                "download_failure",
                "manifest_failure",
                "checksum_mismatched",
                "fetch_failure",
            }
        },
    ),
    "wasm_config_conversion_count": (
        Kind.COUNTER,
        {
            "result": {
                "success",
                "no_remote_load",
                "marshal_failure",
                "unmarshal_failure",
                "fetch_failure",
                "miss_remote_fetch_hint",
            }
        },
    ),
    "wasm_config_conversion_duration": (
        Kind.HISTOGRAM,
        {"le": {*(str(2**power) for power in range(15)), "+Inf"}},
    ),
}
# Otherwise than there, as the README says.
NEVER: dict[str, dict[str, set[str]]] = {
    "envoy_connection_terminations": {"type": {"error"}},
    "wasm_config_conversion_count": {"result": {"marshal_failure"}},
}


def _every_metric() -> Iterator[Metric]:
    certificate = certclient.Certificate(
        private_key_pem=b"key",
        chain_pem=b"chain",
        trust_bundle_pem=b"none",
        spiffe_id=certclient.SpiffeId.parse("spiffe://cluster.local/ns/shop/sa/web"),
        serial=1,
        not_before=NOW,
        not_after=NOW + timedelta(hours=1),
    )
    status = certclient.RotationStatus(certificate=certificate, attempts=1, failed_attempts=0)
    relay = xds_proxy.RelayStatus(connected=True, since=NOW, last_error=None, types={}, streams=1)
    yield from metrics.certificate_metrics(status, set(), now=NOW)
    yield from metrics.authority_metrics(AuthorityRequests())
    yield from metrics.file_metrics(certclient.FileStatus())
    yield from relay_metrics(relay, xds_proxy.Counters())
    yield from metrics.scrape_metrics(ScrapeCounts(0, {"agent": 0, "envoy": 0, "application": 0}))
    yield from process_metrics(this_process())
    yield from dns_metrics(mesh_dnsproxy.Counts())
    counters = wasm_modules.Counters()
    counters.fetches = dict.fromkeys(wasm_modules.FetchResult, 1)
    counters.conversions = dict.fromkeys(wasm_modules.Conversion, 1)
    yield from wasm_metrics(counters)


def _labels(metric: Metric) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for sample in metric.samples:
        for name, value in sample.labels.items():
            found.setdefault(name, set()).add(value)
    return found


def test_istios_metrics_have_its_names_types_and_labels() -> None:
    found = {metric.name: metric for metric in _every_metric()}
    for name, (kind, labels) in ISTIOS.items():
        metric = found[PREFIX + name]
        never = NEVER.get(name, {})
        expected = {label: values - never.get(label, set()) for label, values in labels.items()}
        assert (name, metric.kind, _labels(metric)) == (name, kind, expected)


def test_other_metrics_with_istios_prefix_are_of_the_process_and_of_names() -> None:
    others = {
        metric.name.removeprefix(PREFIX)
        for metric in _every_metric()
        if metric.name.startswith(PREFIX)
    } - ISTIOS.keys()
    assert all(name.startswith(("process_", "dns_")) for name in others), others
