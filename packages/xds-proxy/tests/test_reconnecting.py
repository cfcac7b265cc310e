"""The agent's own part of a stream while control planes come and go, in both dialects."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from envoy.service.discovery.v3 import discovery_pb2

from mesh_testkit import until
from relays import Messages, RecordingInterceptor, RelayStarter
from xds_proxy import InterceptorRefused, Relay, RewriteRefused
from xds_proxy.protocol._dialect import DELTA, DIALECTS, Dialect
from xds_proxy.protocol._resources import Resource, resources_of, write_response
from xds_proxy.testing import ControlPlaneStream, EnvoyStream, control_plane, envoy_stream

_HEALTH = "type.googleapis.com/istio.v1.HealthInformation"
by_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=["sotw", "delta"])


def _response(dialect: Dialect, type_url: str, version: str, **contents: str) -> bytes:
    """Return a response; each resource's name is in it, as its first field."""
    resources = [
        Resource(name, version if dialect is DELTA else "", _body(type_url, name, content))
        for name, content in contents.items()
    ]
    return write_response(
        dialect, type_url=type_url, version=version, nonce=version, resources=resources
    )


def _body(type_url: str, name: str, content: str) -> bytes:
    value = _text(1, name) + _text(2, content)
    return _text(1, type_url) + b"\x12" + bytes([len(value)]) + value


def _text(number: int, text: str) -> bytes:
    return bytes([number << 3 | 2, len(text)]) + text.encode()


async def _types(stream: ControlPlaneStream, dialect: Dialect, count: int) -> list[str]:
    """Return the types of the next requests."""
    return [dialect.read_request(await stream.receive() or b"").type_url for _ in range(count)]


async def _ask(envoy: EnvoyStream, dialect: Dialect, *type_urls: str) -> None:
    make = Messages.delta_request if dialect is DELTA else Messages.request
    for type_url in type_urls:
        await envoy.send(make(type_url))


def _held(raw: bytes | None) -> dict[str, str]:
    return dict(
        discovery_pb2.DeltaDiscoveryRequest.FromString(raw or b"").initial_resource_versions
    )


@by_dialect
async def test_the_agents_types_are_subscribed_to_anew_with_the_version_that_it_has(
    start_relay: RelayStarter, *, dialect: Dialect
) -> None:
    """After Envoy's first request; a refused version is not named; the report comes later."""
    recorder = RecordingInterceptor()
    async with (
        control_plane() as plane,
        start_relay(plane.address, interceptors=(recorder,)) as running,
        envoy_stream(running.socket_path, method=dialect.method) as envoy,
    ):
        running.relay.inject(_HEALTH, error="not yet")
        await _ask(envoy, dialect, Messages.cluster, Messages.listener)
        stream = await plane.accept()
        types = await _types(stream, dialect, 4)
        assert types == [Messages.cluster, Messages.name_table, Messages.listener, _HEALTH]
        await stream.send(_response(dialect, Messages.name_table, "v1", table="good"))
        await _types(stream, dialect, 1)
        recorder.error = InterceptorRefused("no table")
        await stream.send(_response(dialect, Messages.name_table, "v2", table="bad"))
        await _types(stream, dialect, 1)
        for _ in range(3):
            stream.end()
            stream = await plane.accept()
            assert await _types(stream, dialect, 1) == [Messages.cluster]
            raw = await stream.receive()
            table = dialect.read_request(raw or b"")
            assert (table.type_url, table.nonce) == (Messages.name_table, "")
            if dialect is DELTA:
                assert list(_held(raw).values()) == ["v1"]
            else:
                assert Messages.read_request(raw).version_info == "v1"
            assert await _types(stream, dialect, 2) == [Messages.listener, _HEALTH]


@by_dialect
async def test_a_report_is_repeated_on_each_upstream_stream_after_listeners(
    start_relay: RelayStarter, *, dialect: Dialect
) -> None:
    async with (
        control_plane() as plane,
        start_relay(plane.address) as running,
        envoy_stream(running.socket_path, method=dialect.method) as envoy,
    ):
        running.relay.inject(_HEALTH, error="one")
        await _ask(envoy, dialect, Messages.cluster)
        stream = await plane.accept()
        await _types(stream, dialect, 1)
        # Before Envoy asks for listeners, no stream has the report.
        stream.end()
        stream = await plane.accept()
        await _types(stream, dialect, 1)
        await _ask(envoy, dialect, Messages.listener)
        assert await _types(stream, dialect, 2) == [Messages.listener, _HEALTH]
        for reason in ("two", "three"):
            stream.end()
            await stream.closed.wait()
            running.relay.inject(_HEALTH, error=reason)
            stream = await plane.accept()
            types = await _types(stream, dialect, 2)
            assert types == [Messages.cluster, Messages.listener]
            request = dialect.read_request(await stream.receive() or b"")
            assert (request.type_url, request.error) == (_HEALTH, reason)


def _versions(relay: Relay, type_url: str) -> dict[str, str]:
    """Return the versions of the resources that the one Envoy has."""
    (envoy,) = relay.held
    return {name: each.version for name, each in envoy.resources[type_url].items()}


class _Slow:
    """Writes `done` in place of `want`, when it may; refuses `none`."""

    def __init__(self) -> None:
        self.may_go_on = asyncio.Event()

    def concerns(self, node: bytes, type_url: str) -> bool:
        del node
        return type_url == Messages.listener

    async def rewrite(self, node: bytes, type_url: str, bodies: Sequence[bytes]) -> Sequence[bytes]:
        del node, type_url
        if any(b"none" in each for each in bodies):
            raise RewriteRefused("not for this Envoy")
        if any(b"want" in each for each in bodies):
            await self.may_go_on.wait()
        return [each.replace(b"want", b"done") if b"want" in each else each for each in bodies]


class _Accepted:
    """Keeps what Envoy has accepted."""

    def __init__(self) -> None:
        self.responses: list[bytes] = []

    def on_acceptance(self, *, response: bytes, **_facts: object) -> None:
        self.responses.append(response)


@by_dialect
async def test_a_slow_rewrite_keeps_the_order_of_its_type_and_holds_up_no_other(
    start_relay: RelayStarter, *, dialect: Dialect
) -> None:
    rewriter, accepted = _Slow(), _Accepted()
    async with (
        control_plane() as plane,
        start_relay(plane.address, rewriters=(rewriter,), accepted=accepted) as running,
        envoy_stream(running.socket_path, method=dialect.method) as envoy,
    ):
        await _ask(envoy, dialect, Messages.cluster, Messages.listener)
        stream = await plane.accept()
        await _types(stream, dialect, 2)
        slow = _response(dialect, Messages.listener, "l1", a="want")
        quick = _response(dialect, Messages.listener, "l2", b="same")
        clusters = _response(dialect, Messages.cluster, "c1", c="same")
        for response in (slow, quick, clusters):
            await stream.send(response)
        assert await envoy.receive() == clusters
        rewriter.may_go_on.set()
        rewritten = await envoy.receive() or b""
        (resource,) = resources_of(dialect, rewritten)
        assert (resource.name, resource.body) == ("a", _body(Messages.listener, "a", "done"))
        # Where each resource comes back as the same object, the bytes are the control plane's.
        assert await envoy.receive() == quick
        # What is accepted is what the control plane sent.
        for type_url, nonce in (
            (Messages.cluster, "c1"),
            (Messages.listener, "l1"),
            (Messages.listener, "l2"),
        ):
            await envoy.send(dialect.write_request(type_url=type_url, version=nonce, nonce=nonce))
        await until(lambda: len(accepted.responses) == 3, what="three accepted responses")
        assert accepted.responses == [clusters, slow, quick]
        versions = {"a": "l1", "b": "l2"} if dialect is DELTA else {"b": "l2"}
        assert _versions(running.relay, Messages.listener) == versions
        assert _versions(running.relay, Messages.cluster) == {"c": "c1"}


@by_dialect
async def test_a_refused_rewrite_is_refused_to_the_control_plane_and_envoy_gets_nothing(
    start_relay: RelayStarter, *, dialect: Dialect
) -> None:
    async with (
        control_plane() as plane,
        start_relay(plane.address, rewriters=(_Slow(),)) as running,
        envoy_stream(running.socket_path, method=dialect.method) as envoy,
    ):
        await _ask(envoy, dialect, Messages.listener)
        stream = await plane.accept()
        await _types(stream, dialect, 1)
        good = _response(dialect, Messages.listener, "l1", a="same")
        await stream.send(good)
        assert await envoy.receive() == good
        await envoy.send(
            dialect.write_request(type_url=Messages.listener, version="l1", nonce="l1")
        )
        await _types(stream, dialect, 1)
        await stream.send(_response(dialect, Messages.listener, "l2", a="none"))
        nack = dialect.read_request(await stream.receive() or b"")
        assert (nack.type_url, nack.nonce, nack.error) == (
            Messages.listener,
            "l2",
            "not for this Envoy",
        )
        better = _response(dialect, Messages.listener, "l3", a="same")
        await stream.send(better)
        assert await envoy.receive() == better
        known = running.relay.status.types[Messages.listener]
        assert (known.version, known.in_use) == ("l3", "l1")
        assert _versions(running.relay, Messages.listener) == {"a": "l1"}
