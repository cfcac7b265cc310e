"""How long a renewed certificate takes from the signing request until Envoy presents it.

One process holds what an agent has for it (certclient and the secret server) and a certificate
authority; Envoy is real and serves TLS. Prints the time beyond the authority's own.
"""

import argparse
import asyncio
import json
import ssl
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path

import uvloop
from cryptography import x509

import certclient
import envoy_supervisor
import mesh_sds
from certclient.testing import FakeAuthority
from mesh_testkit import find_free_port

BUDGET_MS = 50


class Secrets:
    """The certificate as Envoy's secret `default`."""

    def __init__(self, certificates: certclient.Certificates) -> None:
        self._certificates = certificates

    def get(self, name: str) -> mesh_sds.TlsCertificate | None:
        latest = self._certificates.latest
        if latest is None or name != "default":
            return None
        return mesh_sds.TlsCertificate(
            chain_pem=latest.chain_pem, private_key_pem=latest.private_key_pem
        )

    async def changes(self) -> AsyncIterator[frozenset[str]]:
        async for _ in self._certificates.changes():
            yield frozenset({"default"})


class Timed:
    """An authority that notes how long each signature took, in seconds."""

    def __init__(self, authority: certclient.CertificateAuthority) -> None:
        self._authority = authority
        self.took_s: list[float] = []

    async def sign(self, csr_pem: bytes, *, lifetime: timedelta) -> tuple[bytes, ...]:
        begin = time.perf_counter()
        try:
            return await self._authority.sign(csr_pem, lifetime=lifetime)
        finally:
            self.took_s.append(time.perf_counter() - begin)


async def measure(renewals: int, directory: Path) -> None:
    rotation = certclient.RotationConfig(
        spiffe_id=certclient.SpiffeId.parse("spiffe://bench.example/ns/shop/sa/web"),
        lifetime=timedelta(hours=1),
    )
    authority = Timed(FakeAuthority())
    port = find_free_port()
    async with AsyncExitStack() as stack:
        certificates = await stack.enter_async_context(certclient.keep_fresh(rotation, authority))
        await certificates.wait_for_first()
        sds = mesh_sds.SdsConfig(socket_path=directory / "sds")
        await stack.enter_async_context(mesh_sds.serving(sds, Secrets(certificates)))
        await stack.enter_async_context(envoy_with_tls(directory, port))
        beyond_ms = []
        for _ in range(renewals):
            begin = time.perf_counter()
            certificate = await certificates.renew()
            while await presented(port) != certificate.serial:
                pass
            beyond_ms.append((time.perf_counter() - begin - authority.took_s[-1]) * 1000)
            await asyncio.sleep(1.2)  # renewals are never closer than a second
    median, worst = statistics.median(beyond_ms), max(beyond_ms)
    verdict = "" if median <= BUDGET_MS else "   OVER"
    print(f"CSR to Envoy presenting it, beyond the authority's time, {renewals} renewals:")
    print(f"  median {median:.1f} ms   budget {BUDGET_MS} ms{verdict}")
    print(f"  slowest {worst:.1f} ms")


async def presented(port: int) -> int:
    """The serial of the certificate that a new handshake shows."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    shown: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.transport.abort()
    return x509.load_der_x509_certificate(shown).serial_number


@asynccontextmanager
async def envoy_with_tls(directory: Path, port: int) -> AsyncIterator[None]:
    path = directory / "bootstrap.json"
    path.write_text(json.dumps(bootstrap(directory / "sds", port, find_free_port())))
    config = envoy_supervisor.EnvoyConfig(
        binary=envoy_supervisor.find_envoy(),
        bootstrap=path,
        directory=directory,
        concurrency=1,
        termination_drain=timedelta(),
    )
    async with envoy_supervisor.running(config) as envoy:
        await envoy.wait_ready(20)
        async with asyncio.timeout(10):
            while True:
                try:
                    await presented(port)
                except OSError:  # live a moment before it listens
                    await asyncio.sleep(0.01)
                else:
                    break
        yield


def bootstrap(sds_socket: Path, port: int, admin_port: int) -> dict[str, object]:
    """An Envoy whose one listener serves TLS with the secret `default`."""
    types = "type.googleapis.com/envoy.extensions"
    downstream_tls = f"{types}.transport_sockets.tls.v3.DownstreamTlsContext"
    http2 = {
        "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
            "@type": f"{types}.upstreams.http.v3.HttpProtocolOptions",
            "explicit_http_config": {"http2_protocol_options": {}},
        }
    }
    endpoint = {"endpoint": {"address": {"pipe": {"path": str(sds_socket)}}}}
    service = {"grpc_services": [{"envoy_grpc": {"cluster_name": "sds"}}]}
    secret = {
        "name": "default",
        "sds_config": {
            "resource_api_version": "V3",
            "api_config_source": {"api_type": "GRPC", "transport_api_version": "V3", **service},
        },
    }
    answer = {"status": 200}
    manager = {
        "@type": f"{types}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "bench",
        "route_config": {
            "virtual_hosts": [
                {
                    "name": "all",
                    "domains": ["*"],
                    "routes": [{"match": {"prefix": "/"}, "direct_response": answer}],
                }
            ]
        },
        "http_filters": [
            {
                "name": "router",
                "typed_config": {"@type": f"{types}.filters.http.router.v3.Router"},
            }
        ],
    }
    return {
        "node": {"id": "bench", "cluster": "bench"},
        "admin": {"address": tcp(admin_port)},
        "static_resources": {
            "clusters": [
                {
                    "name": "sds",
                    "type": "STATIC",
                    "typed_extension_protocol_options": http2,
                    "load_assignment": {
                        "cluster_name": "sds",
                        "endpoints": [{"lb_endpoints": [endpoint]}],
                    },
                }
            ],
            "listeners": [
                {
                    "name": "tls",
                    "address": tcp(port),
                    "filter_chains": [
                        {
                            "filters": [{"name": "http", "typed_config": manager}],
                            "transport_socket": {
                                "name": "tls",
                                "typed_config": {
                                    "@type": downstream_tls,
                                    "common_tls_context": {
                                        "tls_certificate_sds_secret_configs": [secret]
                                    },
                                },
                            },
                        }
                    ],
                }
            ],
        },
    }


def tcp(port: int) -> dict[str, object]:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--renewals", type=int, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(measure(options.renewals, Path(name)))


if __name__ == "__main__":
    main()
