"""A control plane that sends prepared resources to real Envoys, through a relay with an adapter."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from envoy.service.discovery.v3 import discovery_pb2

from mesh_lifecycle import in_background
from mesh_testkit import PATIENCE_S, until
from sidecar import Dictionary, serialised
from xds_adapter import Adapter
from xds_proxy import RelayConfig, UpstreamConfig, relaying
from xds_proxy.testing import ControlPlane, control_plane

Resources = Mapping[str, Sequence[Dictionary]]


@dataclass(kw_only=True)
class FedEnvoy:
    """An Envoy that gets resources. refusals: its NACKs by type; accepted: the types it ACKed."""

    admin: Path
    refusals: dict[str, str] = field(default_factory=dict)
    accepted: set[str] = field(default_factory=set)

    async def get(self, path: str) -> str:
        """Ask the admin interface; empty while it does not answer."""
        try:
            reader, writer = await asyncio.open_unix_connection(self.admin)
        except OSError:
            return ""
        writer.write(f"GET {path} HTTP/1.1\r\nhost: envoy\r\nconnection: close\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        return answer.partition(b"\r\n\r\n")[2].decode()

    async def wait_ready(self) -> None:
        """Wait until it has all its resources."""

        async def is_live() -> bool:
            return "LIVE" in await self.get("/ready")

        await until(is_live, what="Envoy is ready", seen=lambda: self.refusals)

    async def wait_refused(self, type_url: str) -> str:
        """Wait until it has refused resources of a type. Returns the reason."""
        await until(lambda: type_url in self.refusals, what="a refusal", seen=lambda: self.accepted)
        return self.refusals[type_url]


@asynccontextmanager
async def fed_envoy(
    binary: Path, directory: Path, resources: Resources, *, adapter: Adapter | None
) -> AsyncIterator[FedEnvoy]:
    """Start an Envoy that gets these resources by ADS; without an adapter, as they are.

    directory: for the admin socket.
    """
    fed = FedEnvoy(admin=directory / "admin")
    async with control_plane() as plane:
        config = RelayConfig(
            socket_path=directory / "relay" / "XDS",
            upstream=UpstreamConfig(address=plane.address, root_certificate=None),
        )
        async with (
            in_background(_feed(plane, resources, fed), name="feed"),
            relaying(config, rewriters=() if adapter is None else (adapter,)),
            _envoy(binary, fed.admin, config.socket_path),
        ):
            yield fed


async def _feed(plane: ControlPlane, resources: Resources, fed: FedEnvoy) -> None:
    stream = await plane.accept()
    asked: dict[str, tuple[str, ...]] = {}
    while (data := await stream.receive()) is not None:
        request = discovery_pb2.DiscoveryRequest.FromString(data)
        url = request.type_url
        if request.response_nonce:
            if request.HasField("error_detail"):
                fed.refusals[url] = request.error_detail.message
            else:
                fed.accepted.add(url)
        names = tuple(sorted(request.resource_names))
        if asked.get(url) == names:
            continue
        asked[url] = names
        response = discovery_pb2.DiscoveryResponse(
            version_info=f"v{len(asked)}", type_url=url, nonce=f"{url}-{len(names)}"
        )
        for each in resources.get(url, ()):
            response.resources.add(type_url=url, value=serialised(url, each))
        await stream.send(response.SerializeToString())
    await asyncio.Event().wait()  # the Envoy is stopped before this is


@asynccontextmanager
async def _envoy(binary: Path, admin: Path, relay: Path) -> AsyncIterator[None]:
    kind = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
    to_plane = {"pipe": {"path": str(relay)}}
    source = {"ads": {}, "resource_api_version": "V3"}
    bootstrap = {
        "node": {"id": "sidecar~127.0.0.1~web.default~default.svc.cluster.local", "cluster": "web"},
        "admin": {"address": {"pipe": {"path": str(admin)}}},
        "dynamic_resources": {
            "ads_config": {
                "api_type": "GRPC",
                "transport_api_version": "V3",
                "set_node_on_first_message_only": True,
                "grpc_services": [{"envoy_grpc": {"cluster_name": "xds-grpc"}}],
            },
            "cds_config": source,
            "lds_config": source,
        },
        "static_resources": {
            "clusters": [
                {
                    "name": "xds-grpc",
                    "type": "STATIC",
                    "connect_timeout": "1s",
                    "typed_extension_protocol_options": {
                        kind: {
                            "@type": f"type.googleapis.com/{kind}",
                            "explicit_http_config": {"http2_protocol_options": {}},
                        }
                    },
                    "load_assignment": {
                        "cluster_name": "xds-grpc",
                        "endpoints": [{"lb_endpoints": [{"endpoint": {"address": to_plane}}]}],
                    },
                }
            ]
        },
    }
    process = await asyncio.create_subprocess_exec(
        binary,
        "--disable-hot-restart",
        *("--concurrency", "1", "--log-level", "error"),
        *("--config-yaml", json.dumps(bootstrap)),
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield
    finally:
        if process.returncode is None:
            process.kill()
        _, said = await process.communicate()
        sys.stdout.write(said.decode(errors="replace"))  # shown with a failed test
        admin.unlink(missing_ok=True)


@asynccontextmanager
async def application() -> AsyncIterator[int]:
    """Run an application on a free port: HTTP requests get their own head as the body, and the
    headers of an Istio proxy's answer; other lines come back.
    """

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while first := await reader.readline():
                if b"HTTP/1.1" not in first:
                    writer.write(first)
                    continue
                head = first
                while line := (await reader.readline()).rstrip():
                    head += line + b"\n"
                answer = b"HTTP/1.1 200 OK\r\nx-envoy-peer-metadata: of-the-server\r\n"
                writer.write(answer + b"content-length: %d\r\n\r\n%b" % (len(head), head))
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def http_get(port: int, path: str = "/", **headers: str) -> str:
    """Send a request to a listener of this machine; returns the whole answer."""
    async with asyncio.timeout(PATIENCE_S):
        return await _http_get(port, path, headers)


async def _http_get(port: int, path: str, headers: Mapping[str, str]) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        writer.write(f"GET {path} HTTP/1.1\r\nhost: server\r\n{head}\r\n".encode())
        answer = await reader.readuntil(b"\r\n\r\n")
        found = re.search(rb"content-length: (\d+)", answer)
        assert found is not None, answer
        return (answer + await reader.readexactly(int(found[1]))).decode()
    finally:
        writer.close()
        await writer.wait_closed()


async def line_back(port: int, line: bytes) -> bytes:
    """Send a line over TCP; returns the line that comes back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(line)
        async with asyncio.timeout(PATIENCE_S):
            return await reader.readline()
    finally:
        writer.close()
        await writer.wait_closed()
