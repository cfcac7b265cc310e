"""`/stats/prometheus`: the agent's own metrics, and Envoy's after them, as a stream.

Envoy's metrics are passed on as they come, so the agent holds only a few kilobytes of them; a slow
scraper slows Envoy's answer down. A scrape without all of Envoy's metrics succeeds, and is counted.
"""

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable, Iterable

import h11

from envoy_supervisor import Address, UnixAddress
from mesh_agent.status._exposition import CONTENT_TYPE, Metric, counter, render
from mesh_agent.status._http import Request, Response, Send
from mesh_agent.status._parts import AgentParts

log = logging.getLogger(__name__)

_READ_BYTES = 64 * 1024
_MAX_LINE_BYTES = 1024 * 1024
_TIMEOUT_S = 10.0
_LONGEST_TIMEOUT_S = 300.0


class EnvoyMetricsError(Exception):
    """Envoy's metrics did not come, or not all of them."""


class Scrapes:
    """Answers scrapes.

    own: returns the agent's own metrics.
    envoy: returns the admin interface to take Envoy's metrics from, None to leave them out.
    """

    def __init__(
        self,
        own: Callable[[], Iterable[Metric]],
        *,
        envoy: Callable[[], Address | UnixAddress | None],
    ) -> None:
        self._own = own
        self._envoy = envoy
        self._served = 0
        self._failures = 0

    async def answer(self, request: Request) -> Response:
        async def write(send: Send) -> None:
            await self._write(request, send)

        return Response(content_type=CONTENT_TYPE, write=write)

    async def _write(self, request: Request, send: Send) -> None:
        self._served += 1
        await send(render([*self._own(), *self._of_scrapes()]))
        address = self._envoy()
        if address is None:
            return
        try:
            await copy_envoy_metrics(
                address, request.query, send, timeout_s=scrape_timeout_s(request.headers)
            )
        except EnvoyMetricsError as error:
            self._failures += 1
            log.warning(
                "a scrape was answered without all of envoy's metrics", extra={"reason": str(error)}
            )

    def _of_scrapes(self) -> tuple[Metric, ...]:
        return (
            counter("istio_agent_scrapes_total", "Scrapes served.", self._served),
            counter(
                "istio_agent_scrape_failures_total",
                "Scrapes that lacked metrics.",
                self._failures,
                {"type": "envoy"},
            ),
        )


def envoy_metrics_address(parts: AgentParts) -> Address | UnixAddress | None:
    """Returns where Envoy's metrics are; None without an Envoy, or if they are not to be merged."""
    if parts.envoy is None or not parts.config.status.envoy_metrics:
        return None
    return parts.envoy.admin.address


def scrape_timeout_s(headers: Iterable[tuple[str, str]]) -> float:
    """Returns how long the scraper will wait, by the header that Prometheus sends."""
    for name, text in headers:
        if name == "x-prometheus-scrape-timeout-seconds":
            with contextlib.suppress(ValueError):
                seconds = float(text)
                if math.isfinite(seconds) and seconds > 0:
                    return min(seconds, _LONGEST_TIMEOUT_S)
    return _TIMEOUT_S


async def copy_envoy_metrics(
    address: Address | UnixAddress, query: str, send: Send, *, timeout_s: float
) -> None:
    """Pass the metrics of an admin interface on, in whole lines only.

    Raises `EnvoyMetricsError` when they end early or do not come at all.
    """
    deadline = asyncio.get_running_loop().time() + timeout_s
    try:
        async with asyncio.timeout_at(deadline):
            reader, writer = await _connect(address)
    except (OSError, TimeoutError) as error:
        raise EnvoyMetricsError(f"{address}: {str(error) or 'no connection in time'}") from error
    try:
        ask = f"/stats/prometheus{'?' if query else ''}{query}"
        protocol = h11.Connection(h11.CLIENT)
        writer.write(_request(protocol, ask))
        await _copy(reader, protocol, send, deadline=deadline)
    except h11.RemoteProtocolError as error:
        raise EnvoyMetricsError(f"{address}: {error}") from error
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def _request(protocol: h11.Connection, target: str) -> bytes:
    headers = [("host", "envoy"), ("connection", "close")]
    head = protocol.send(h11.Request(method="GET", target=target, headers=headers))
    return (head or b"") + (protocol.send(h11.EndOfMessage()) or b"")


async def _copy(
    reader: asyncio.StreamReader, protocol: h11.Connection, send: Send, *, deadline: float
) -> None:
    line = b""
    while True:
        event = protocol.next_event()
        if event is h11.NEED_DATA:
            protocol.receive_data(await _read(reader, deadline))
        elif isinstance(event, h11.Response):
            if event.status_code != 200:
                raise EnvoyMetricsError(f"envoy answered with status {event.status_code}")
        elif isinstance(event, h11.Data):
            whole, newline, line = (line + bytes(event.data)).rpartition(b"\n")
            if len(line) > _MAX_LINE_BYTES:
                raise EnvoyMetricsError("a line of envoy's metrics is without end")
            if newline:
                await send(whole + newline)
        elif isinstance(event, h11.EndOfMessage):
            return


async def _read(reader: asyncio.StreamReader, deadline: float) -> bytes:
    """Returns what Envoy sends. Separate from sending: the scraper's errors are not Envoy's."""
    try:
        async with asyncio.timeout_at(deadline):
            return await reader.read(_READ_BYTES)
    except TimeoutError as error:
        raise EnvoyMetricsError("envoy's metrics were not finished in time") from error
    except OSError as error:
        raise EnvoyMetricsError(f"envoy's metrics ended early: {error}") from error


async def _connect(
    address: Address | UnixAddress,
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if isinstance(address, UnixAddress):
        return await asyncio.open_unix_connection(str(address.path), limit=_READ_BYTES)
    return await asyncio.open_connection(address.host, address.port, limit=_READ_BYTES)
