import signal
from collections.abc import Callable

import pytest

from mesh_agent import AgentConfig
from mesh_agent._agent import status_endpoints
from mesh_agent.status._description import AgentView
from mesh_agent.status._http import Request
from mesh_lifecycle import Readiness, stop_signals


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/drain", (503, b"envoy was not told to drain: no envoy is running\n")),
        ("/restart", (409, b"envoy was not replaced: no envoy is running\n")),
    ],
)
async def test_what_only_envoy_can_do_is_not_done_without_one(
    load: Callable[[], AgentConfig], path: str, answer: tuple[int, bytes]
) -> None:
    config, readiness = load(), Readiness()
    with stop_signals(signal.SIGUSR1) as stopping:
        view = AgentView(config, readiness)
        endpoints = status_endpoints(config, view, readiness, stopping)
        response = await endpoints(Request(method="POST", path=path, peer="127.0.0.1"))
    assert (response.status.value, response.body) == answer
