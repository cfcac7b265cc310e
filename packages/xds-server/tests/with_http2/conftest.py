"""An xDS client over HTTP/2 that gives the server as much room to write as a test says."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from envoy.config.core.v3 import base_pb2
from envoy.service.discovery.v3 import discovery_pb2

from mesh_testkit.http2 import Http2Client, connected
from server_pki import Pki
from xds_server import Listener, PlainListener, TlsListener, UnixListener
from xds_server.testing import ADS_SOTW


class XdsClient(Http2Client):
    """One connection; its streams share it."""

    async def subscribe(self, type_url: str, *, node_id: str) -> int:
        """Open an aggregated stream that asks for all of a type."""
        request = discovery_pb2.DiscoveryRequest(type_url=type_url, node=base_pb2.Node(id=node_id))
        return await self.open(ADS_SOTW, request.SerializeToString())

    async def ack(self, stream: int, response: discovery_pb2.DiscoveryResponse) -> None:
        request = discovery_pb2.DiscoveryRequest(
            type_url=response.type_url,
            response_nonce=response.nonce,
            version_info=response.version_info,
        )
        await self.send(stream, request.SerializeToString())

    async def next(self, stream: int) -> discovery_pb2.DiscoveryResponse:
        """The next response, accepted."""
        response = discovery_pb2.DiscoveryResponse.FromString(await self.receive(stream))
        await self.ack(stream, response)
        return response


Connect = Callable[..., AbstractAsyncContextManager[Any]]


@pytest.fixture
def http2() -> Connect:
    """Connect to an address; `window` is how many bytes each stream may be sent ahead."""
    return partial(connected, client=XdsClient)


class Transport(NamedTuple):
    """Where a server listens, and how to connect to it."""

    listener: Listener
    connect: Connect


@pytest.fixture(params=["plaintext", "TLS", "unix"])
def transport(
    request: pytest.FixtureRequest, http2: Connect, socket_dir: Path, pki: Pki
) -> Transport:
    """A server's listener of each kind."""
    if request.param == "plaintext":
        return Transport(PlainListener(), http2)
    if request.param == "unix":
        return Transport(UnixListener(path=socket_dir / "xds" / "socket"), http2)
    context = ssl.create_default_context(cadata=pki.root_pem.decode())
    context.check_hostname = False
    context.set_alpn_protocols(["h2"])
    return Transport(TlsListener(context=pki.server_context), partial(http2, context=context))
