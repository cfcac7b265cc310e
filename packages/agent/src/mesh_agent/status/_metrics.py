"""Every metric of the agent, read from its parts at a scrape.

Names beginning with istio_agent_ are Istio's, and mean what they mean there.
"""

import time
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime

import certclient
import envoy_supervisor
from mesh_agent.identity._authority_requests import AuthorityRequests
from mesh_agent.identity._described_certificates import outage_at
from mesh_agent.identity._workload_secrets import OwnSecrets
from mesh_agent.status._parts import AgentParts
from mesh_agent.status._process_metrics import process_age_s, process_metrics, this_process
from mesh_agent.status._relay_metrics import adaptation_metric, relay_metrics
from mesh_listening import PortCounts
from mesh_status_server import Kind, Metric, Sample, ScrapeCounts, counter, gauge

_DEFAULT = {"resource_name": "default"}
_CSR = {"request_type": "csr"}


def agent_metrics(parts: AgentParts) -> Iterator[Metric]:
    """The metrics of every part of a running agent."""
    yield gauge("mesh_agent_ready", "1 if the workload is ready.", float(parts.readiness.ready))
    ready_at = parts.readiness.first_ready_at
    if ready_at is not None:
        yield gauge(
            "istio_agent_startup_duration_seconds",
            "Seconds from the process's start until it was ready.",
            process_age_s() - (time.monotonic() - ready_at),
        )
    ports = [parts.status_port, parts.relay.port]
    if isinstance(parts.secrets, OwnSecrets):
        yield from certificate_metrics(
            parts.secrets.certificates.status, parts.secrets.serials_in_use(), now=datetime.now(UTC)
        )
        if parts.secrets.requests is not None:
            yield from authority_metrics(parts.secrets.requests)
        if parts.secrets.files is not None:
            yield from file_metrics(parts.secrets.files.status)
        if parts.secrets.server is not None:
            ports.insert(1, parts.secrets.server.port)
    yield from relay_metrics(parts.relay.status, parts.relay.counters)
    yield gauge(
        "mesh_agent_xds_pending_write_bytes",
        "Bytes of messages that Envoys and the control plane have not read yet.",
        parts.relay.pending_write_bytes,
    )
    if parts.adapter is not None and parts.adapter.adaptations:
        yield adaptation_metric(parts.adapter)
    if parts.envoy is not None:
        yield from envoy_metrics(parts.envoy.status)
    yield from application_metrics(parts)
    if parts.tokens is not None and parts.tokens.port is not None:
        ports.append(parts.tokens.port)
    if parts.dns is not None:
        from mesh_agent.status._dns_metrics import dns_metrics  # brings the DNS server

        yield from dns_metrics(parts.dns.counts)
    if parts.wasm is not None and (wasm := parts.wasm.counters) is not None:
        from mesh_agent.status._wasm_metrics import wasm_metrics  # brings what rewrites filters

        yield from wasm_metrics(wasm)
    yield from listener_metrics(port.counts() for port in ports)
    yield from process_metrics(this_process())


def application_metrics(parts: AgentParts) -> Iterator[Metric]:
    """The metrics of what the agent does for the application, and of the certificate it shows."""
    if parts.served is not None and parts.served.latest is not None:
        matches = parts.served.latest.matches
        if matches is not None:
            yield gauge(
                "mesh_agent_envoy_certificate_matches",
                "1 if Envoy serves the newest certificate, 0 if another one.",
                float(matches),
            )
    if parts.tokens is not None:
        yield Metric(
            name="mesh_agent_token_exchanges_total",
            kind=Kind.COUNTER,
            text="Requests of the application for a token, by how they ended.",
            samples=tuple(
                Sample(value=count, labels={"result": result})
                for result, count in parts.tokens.counts.items()
            ),
        )
    if parts.health is not None and parts.health.healthy is not None:
        yield gauge(
            "mesh_agent_application_healthy",
            "1 if the application is healthy, as the control plane was told.",
            float(parts.health.healthy),
        )


def certificate_metrics(
    status: certclient.RotationStatus, serials_in_use: AbstractSet[str], *, now: datetime
) -> Iterator[Metric]:
    """The metrics of the certificate. serials_in_use: what Envoys work with, in hexadecimal."""
    held = status.certificate
    if held is not None:
        yield gauge(
            "istio_agent_cert_expiry_seconds",
            "Seconds to the certificate's end; below 0 it is past.",
            (held.not_after - now).total_seconds(),
            _DEFAULT,
        )
    yield gauge(
        "mesh_agent_seconds_until_outage",
        "Seconds to the moment without identity, should the issuer stay down.",
        0.0 if held is None else max(0.0, (outage_at(held) - now).total_seconds()),
        _DEFAULT,
    )
    yield gauge(
        "mesh_agent_certificate_in_use",
        "1 if every Envoy works with the newest certificate.",
        float(held is not None and serials_in_use == {f"{held.serial:x}"}),
    )
    yield counter(
        "mesh_agent_certificate_attempts_total", "Attempts to get a certificate.", status.attempts
    )
    yield gauge(
        "mesh_agent_certificate_failed_attempts",
        "Attempts that failed since the last that did not.",
        status.failed_attempts,
    )


def authority_metrics(requests: AuthorityRequests) -> Iterator[Metric]:
    """The metrics of the requests to the certificate authority."""
    for name, text, value in (
        ("outgoing_latency", "Seconds spent on requests to the authority.", requests.seconds),
        ("num_outgoing_requests", "Requests to the authority.", requests.requests),
        ("num_failed_outgoing_requests", "Requests that failed.", requests.failed),
        ("num_outgoing_retries", "Tries of requests after the first.", requests.retries),
    ):
        yield counter(f"istio_agent_{name}", text, value, _CSR)


def file_metrics(status: certclient.FileStatus) -> Iterator[Metric]:
    """The metrics of the secrets that Envoy names by their files."""
    yield counter(
        "istio_agent_num_file_watcher_failures_total",
        "Directories that could not be watched.",
        status.watch_failures,
    )
    yield counter(
        "istio_agent_num_file_secret_failures_total",
        "Certificate files that became invalid.",
        status.load_failures,
    )


def envoy_metrics(status: envoy_supervisor.EnvoyStatus) -> Iterator[Metric]:
    """The metrics of the supervised Envoy."""
    yield Metric(
        name="mesh_agent_envoy_state",
        kind=Kind.GAUGE,
        text="1 for the state Envoy is in.",
        samples=tuple(
            Sample(value=float(status.state is state), labels={"state": state.value})
            for state in envoy_supervisor.EnvoyState
        ),
    )
    yield gauge(
        "mesh_agent_envoy_epoch", "Hot restarts that led to the serving process.", status.epoch
    )
    yield gauge(
        "mesh_agent_envoy_retiring",
        "Old processes that still finish requests.",
        status.retiring,
    )
    yield counter(
        "mesh_agent_envoy_restarts_total", "Hot restarts that succeeded.", status.restarts
    )
    yield counter(
        "mesh_agent_envoy_restarts_refused_total",
        "Hot restarts that were refused or given up.",
        status.refused,
    )
    yield counter(
        "mesh_agent_envoy_crashes_total", "Ends of Envoy that were not requested.", status.crashes
    )
    yield gauge(
        "mesh_agent_envoy_retained_sockets",
        "Listening sockets held open in case Envoy dies.",
        status.retained_sockets,
    )
    yield counter(
        "mesh_agent_envoy_sockets_handed_over_total",
        "Sockets on which connections waited for a new Envoy after a crash.",
        status.handed_over,
    )


def scrape_metrics(counts: ScrapeCounts) -> Iterator[Metric]:
    """The metrics of the scrapes before this one."""
    yield counter("istio_agent_scrapes_total", "Scrapes served.", counts.served)
    yield Metric(
        name="istio_agent_scrape_failures_total",
        kind=Kind.COUNTER,
        text="Scrapes that lacked metrics, by the source that failed.",
        samples=tuple(
            Sample(value=number, labels={"type": kind}) for kind, number in counts.failures.items()
        ),
    )


def listener_metrics(ports: Iterable[PortCounts]) -> Iterator[Metric]:
    """The metrics of each port and Unix socket the agent listens on."""
    every = tuple(ports)

    def metric(name: str, kind: Kind, text: str, values: Iterable[int]) -> Metric:
        samples = tuple(
            Sample(value=value, labels={"listener": port.listener})
            for port, value in zip(every, values, strict=True)
        )
        return Metric(name=name, kind=kind, text=text, samples=samples)

    yield metric(
        "mesh_listener_connections_accepted_total",
        Kind.COUNTER,
        "Connections that came, those refused included.",
        [port.accepted for port in every],
    )
    yield metric(
        "mesh_listener_connections_open",
        Kind.GAUGE,
        "Connections open now.",
        [port.open for port in every],
    )
    yield Metric(
        name="mesh_listener_connections_refused_total",
        kind=Kind.COUNTER,
        text="Connections turned away, or ended for what they did, by reason.",
        samples=tuple(
            Sample(value=number, labels={"listener": port.listener, "reason": reason.label})
            for port in every
            for reason, number in port.refused.items()
        ),
    )
