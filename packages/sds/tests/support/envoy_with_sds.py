"""A real Envoy whose listener takes its certificate and its trust bundle over SDS."""

import asyncio
import json
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509

from localhost_issuer import Issued
from mesh_sds import TrustBundle

REQUEST = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"


def bootstrap(socket_path: Path, port: int, api_type: str) -> dict[str, object]:
    def secret(name: str) -> dict[str, object]:
        source = {
            "resource_api_version": "V3",
            "initial_fetch_timeout": "0s",
            "api_config_source": {
                "api_type": api_type,
                "transport_api_version": "V3",
                "grpc_services": [{"envoy_grpc": {"cluster_name": "sds"}}],
            },
        }
        return {"name": name, "sds_config": source}

    http: dict[str, object] = {
        "@type": "type.googleapis.com/envoy.extensions.filters.network"
        ".http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "in",
        "route_config": {
            "virtual_hosts": [
                {
                    "name": "all",
                    "domains": ["*"],
                    "routes": [
                        {
                            "match": {"prefix": "/"},
                            "direct_response": {"status": 200, "body": {"inline_string": "ok"}},
                        }
                    ],
                }
            ]
        },
        "http_filters": [
            {
                "name": "router",
                "typed_config": {
                    "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"
                },
            }
        ],
    }
    tls = {
        "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3"
        ".DownstreamTlsContext",
        "require_client_certificate": True,
        "common_tls_context": {
            "tls_certificate_sds_secret_configs": [secret("default")],
            "validation_context_sds_secret_config": secret("ROOTCA"),
        },
    }
    address = {"socket_address": {"address": "127.0.0.1", "port_value": port}}
    return {
        "node": {"id": "envoy", "cluster": "test"},
        "static_resources": {
            "listeners": [
                {
                    "name": "in",
                    "address": address,
                    "filter_chains": [
                        {
                            "filters": [{"name": "http", "typed_config": http}],
                            "transport_socket": {"name": "tls", "typed_config": tls},
                        }
                    ],
                }
            ],
            "clusters": [
                {
                    "name": "sds",
                    "connect_timeout": "1s",
                    "typed_extension_protocol_options": {
                        "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                            "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3"
                            ".HttpProtocolOptions",
                            "explicit_http_config": {"http2_protocol_options": {}},
                        }
                    },
                    "load_assignment": {
                        "cluster_name": "sds",
                        "endpoints": [
                            {
                                "lb_endpoints": [
                                    {"endpoint": {"address": {"pipe": {"path": str(socket_path)}}}}
                                ]
                            }
                        ],
                    },
                }
            ],
        },
    }


@dataclass
class RunningEnvoy:
    """An Envoy process and the port of its listener."""

    log: asyncio.StreamReader
    port: int
    pid: int
    seen: list[bytes]

    async def wait_for_log(self, words: bytes) -> None:
        line = b""
        while words not in line:
            line = await self.log.readline()
            self.seen.append(line)
            assert line, "Envoy ended"


@asynccontextmanager
async def running_envoy(
    binary: Path, directory: Path, config: dict[str, object], port: int
) -> AsyncIterator[RunningEnvoy]:
    path = directory / "bootstrap.json"
    path.write_text(json.dumps(config))
    process = await asyncio.create_subprocess_exec(
        binary,
        "--config-path",
        path,
        "--concurrency",
        "1",
        "--disable-hot-restart",
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    envoy = RunningEnvoy(log=process.stderr, port=port, pid=process.pid, seen=[])
    try:
        yield envoy
    finally:
        process.kill()
        _, rest = await process.communicate()
        # Shown with a failed test.
        sys.stdout.write(b"".join((*envoy.seen, rest or b"")).decode(errors="replace"))


class Connection:
    """One TLS connection to the listener."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @property
    def serial(self) -> int:
        tls = self._writer.get_extra_info("ssl_object")
        return x509.load_der_x509_certificate(tls.getpeercert(binary_form=True)).serial_number

    async def ask(self) -> None:
        self._writer.write(REQUEST)
        head = await self._reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        assert await self._reader.readexactly(2) == b"ok"

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


@asynccontextmanager
async def connected(port: int, context: ssl.SSLContext) -> AsyncIterator[Connection]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    connection = Connection(reader, writer)
    try:
        yield connection
    finally:
        await connection.close()


def client_context(directory: Path, issued: Issued, *roots: TrustBundle) -> ssl.SSLContext:
    path = directory / "client.pem"
    path.write_bytes(issued.secret.private_key_pem + issued.secret.chain_pem)
    context = ssl.create_default_context(
        cadata="".join(bundle.roots_pem.decode() for bundle in roots)
    )
    context.load_cert_chain(path)
    return context


async def wait_for_serial(port: int, context: ssl.SSLContext, serial: int) -> None:
    """Shake hands until the listener shows this certificate and takes ours.

    Workers that were asked to start may take a moment to listen.
    """
    while True:
        with suppress(ConnectionRefusedError):
            async with connected(port, context) as connection:
                await connection.ask()
                if connection.serial == serial:
                    return
