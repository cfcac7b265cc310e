"""The choice of a socket: ours to serve, another process's to use, or an error."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import grpc.aio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh_sds import (
    ConfigError,
    ForeignSocket,
    OwnSocket,
    SdsConfig,
    SecretApi,
    SocketUnusable,
    choose_socket,
    probe,
    serving,
)
from mesh_sds.socket_path._choice import bare_name
from mesh_sds.testing import FakeSecrets

ISTIO_SDS = "/envoy.service.secret.v3.SecretDiscoveryService/StreamSecrets"
WORKLOAD_API = "/SpiffeWorkloadAPI/FetchX509SVID"

if TYPE_CHECKING:
    Context = grpc.aio.ServicerContext[bytes, bytes]
    GenericRpcHandler = grpc.GenericRpcHandler[bytes, bytes]
else:  # gRPC's stubs know type parameters that its classes do not have.
    Context = grpc.aio.ServicerContext
    GenericRpcHandler = grpc.GenericRpcHandler
Requests = AsyncIterator[bytes]
Method = Callable[[Requests, Context], AsyncIterator[bytes] | Awaitable[None]]


class Foreign(GenericRpcHandler):
    """Streaming methods by name; `every` is the method of all other names."""

    def __init__(self, methods: Mapping[str, Method], every: Method | None = None) -> None:
        self._methods = methods
        self._every = every

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> "grpc.RpcMethodHandler[bytes, bytes] | None":
        method = self._methods.get(handler_call_details.method or "", self._every)
        return None if method is None else grpc.stream_stream_rpc_method_handler(method)


@asynccontextmanager
async def foreign(path: Path, handler: Foreign) -> AsyncIterator[None]:
    """A gRPC server that is not ours, with these streaming methods."""
    server = grpc.aio.server(handlers=[handler])
    server.add_insecure_port(f"unix:{path}")
    await server.start()
    try:
        yield
    finally:
        await server.stop(0)


async def waits_for_requests(requests: Requests, _context: Context) -> AsyncIterator[bytes]:
    async for _ in requests:
        yield b""


async def refuses_without_header(_requests: Requests, context: Context) -> None:
    await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "security header missing from request")


async def never_ends(_requests: Requests, _context: Context) -> None:
    await asyncio.Event().wait()


async def test_a_healthy_server_of_secrets_is_used(socket_dir: Path, secrets: FakeSecrets) -> None:
    path = socket_dir / "socket"
    async with serving(SdsConfig(socket_path=path), secrets) as server:
        found = await choose_socket(socket_dir, "socket", timeout_s=60)
        assert found == ForeignSocket(
            path=path, apis=frozenset({SecretApi.SDS, SecretApi.DELTA_SDS})
        )
        # The probe sent an empty request, and its stream is gone.
        await server.wait_until(lambda subscribers: not subscribers)
        assert server.refusals == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("methods", "apis", "timeout_s"),
    [
        ({ISTIO_SDS: waits_for_requests}, {SecretApi.SDS}, 60),
        ({ISTIO_SDS: never_ends}, {SecretApi.SDS}, 5),  # which it takes
        ({WORKLOAD_API: refuses_without_header}, {SecretApi.WORKLOAD}, 60),
        (
            {ISTIO_SDS: waits_for_requests, WORKLOAD_API: refuses_without_header},
            {SecretApi.SDS, SecretApi.WORKLOAD},
            60,
        ),
        ({}, set(), 60),
    ],
)
async def test_what_a_foreign_server_speaks_is_reported(
    socket_dir: Path,
    methods: Mapping[str, Method],
    apis: set[SecretApi],
    timeout_s: float,
) -> None:
    path = socket_dir / "socket"
    async with foreign(path, Foreign(methods)):
        found = await probe(path, timeout_s=timeout_s)
    assert found == ForeignSocket(path=path, apis=frozenset(apis))


async def fails(_requests: Requests, context: Context) -> None:
    await context.abort(grpc.StatusCode.UNAVAILABLE, "not today")


@pytest.mark.parametrize(
    ("handler", "speaks"),
    [
        (Foreign({}), "gRPC but no API of secrets"),
        (Foreign({"/some.Service/Method": waits_for_requests}), "gRPC but no API of secrets"),
        (Foreign({}, every=waits_for_requests), "gRPC but no API of secrets"),
        (Foreign({ISTIO_SDS: fails}), "gRPC but no API of secrets"),
        (Foreign({WORKLOAD_API: refuses_without_header}), "only the SPIFFE Workload API"),
    ],
)
@pytest.mark.parametrize("name", ["socket", "spire"])
async def test_a_server_without_secrets_for_envoy_does_not_pass_for_one(
    socket_dir: Path, handler: Foreign, speaks: str, name: str
) -> None:
    async with foreign(socket_dir / name, handler):
        with pytest.raises(
            SocketUnusable, match=f"{name} is served .* speaks {speaks}, .* needs SDS"
        ):
            await choose_socket(socket_dir, name, timeout_s=60)


async def test_a_stale_socket_is_removed_and_the_path_is_ours(socket_dir: Path) -> None:
    path = socket_dir / "socket"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    assert await choose_socket(socket_dir, "socket") == OwnSocket(path=path)
    assert not path.exists()


async def test_a_free_path_is_ours_and_its_directory_is_closed(socket_dir: Path) -> None:
    directory = socket_dir / "run"
    assert await choose_socket(directory, "socket") == OwnSocket(path=directory / "socket")
    assert directory.stat().st_mode & 0o777 == 0o700


async def test_a_socket_of_another_name_that_is_not_there_is_an_error(
    socket_dir: Path,
) -> None:
    with pytest.raises(SocketUnusable, match=r"no process serves .*/spire; start its server first"):
        await choose_socket(socket_dir, "spire")


async def test_a_socket_of_another_name_is_waited_for(socket_dir: Path) -> None:
    path = socket_dir / "spire"
    choosing = asyncio.create_task(choose_socket(socket_dir, "spire", timeout_s=60, wait_s=60))
    await asyncio.sleep(0)
    async with foreign(path, Foreign({ISTIO_SDS: waits_for_requests})):
        assert await choosing == ForeignSocket(path=path, apis=frozenset({SecretApi.SDS}))


@pytest.mark.slow
async def test_a_server_of_another_name_that_is_slow_to_start_is_waited_for(
    socket_dir: Path,
) -> None:
    path = socket_dir / "spire"
    with socket.socket(socket.AF_UNIX) as starting:
        starting.bind(str(path))
        starting.listen()
        starting.setblocking(False)
        choosing = asyncio.create_task(choose_socket(socket_dir, "spire", timeout_s=5, wait_s=60))
        held = []
        for _ in range(4):  # looked at and asked, and so again after the time for an answer
            connection, _ = await asyncio.get_running_loop().sock_accept(starting)
            held.append(connection)
        for connection in held:
            connection.close()
    path.unlink()
    async with foreign(path, Foreign({ISTIO_SDS: waits_for_requests})):
        assert isinstance(await choosing, ForeignSocket)


@pytest.mark.parametrize("name", ["a/b", "/abs", "../up", "..", ".", "", "nul\0"])
async def test_a_name_that_is_a_path_is_an_error(socket_dir: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="is not a bare file name"):
        await choose_socket(socket_dir, name)


@given(name=st.text())
def test_a_name_that_passes_stays_in_its_directory(name: str) -> None:
    try:
        passed = bare_name(name)
    except ConfigError:
        return
    assert (Path("/run/sds") / passed).parent == Path("/run/sds")


@pytest.mark.parametrize("make", [Path.touch, Path.mkdir, lambda path: path.symlink_to("nowhere")])
async def test_a_file_that_is_no_socket_is_named_and_kept(
    socket_dir: Path, make: Callable[[Path], None]
) -> None:
    path = socket_dir / "socket"
    make(path)
    with pytest.raises(SocketUnusable, match="socket is in the way: it exists and is not a socket"):
        await choose_socket(socket_dir, "socket")
    assert path in set(socket_dir.iterdir())


@pytest.mark.parametrize("backlog", [0, 16])
async def test_a_listener_that_does_not_speak_grpc_is_an_error_and_kept(
    socket_dir: Path, backlog: int
) -> None:
    path = socket_dir / "socket"
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(path))
        deaf.listen(backlog)
        with pytest.raises(SocketUnusable, match=r"does not speak gRPC within 0\.2 s"):
            await choose_socket(socket_dir, "socket", timeout_s=0.2)
        assert path.is_socket()
    path.unlink()


async def test_a_socket_that_is_a_link_to_a_living_one_is_used(
    socket_dir: Path, secrets: FakeSecrets
) -> None:
    real = socket_dir / "spire" / "agent.sock"
    link = socket_dir / "socket"
    link.symlink_to(real)
    async with serving(SdsConfig(socket_path=real), secrets):
        found = await choose_socket(socket_dir, "socket", timeout_s=60)
    assert isinstance(found, ForeignSocket)


def names(apis: Sequence[SecretApi]) -> list[str]:
    return [str(api) for api in apis]


def test_apis_read_as_words() -> None:
    assert names(list(SecretApi)) == ["SDS", "delta SDS", "SPIFFE Workload API"]
