"""An operator's questions to the control plane, over HTTP on this machine."""

import asyncio
import json
from collections.abc import Callable, Sequence
from http import HTTPStatus

import pytest
from envoy.service.discovery.v3 import discovery_pb2
from envoy.service.status.v3 import csds_pb2

import xds_proxy
from mesh_agent.config._status_server import DebugTap
from mesh_agent.status._control_plane_debug import control_plane_debug, debug_tap
from mesh_status_server import ListenError, Request, Response

PATH = "/debug/control-plane"


class Answers:
    """Answers every question with one resource, or an error."""

    def __init__(self, type_url: str, value: bytes, error: Exception | None = None) -> None:
        self._response = discovery_pb2.DiscoveryResponse(version_info="7")
        self._response.resources.add(type_url=type_url, value=value)
        self._error = error
        self.asked: list[tuple[str, list[str]]] = []

    async def __call__(self, type_url: str, names: Sequence[str], /, *, timeout_s: float) -> bytes:
        self.asked.append((type_url, list(names)))
        if self._error is not None:
            raise self._error
        self._response.type_url = type_url
        assert timeout_s == 5
        return self._response.SerializeToString()


async def answer(answers: Answers, path: str = "/syncz", query: str = "") -> Response:
    request = Request(method="GET", path=f"{PATH}{path}", peer="127.0.0.1", query=query)
    reply = await control_plane_debug(answers, path=PATH)(request)
    assert isinstance(reply, Response)
    return reply


async def test_json_of_the_control_plane_is_shown_as_it_is() -> None:
    answers = Answers("istio.io/debug", b'{"a": [1]}')
    response = await answer(answers, "", "resourceName=syncz")
    assert answers.asked == [("istio.io/debug", ["syncz"])]
    assert json.loads(response.body) == {
        "typeUrl": "istio.io/debug",
        "versionInfo": "7",
        "resources": [{"@type": "istio.io/debug", "value": {"a": [1]}}],
    }


async def test_messages_that_are_known_are_shown_as_json() -> None:
    config = csds_pb2.ClientConfig(client_scope="here")
    url = "type.googleapis.com/envoy.service.status.v3.ClientConfig"
    answers = Answers(url, config.SerializeToString())
    response = await answer(answers)
    assert answers.asked == [("istio.io/debug/syncz", [])]
    assert json.loads(response.body)["resources"] == [{"@type": url, "clientScope": "here"}]


@pytest.mark.parametrize("url", ["t/of.others", "t/envoy.service.status.v3.ClientConfig"])
async def test_what_cannot_be_read_is_in_base64(url: str) -> None:
    response = await answer(Answers(url, b"\xff\xff"))
    assert json.loads(response.body)["resources"] == [{"@type": url, "value": "//8="}]


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (xds_proxy.NotConnected("there is no stream"), HTTPStatus.SERVICE_UNAVAILABLE, "no stream"),
        (xds_proxy.NoAnswer("not within 5 s"), HTTPStatus.GATEWAY_TIMEOUT, "istio.io/debug/syncz"),
    ],
    ids=["not connected", "no answer"],
)
async def test_without_an_answer_it_says_why(
    error: Exception, status: HTTPStatus, said: str
) -> None:
    response = await answer(Answers("t", b"", error))
    assert response.status == status
    assert said in response.body.decode()


async def get(port: int, path: str, host: str = "localhost") -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".encode())
    found = (await reader.read()).decode()
    writer.close()
    await writer.wait_closed()
    return found


async def test_it_is_served_at_the_port_of_istio_s_agents_if_that_is_wanted(
    free_port: Callable[[], int],
) -> None:
    port, answers = free_port(), Answers("istio.io/debug", b"{}")
    async with debug_tap(answers, DebugTap(port=port)):
        assert "istio.io/debug/syncz" in await get(port, "/debug/syncz?resourceName=a")
        assert "404" in await get(port, "/")
        assert "403" in await get(port, "/debug/syncz", host="evil.example")
    assert answers.asked == [("istio.io/debug/syncz", ["a"])]
    async with debug_tap(answers, None):
        with pytest.raises(ConnectionRefusedError):
            await get(port, "/debug/syncz")


async def test_where_its_port_is_taken_the_agent_goes_on_unless_it_was_asked_for(
    free_port: Callable[[], int],
) -> None:
    port, first, second = free_port(), Answers("a", b"1"), Answers("b", b"2")
    async with debug_tap(first, DebugTap(port=port)):
        async with debug_tap(second, DebugTap(port=port, is_asked_for=False)):
            await get(port, "/debug/syncz")
        with pytest.raises(ListenError):
            async with debug_tap(second, DebugTap(port=port)):
                pass
    assert (len(first.asked), len(second.asked)) == (1, 0)
