"""Messages between a real Envoy and go-control-plane, recorded on both sides of the relay.

The control plane's responses, resources and messages in them have fields that Envoy does not know;
one response is 10 MiB large, and two resources are refused. `pytest --update-golden` also saves
what passed, which is relayed again without either program.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from envoys import running_envoy
from go_planes import build_go_control_plane, go_control_plane
from mesh_testkit import until
from model_envoys import CLUSTER, ENDPOINT, LISTENER, ROUTE
from recorder import RecordedStream, Recorder, read_recorded, recording, write_recorded
from relays import RelayStarter
from xds_proxy import RelayStatus
from xds_proxy.protocol._dialect import DELTA, DIALECTS, STATE_OF_THE_WORLD, Dialect
from xds_proxy.protocol._resources import removed_of, resources_of
from xds_proxy.testing import control_plane, envoy_stream

_TYPES = (CLUSTER, ENDPOINT, LISTENER, ROUTE)
_STEPS = ("first", "update", "large", "bad", "repaired")
_UNKNOWN = b"\xa2\xd6\x0f\x12not known to Envoy"  # field 32100 of go_control_plane/main.go
_IDS = ("sotw", "delta")

by_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=_IDS)


def _recorded(dialect: Dialect) -> Path:
    name = dict(zip(DIALECTS, _IDS, strict=True))[dialect]
    return Path(__file__).parent / "recorded" / f"go-control-plane-{name}.xz"


def _answered(stream: RecordedStream, step: str, type_url: str) -> bool:
    """Say whether Envoy has answered this step's response of a type."""
    read = stream.dialect.read_response
    of_step = [
        response.nonce
        for response in map(read, stream.responses)
        if (response.type_url, response.version) == (type_url, step)
    ]
    nonces = {stream.dialect.read_request(request).nonce for request in stream.requests}
    return not nonces.isdisjoint(of_step)


async def _until_answered(below: Recorder, step: str, type_url: str) -> None:
    await until(
        lambda: any(_answered(stream, step, type_url) for stream in below.streams),
        what=f"Envoy's answer to {type_url} of {step}",
    )


def _all_passed(below: Recorder, above: Recorder) -> bool:
    """Say whether both sides have seen as much, and Envoy has answered every response."""
    (envoys,), (planes,) = below.streams, above.streams
    nonces = {envoys.dialect.read_request(request).nonce for request in envoys.requests}
    answered = {envoys.dialect.read_response(each).nonce for each in envoys.responses} <= nonces
    return answered and len(envoys.messages) == len(planes.messages)


@pytest.fixture(scope="module")
def go_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_go_control_plane(tmp_path_factory.mktemp("go"))


@pytest.mark.slow
@by_dialect
async def test_every_byte_passes_between_envoy_and_go_control_plane(
    start_relay: RelayStarter,
    envoy_binary: Path,
    go_program: Path,
    socket_dir: Path,
    request: pytest.FixtureRequest,
    *,
    dialect: Dialect,
) -> None:
    api_type = "DELTA_GRPC" if dialect is DELTA else "GRPC"
    async with (
        go_control_plane(go_program) as plane,
        recording("127.0.0.1:0", plane.address) as above,
        start_relay(above.address) as running,
        recording(f"unix:{socket_dir}/recorder", f"unix:{running.socket_path}") as below,
    ):
        await plane.set("first")
        async with running_envoy(envoy_binary, socket_dir / "recorder", api_type):
            for step in _STEPS:
                await plane.set(step)
                for type_url in _changed(step, dialect):
                    await _until_answered(below, step, type_url)
            await until(
                lambda: _all_passed(below, above), what="answers", seen=lambda: running.relay.status
            )
            (envoys,), (planes,) = below.streams, above.streams
            assert envoys.dialect is planes.dialect is dialect
            assert envoys.requests == planes.requests
            assert envoys.responses == planes.responses
            _check_what_passed(envoys)
            _check_status(running.relay.status)
            messages = tuple(envoys.messages)
    if request.config.getoption("--update-golden"):
        write_recorded(_recorded(dialect), messages)


@by_dialect
async def test_a_recorded_stream_passes_byte_for_byte(
    start_relay: RelayStarter, *, dialect: Dialect
) -> None:
    messages = read_recorded(_recorded(dialect))
    _check_what_passed(RecordedStream(dialect, messages))
    async with (
        control_plane() as plane,
        start_relay(plane.address) as running,
        envoy_stream(running.socket_path, method=dialect.method) as envoy,
    ):
        opened = asyncio.create_task(plane.accept())
        assert messages[0].is_request
        await envoy.send(messages[0].raw)
        upstream = await opened
        assert upstream.method == dialect.method
        assert await upstream.receive() == messages[0].raw
        for is_request, raw in messages[1:]:
            if is_request:
                await envoy.send(raw)
                assert await upstream.receive() == raw
            else:
                await upstream.send(raw)
                assert await envoy.receive() == raw
        # A large response is read in a thread, and the ones behind it wait for that.
        await running.until(
            lambda relay: all(relay.status.types[each].nack is None for each in _TYPES),
            what="what was in the responses",
        )
        _check_status(running.relay.status)


def _changed(step: str, dialect: Dialect) -> tuple[str, ...]:
    """Return the types of which Envoy gets a response of this step."""
    if step == "first" or dialect is STATE_OF_THE_WORLD:
        return _TYPES
    changed = {"update": (CLUSTER, ENDPOINT, ROUTE), "large": (CLUSTER,)}
    return changed.get(step, (CLUSTER, ROUTE))


def _check_what_passed(stream: RecordedStream) -> None:
    """Every kind of message that the relay has to pass was among those that did."""
    dialect = stream.dialect
    for raw in stream.responses:
        assert raw.count(_UNKNOWN) > len(
            resources_of(dialect, raw)
        )  # the response's own, and each one's
    assert max(map(len, stream.responses)) > 10 << 20
    nacked = {
        request.type_url
        for request in map(dialect.read_request, stream.requests)
        if request.error is not None
    }
    assert nacked == {CLUSTER, ROUTE}
    versions = [
        response.version
        for response in map(dialect.read_response, stream.responses)
        if response.type_url == CLUSTER
    ]
    assert list(dict.fromkeys(versions)) == list(_STEPS)
    if dialect is DELTA:
        removed = [name for raw in stream.responses for name in removed_of(dialect, raw)]
        assert "b" in removed


def _check_status(status: RelayStatus) -> None:
    for type_url in _TYPES:
        known = status.types[type_url]
        assert known.nack is None
        assert known.in_use == known.version
    assert status.types[CLUSTER].version == "repaired"
