"""The kubelet's probes, passed on to an application over real sockets."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import pytest

from mesh_probes import HttpGet, Probe, TcpSocket, parse_kubernetes_probers
from mesh_status_server import AppProbes, Endpoint, Endpoints, http_server
from mesh_testkit import until
from scrape_peers import Peer, Serve, answer, get

LIVE = "/app-health/web/livez"


@asynccontextmanager
async def probing(probes: Mapping[str, Probe], *, host: str = "127.0.0.1") -> AsyncIterator[int]:
    app_probes = AppProbes(probes, host=host, status_port=15020)
    probe = Endpoint(app_probes.answer)
    endpoints = Endpoints({}, beginnings={"/app-health/": probe, "/app-lifecycle/": probe})
    async with http_server("127.0.0.1", 0, endpoints) as (port, _):
        yield port


def live(port: int, **options: str) -> dict[str, Probe]:
    return {LIVE: Probe(action=HttpGet(port=port, **options), timeout_s=30)}  # type: ignore[arg-type]


@pytest.mark.parametrize("status", ["200 OK", "204 Nothing", "404 Not Found", "503 Down", "299 X"])
async def test_the_applications_status_and_body_are_passed_on(serve: Serve, status: str) -> None:
    body = b"" if status.startswith("204") else b"details"
    async with probing(live(await serve(Peer(answer(body, status=status))))) as port:
        found = await get(port, LIVE)
    assert (found.status, found.body) == (int(status[:3]), body)


async def test_headers_and_host_reach_the_application(serve: Serve) -> None:
    application = Peer(answer(b"ok"))
    application_port = await serve(application)
    async with probing(live(application_port, path="/healthz?deep=1")) as port:
        await get(port, LIVE, User_Agent="kube-probe/1.30", X_Custom="yes")
        assert application.requests[0].startswith("GET /healthz?deep=1 HTTP/1.1\r\n")
        assert application.headers["user-agent"] == "kube-probe/1.30"
        assert application.headers["x-custom"] == "yes"


async def test_a_path_without_a_probe_is_a_bad_request(
    free_port: Callable[[], int],
) -> None:
    async with probing(live(free_port())) as port:
        for path in ("/app-health/other/livez", "/app-health/", "/app-lifecycle/web/prestopz"):
            found = await get(port, path)
            assert found.status == 400
            assert f"there are {LIVE}" in found.body.decode()


async def test_no_answer_is_500_with_the_reason_logged_once(
    free_port: Callable[[], int], caplog: pytest.LogCaptureFixture
) -> None:
    async with probing(live(free_port())) as port:
        for _ in range(3):
            found = await get(port, LIVE)
            assert found.status == 500
            assert b"connection refused" in found.body
    assert len(caplog.records) == 1


async def test_an_application_that_hangs_is_500_when_the_time_is_up(
    serve: Serve,
) -> None:
    probe = Probe(action=HttpGet(port=await serve(Peer(hang=True))), timeout_s=0.2)
    async with probing({LIVE: probe}) as port:
        found = await get(port, LIVE)
    assert (found.status, b"no answer within 0.2 s" in found.body) == (500, True)


async def test_a_connection_is_enough_for_a_tcp_probe(
    serve: Serve, free_port: Callable[[], int]
) -> None:
    probes = {
        LIVE: Probe(action=TcpSocket(port=await serve(Peer()))),
        "/app-health/web/readyz": Probe(action=TcpSocket(port=free_port())),
    }
    async with probing(probes) as port:
        assert (await get(port, LIVE)).status == 200
        assert (await get(port, "/app-health/web/readyz")).status == 500


async def test_lifecycle_hooks_are_passed_on(serve: Serve) -> None:
    port = await serve(Peer(answer(b"stopping")))
    text = f'{{"/app-lifecycle/web/prestopz": {{"httpGet": {{"port": {port}}}}}}}'
    async with probing(parse_kubernetes_probers(text)) as status_port:
        found = await get(status_port, "/app-lifecycle/web/prestopz")
    assert (found.status, found.body) == (200, b"stopping")


async def test_probes_come_from_the_address_that_rules_let_pass() -> None:
    peers: list[str] = []

    async def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peers.append(writer.get_extra_info("peername")[0])
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer(b""))
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(note, "127.0.0.1", 0)
    async with server, probing(live(server.sockets[0].getsockname()[1])) as port:
        assert (await get(port, LIVE)).status == 200
    assert peers == ["127.0.0.6"]


async def test_an_application_on_ipv6_is_reached_where_there_is_no_such_address() -> None:
    server = await asyncio.start_server(Peer(answer(b"six")), "::1", 0)
    port_of_application: int = server.sockets[0].getsockname()[1]
    async with server:
        for host in ("::1", "localhost"):
            async with probing(live(port_of_application), host=host) as port:
                assert (await get(port, LIVE)).body == b"six"


async def test_probes_at_once_are_bounded_and_leave_room_for_another_caller(serve: Serve) -> None:
    application = Peer(hang=True)
    probes = {
        LIVE: Probe(action=HttpGet(port=await serve(application)), timeout_s=30),
        "/app-health/web/readyz": Probe(action=TcpSocket(port=await serve(Peer())), timeout_s=0.3),
    }
    async with probing(probes) as port:
        asking = [asyncio.create_task(get(port, LIVE), name=f"probe {n}") for n in range(60)]
        try:
            await until(lambda: len(application.requests) == 32, what="32 probes")
            refused = await get(port, "/app-health/web/readyz")
            assert (refused.status, b"too many probes" in refused.body) == (503, True)
            assert (await get(port, "/app-health/web/readyz", host="127.0.0.2")).status == 200
            assert len(application.requests) == 32
        finally:
            for task in asking:
                task.cancel()
            await asyncio.wait(asking)
