"""A web page in a browser on the machine neither commands the agent nor reads what it tells."""

import asyncio
import signal

import pytest

from mesh_lifecycle import stop_signals
from mesh_status_server import http_server
from status_parts import Parts

COMMANDS = ("/drain", "/restart", "/quitquitquit", "/debug/logging?level=debug")
PAGES = (
    *("/debug/status", "/debug/config", "/debug/config_dump", "/debug/ndsz", "/debug/dns"),
    *("/debug/logging", "/debug/control-plane", "/debug/control-plane/syncz"),
)
FOR_ALL = ("/healthz/ready", "/metrics", "/stats/prometheus")


async def ask(port: int, method: str, path: str, *headers: str) -> tuple[int, str]:
    async with asyncio.timeout(30):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            head = "\r\n".join((f"{method} {path} HTTP/1.1", *headers, "Connection: close"))
            writer.write(f"{head}\r\nContent-Length: 0\r\n\r\n".encode())
            answer = (await reader.read()).decode()
        finally:
            writer.close()
    head, _, body = answer.partition("\r\n\r\n")
    return int(head.split()[1]), body


@pytest.mark.parametrize(
    "headers",
    [
        ("Host: 127.0.0.1:15020", "Origin: http://evil.example"),
        ("Host: localhost", "Origin: null"),
        ("Host: localhost:15020", "Origin: http://localhost:3000", "Sec-Fetch-Site: same-site"),
        ("Host: localhost", "Sec-Fetch-Site: cross-site"),
        ("Host: evil.example:15020",),
    ],
    ids=["origin", "null", "another port", "cross-site", "rebinding"],
)
async def test_a_web_page_commands_nothing_and_reads_nothing(headers: tuple[str, ...]) -> None:
    with stop_signals(signal.SIGUSR1) as stopping:
        parts = Parts(stopping)
        async with http_server("127.0.0.1", 0, parts.endpoints) as (port, _):
            for method, path in (
                *(("POST", each) for each in COMMANDS),
                *(("GET", each) for each in PAGES),
            ):
                status, body = await ask(port, method, path, *headers)
                assert status == 403, f"{method} {path}: {body}"
            assert not stopping.requested
            assert parts.drained == 0


async def test_a_program_on_the_machine_commands_and_reads() -> None:
    with stop_signals(signal.SIGUSR1) as stopping:
        parts = Parts(stopping)
        async with http_server("", 0, parts.endpoints) as (port, _):
            for host in ("localhost", "localhost:9999", "127.0.0.1", f"[::1]:{port}"):
                assert (await ask(port, "GET", "/debug/status", f"Host: {host}"))[0] == 200
                assert (await ask(port, "POST", "/drain", f"Host: {host}"))[0] == 200
            assert parts.drained == 4


async def test_pages_for_all_are_answered_whatever_the_host() -> None:
    with stop_signals(signal.SIGUSR1) as stopping:
        async with http_server("", 0, Parts(stopping).endpoints) as (port, _):
            for path in FOR_ALL:
                for host in ("10.0.0.7:15020", "web.shop:15020"):
                    status, _ = await ask(port, "GET", path, f"Host: {host}")
                    assert status == 200, path


async def test_metrics_that_are_kept_on_the_machine_are_read_by_no_web_page() -> None:
    with stop_signals(signal.SIGUSR1) as stopping:
        kept = Parts(stopping, local_metrics=True)
        async with http_server("127.0.0.1", 0, kept.endpoints) as (port, _):
            assert (await ask(port, "GET", "/metrics", "Host: evil.example"))[0] == 403
            assert (await ask(port, "GET", "/metrics", "Host: localhost:15020"))[0] == 200
