"""Certificates, discovery messages, and running relays for the tests."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict, Unpack

import grpc
import pytest
from envoy.service.discovery.v3 import discovery_pb2

from mesh_testkit import PATIENCE_S, until
from mesh_testkit.certificates import Authority
from xds_proxy import (
    MAX_STREAMS,
    AcceptedResponses,
    FurtherAddress,
    Interceptor,
    OnDisconnect,
    Relay,
    RelayConfig,
    ResponseObserver,
    Rewriter,
    SavedConfig,
    SystemRoots,
    UpstreamConfig,
    relaying,
    resource_bodies,
)

LISTENER = "type.googleapis.com/envoy.config.listener.v3.Listener"
IDENTIFIER = '{"Component":"test","Push":{"Reasons":["a reason"]}}'
"""In every response of `Messages`: by what the control plane describes itself."""


def server_credentials(
    authority: Authority, *names: str, expired: bool = False, clients_show_theirs: bool = False
) -> grpc.ServerCredentials:
    """Return the credentials of a server with these names (DNS names or IP addresses)."""
    issued = authority.issue(*names, expired=expired)
    return grpc.ssl_server_credentials(
        [(issued.key_pem, issued.chain_pem)],
        root_certificates=authority.root_pem if clients_show_theirs else None,
        require_client_auth=clients_show_theirs,
    )


class Messages:
    """Discovery messages written and read by the real protobuf classes."""

    listener = LISTENER
    identifier = IDENTIFIER
    cluster = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
    name_table = "type.googleapis.com/istio.networking.nds.v1.NameTable"

    @staticmethod
    def request(
        type_url: str, *, version: str = "", nonce: str = "", error: str | None = None
    ) -> bytes:
        message = discovery_pb2.DiscoveryRequest(
            type_url=type_url, version_info=version, response_nonce=nonce
        )
        message.node.id = "sidecar~10.0.0.1~web.default~default.svc.cluster.local"
        if error is not None:
            message.error_detail.code = 3
            message.error_detail.message = error
        return message.SerializeToString()

    @staticmethod
    def delta_request(type_url: str, *, nonce: str = "", error: str | None = None) -> bytes:
        message = discovery_pb2.DeltaDiscoveryRequest(type_url=type_url, response_nonce=nonce)
        message.node.id = "sidecar~10.0.0.1~web.default~default.svc.cluster.local"
        message.resource_names_subscribe.append("*")
        if error is not None:
            message.error_detail.message = error
        return message.SerializeToString()

    @staticmethod
    def response(type_url: str, *, version: str, nonce: str, bodies: tuple[bytes, ...]) -> bytes:
        message = discovery_pb2.DiscoveryResponse(
            type_url=type_url, version_info=version, nonce=nonce
        )
        message.control_plane.identifier = IDENTIFIER
        for body in bodies:
            message.resources.add(type_url=type_url, value=body)
        return message.SerializeToString()

    @staticmethod
    def delta_response(
        type_url: str, *, version: str, nonce: str, bodies: tuple[bytes, ...]
    ) -> bytes:
        message = discovery_pb2.DeltaDiscoveryResponse(
            type_url=type_url, system_version_info=version, nonce=nonce
        )
        message.control_plane.identifier = IDENTIFIER
        message.removed_resources.append("gone")
        for number, body in enumerate(bodies):
            resource = message.resources.add(name=f"resource-{number}", version=version)
            resource.resource.type_url = type_url
            resource.resource.value = body
        return message.SerializeToString()

    @staticmethod
    def read_request(data: bytes | None) -> discovery_pb2.DiscoveryRequest:
        assert data is not None
        return discovery_pb2.DiscoveryRequest.FromString(data)

    @staticmethod
    def read_delta_request(data: bytes | None) -> discovery_pb2.DeltaDiscoveryRequest:
        assert data is not None
        return discovery_pb2.DeltaDiscoveryRequest.FromString(data)


class RecordingInterceptor:
    """Intercepts name tables and keeps their resources; raises `error` if it is set."""

    type_url = Messages.name_table

    def __init__(self) -> None:
        self.taken: list[bytes] = []
        self.error: Exception | None = None

    def apply(self, response: bytes) -> None:
        if self.error is not None:
            raise self.error
        self.taken.extend(resource_bodies(response))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningRelay:
    relay: Relay
    socket_path: Path

    async def until(self, holds: Callable[[Relay], bool], *, what: str) -> None:
        """Wait until something holds for the relay."""
        await until(
            lambda: holds(self.relay),
            what=what,
            seen=lambda: f"{self.relay.status} {self.relay.counters}",
        )


def relays_errors(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """What the relay logged above INFO; others log too, as asyncio does of an earlier test."""
    return [r for r in caplog.records if r.name == "xds_proxy" and r.levelno > logging.INFO]


class UpstreamSettings(TypedDict, total=False):
    """The fields of UpstreamConfig that tests set."""

    root_certificate: Path | SystemRoots | None
    server_name: str
    token_path: Path
    client_certificate_path: Path
    client_key_path: Path
    metadata: tuple[tuple[str, str], ...]
    server_name_setting: str
    connect_timeout_s: float
    answer_timeout_s: float
    keepalive_s: float
    further_addresses: tuple[FurtherAddress, ...]


class RelayStarter:
    """Starts relays whose socket is in a directory of the test."""

    def __init__(
        self, directory: Path, *, on_disconnect: OnDisconnect = OnDisconnect.RECONNECT
    ) -> None:
        """on_disconnect: for relays that are started without it."""
        self._directory = directory
        self._on_disconnect = on_disconnect

    @asynccontextmanager
    async def __call__(
        self,
        address: str,
        *,
        interceptors: tuple[Interceptor, ...] = (),
        max_message_bytes: int = 256 * 1024 * 1024,
        send_timeout_s: float | None = 60.0,
        max_pending_write_bytes: int = 256 * 1024 * 1024,
        max_queued_bytes: int = 64 * 1024 * 1024,
        on_disconnect: OnDisconnect | None = None,
        max_streams: int = MAX_STREAMS,
        max_passed_calls: int = 32,
        trim_memory_after_s: float | None = None,
        rewriters: tuple[Rewriter, ...] = (),
        observer: ResponseObserver | None = None,
        accepted: AcceptedResponses | None = None,
        saved: SavedConfig | None = None,
        quarantine: bool = False,
        **upstream: Unpack[UpstreamSettings],
    ) -> AsyncIterator[RunningRelay]:
        """Run a relay to an address; further keywords go to its UpstreamConfig."""
        settings: UpstreamSettings = {"connect_timeout_s": PATIENCE_S, **upstream}
        config = RelayConfig(
            max_message_bytes=max_message_bytes,
            send_timeout_s=send_timeout_s,
            max_pending_write_bytes=max_pending_write_bytes,
            max_queued_bytes=max_queued_bytes,
            socket_path=self._directory / "proxy" / "XDS",
            on_disconnect=on_disconnect or self._on_disconnect,
            max_streams=max_streams,
            max_passed_calls=max_passed_calls,
            trim_memory_after_s=trim_memory_after_s,
            saved=saved,
            quarantine=quarantine,
            upstream=replace(UpstreamConfig(address=address, root_certificate=None), **settings),
        )
        async with relaying(
            config, interceptors, rewriters=rewriters, observer=observer, accepted=accepted
        ) as relay:
            yield RunningRelay(relay=relay, socket_path=config.socket_path)
