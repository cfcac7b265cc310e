"""`wait`: at once if ready, later if ready later, and the last failure at the timeout."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from cli_fixtures import Call, Serve
from mesh_agent_cli import CliError
from mesh_agent_cli._wait import wait_ready


class FakeClock:
    def __init__(self) -> None:
        self.at = 0.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.at

    def sleep(self, seconds: float, /) -> None:
        self.slept.append(seconds)
        self.at += seconds


def _wait(url: str, clock: FakeClock) -> None:
    wait_ready(url, timeout_s=10, request_timeout_s=60, period_s=2, clock=clock)


def test_a_ready_agent_is_not_waited_for(serve: Serve) -> None:
    clock = FakeClock()
    with serve((200, b"")) as server:
        _wait(f"{server.url}/healthz/ready", clock)
    assert clock.slept == []
    assert server.asked == [("GET", "/healthz/ready", b"")]


def test_an_agent_that_becomes_ready_ends_the_wait(serve: Serve) -> None:
    clock = FakeClock()
    with serve((503, b"not yet"), (503, b"not yet"), (200, b"")) as server:
        _wait(server.url, clock)
    assert clock.slept == [2, 2]


def test_only_200_counts_and_the_timeout_tells_the_last_failure(serve: Serve) -> None:
    clock = FakeClock()
    with (
        serve((500, b"first"), (204, b"")) as server,
        pytest.raises(CliError, match=r"not ready within 10 s: status 204$"),
    ):
        _wait(server.url, clock)
    assert clock.at == 10


@pytest.mark.parametrize(
    ("answer", "ending"),
    [
        (
            (503, b"certificate: there is none yet:\n refused\n"),
            "certificate: there is none yet: refused",
        ),
        ((503, b""), "status 503 (not yet)"),
        ((200, b""), "status 503 (not yet)"),
        ((404, b"what?"), "status 503 (not yet)"),
    ],
)
def test_the_timeout_tells_why_the_agent_is_not_ready(
    serve: Serve, answer: tuple[int, bytes], ending: str
) -> None:
    with serve((503, b"not yet")) as envoy, serve(answer) as agent:
        with pytest.raises(CliError) as raised:
            wait_ready(
                envoy.url,
                timeout_s=10,
                request_timeout_s=60,
                period_s=2,
                explained_at=f"{agent.url}/healthz/ready",
                clock=FakeClock(),
            )
    assert str(raised.value).endswith(f" was not ready within 10 s: {ending}")
    assert agent.asked == [("GET", "/healthz/ready", b"")]


def test_the_command_asks_the_status_port_for_the_reason(call: Call, serve: Serve) -> None:
    with serve((503, b"envoy: not live\n"), address=("127.0.0.9", 0)) as agent:
        words = ("--address", "127.0.0.9", "--port", str(agent.port), "--timeoutSeconds", "0")
        called = call("wait", *words)
    assert called.status == 1
    assert called.error.endswith("was not ready within 0 s: envoy: not live\n")


@pytest.mark.parametrize(
    ("ready", "envoy", "status"),
    [(True, {"state": "none"}, 0), (False, {"state": "none"}, 1), (True, {"state": "ready"}, 1)],
)
def test_the_word_of_an_agent_without_an_envoy_is_enough(
    call: Call, serve: Serve, *, ready: bool, envoy: dict[str, str], status: int
) -> None:
    document = json.dumps({"ready": ready, "envoy": envoy}).encode()
    with serve((200, document), address=("127.0.0.11", 0)) as agent:
        words = ("--address", "127.0.0.11", "--port", str(agent.port), "--timeoutSeconds", "0")
        called = call("wait", *words)
    assert called.status == status


def test_nothing_listening_is_said_in_words(call: Call, free_port: Callable[[], int]) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    called = call("wait", "--url", url, "--timeoutSeconds", "0")
    assert called.status == 1
    assert "connection refused" in called.error
    assert called.error.count("\n") == 1


def test_both_spellings_of_the_flags(call: Call, serve: Serve) -> None:
    with serve((200, b"")) as server:
        for words in (
            ("--timeoutSeconds=60", "--requestTimeoutMillis=60000", "--periodMillis=100"),
            (
                "--timeout-seconds",
                "60",
                "--request-timeout-millis",
                "60000",
                "--period-millis",
                "1",
            ),
        ):
            called = call("wait", "--url", server.url, *words)
            assert (called.status, called.out, called.error) == (0, "", "")


@pytest.mark.parametrize("url", ["localhost:15021", "https://localhost/", "http://[::1", "http://"])
def test_a_bad_url_is_one_sentence(call: Call, url: str) -> None:
    called = call("wait", "--url", url)
    assert called.status == 1
    assert called.error.startswith("mesh-agent: URL ")
    assert called.error.count("\n") == 1
