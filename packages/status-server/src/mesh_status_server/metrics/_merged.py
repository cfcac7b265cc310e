"""One page of the metrics of several processes: our own, Envoy's, the application's.

All sources are asked at the same time, and passed on one after another, in whole lines, as they
come: a few pieces of each are held, and a slow scraper slows the sources down. A source that fails
or hangs costs its own metrics and no others', and is counted.
"""

import asyncio
import contextlib
import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import NamedTuple

from mesh_lifecycle import RepeatLog
from mesh_status_server._errors import FetchError, TooManyError
from mesh_status_server._slots import Slots
from mesh_status_server.http._messages import Reply, Request, Start, Streamed
from mesh_status_server.metrics._exposition import Metric, render
from mesh_status_server.metrics._fetches import Fetch, Waiting, fetching_all
from mesh_status_server.metrics._negotiation import Format, accepted, merged_format
from mesh_status_server.metrics._pages import Source

log = logging.getLogger("mesh_status_server")

_OWN = "agent"
_TIMEOUT_S = 10.0
_LONGEST_TIMEOUT_S = 300.0
_TIMEOUT = "x-prometheus-scrape-timeout-seconds"
_MOST_AT_ONCE = 16
_MOST_OF_ONE_PEER = 8
_QUIET_S = 300.0


class ScrapeCounts(NamedTuple):
    """How many scrapes were served, and how many lacked metrics, by kind of source."""

    served: int
    failures: Mapping[str, int]


class MergedMetrics:
    """Answers scrapes.

    own: returns our own metrics.
    sources: returns the other processes, in the order of their metrics; asked at each scrape.
    kinds: of all sources that there may be, so that each is counted from the start.
    """

    def __init__(
        self,
        own: Callable[[], Iterable[Metric]],
        *,
        sources: Callable[[], Sequence[Source]] = tuple,
        kinds: Iterable[str] = ("envoy", "application"),
    ) -> None:
        self._own = own
        self._sources = sources
        self._served = 0
        self._failures = Counter(dict.fromkeys((_OWN, *kinds), 0))
        self._slots = Slots(_MOST_AT_ONCE, each_peer=_MOST_OF_ONE_PEER)
        self._lacking = RepeatLog(
            log, "scrapes are answered without all metrics of a source", quiet_s=_QUIET_S
        )

    @property
    def counts(self) -> ScrapeCounts:
        """The numbers since the start."""
        return ScrapeCounts(self._served, dict(self._failures))

    async def answer(self, request: Request) -> Reply:
        """Answer a scrape; with status 503 if too many are under way."""

        async def write(start: Start) -> None:
            patience_s = scrape_timeout_s(request.header(_TIMEOUT))
            try:
                async with self._slots.taken(request.peer, within_s=patience_s / 2):
                    await self._write(request, patience_s, start)
            except TooManyError as error:
                send = await start(status=HTTPStatus.SERVICE_UNAVAILABLE)
                await send(f"too many scrapes: {error}\n".encode())

        return Streamed(write=write, compress=True)

    async def _write(self, request: Request, patience_s: float, start: Start) -> None:
        self._served += 1
        takes = accepted(request.header("accept"))
        waiting = Waiting(patience_s)
        headers = [(_TIMEOUT, f"{waiting.left_s:g}")]
        if agent := request.header("user-agent"):
            headers.append(("user-agent", agent))
        async with fetching_all(
            self._sources(), query=request.query, headers=headers, accept=takes.forwarded
        ) as fetches:
            wanted = Format.TEXT
            if takes.openmetrics:
                wanted = await _format_of_whole(fetches, waiting)
            for fetch in fetches:
                fetch.wanted.set_result(wanted)
            send = await start(content_type=wanted, headers={"vary": "accept"})
            await send(self._own_page(wanted))
            for place, fetch in enumerate(fetches, start=1):
                # Sources that come later must have time left, whatever this one does.
                most_s = waiting.left_s / (1 if place == len(fetches) else 2)
                try:
                    await fetch.copy(send, waiting, most_s=most_s)
                except FetchError as error:
                    self._on_failure(fetch.source.kind, fetch.source.name, str(error))
            if wanted.is_openmetrics:
                await send(b"# EOF\n")

    def _own_page(self, wanted: Format) -> bytes:
        try:
            return render(self._own(), openmetrics=wanted.is_openmetrics)
        except Exception as error:
            # The boundary between one source and the others, which are passed on nevertheless.
            log.exception("our own metrics could not be made")
            self._on_failure(_OWN, _OWN, repr(error))
            return b""

    def _on_failure(self, kind: str, name: str, reason: str) -> None:
        self._failures[kind] += 1
        self._lacking.happened(name, reason=reason, facts={"source": kind, "from": name})


async def _format_of_whole(fetches: Sequence[Fetch], waiting: Waiting) -> Format:
    """Return OpenMetrics if every application that answers gives it, else text.

    One that has not answered by half of the time stands for text: its page is converted, if it
    comes after all.
    """
    heads = [fetch.head for fetch in fetches if not fetch.source.text_only]
    if not heads:
        return Format.TEXT
    with contextlib.suppress(TimeoutError):
        await waiting.until_done(asyncio.wait(heads), most_s=waiting.left_s / 2)
    if not all(head.done() for head in heads):
        return Format.TEXT
    return merged_format([found for head in heads if (found := head.result())])


def scrape_timeout_s(text: str) -> float:
    """Return how long a scraper waits, by the header that Prometheus sends."""
    with contextlib.suppress(ValueError):
        seconds = float(text)
        if math.isfinite(seconds) and seconds > 0:
            return min(seconds, _LONGEST_TIMEOUT_S)
    return _TIMEOUT_S
