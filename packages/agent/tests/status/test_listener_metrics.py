"""What a scrape of the agent tells of its own ports."""

from mesh_agent.status._metrics import listener_metrics
from mesh_listening import Reason
from mesh_status_server import Request, Response, http_server, render


async def _answer(_: Request) -> Response:
    return Response.text("ready\n")


async def test_each_port_exports_accepted_refused_and_open_connections() -> None:
    async with http_server("127.0.0.1", 0, _answer) as (number, port):
        text = render(listener_metrics([port.counts()])).decode()
    name = f'listener="127.0.0.1:{number}"'
    assert f"mesh_listener_connections_accepted_total{{{name}}} 0" in text
    assert f"mesh_listener_connections_open{{{name}}} 0" in text
    for reason in Reason:
        assert f'refused_total{{{name},reason="{reason.label}"}} 0' in text
