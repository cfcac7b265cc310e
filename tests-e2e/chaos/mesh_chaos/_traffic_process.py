"""The traffic, in a process of its own: what the mesh does to the run never stops it.

Reads what to send from its arguments, as JSON, and writes a line of JSON for each failure as it
comes and, each second, how many requests of each lane were answered. A line `pause NAME` on its
standard input has all lanes of this sender wait for `resume NAME`; it ends with its input.
"""

import asyncio
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

import dns.asyncquery
import dns.exception
import dns.message
import dns.rcode

from mesh_e2e import Failure, Load, LoadReport, Target, constant_load

PATIENCE_S = 15.0
"""Slower answers are no answers. Generous: the machine may be busy with other things."""
_ASK_AGAIN_S = 3.0


def tell(**line: object) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


class Telling:
    """Tells what has come to the reports since the last time."""

    def __init__(self) -> None:
        self.reports: dict[str, LoadReport] = {}
        self.loads: dict[str, list[Load]] = {}
        """By the sender."""
        self.away: set[str] = set()
        """The senders that are not there."""
        self._reported: Counter[str] = Counter()

    def tell(self) -> None:
        for lane, report in self.reports.items():
            for each in report.failures:
                tell(lane=lane, **asdict(each))
            report.failures.clear()
            slowest = max(report.latencies_s, default=0.0)
            report.latencies_s.clear()
            answered = report.answered - self._reported[lane]
            self._reported[lane] = report.answered
            tell(lane=lane, answered=answered, slowest_s=slowest)


async def requests(lane: Mapping[str, Any], telling: Telling) -> None:
    target = Target(
        host=lane["host"],
        port=lane["port"],
        url=lane["url"],
        authority=lane["authority"],
        timeout_s=PATIENCE_S,
    )
    async with constant_load(target, rate_per_s=lane["rate"], workers=lane["workers"]) as load:
        telling.reports[lane["name"]] = load.report
        telling.loads.setdefault(lane["sender"], []).append(load)
        await asyncio.Event().wait()


async def questions(lane: Mapping[str, Any], telling: Telling) -> None:
    """Ask names as a C library does: again after a while, and at last give up."""
    report = telling.reports[lane["name"]] = LoadReport()
    rng = random.Random(lane["name"])
    due = time.monotonic()
    async with asyncio.TaskGroup() as group:
        waiting: set[asyncio.Task[None]] = set()
        while True:
            due = max(due + 1 / lane["rate"], time.monotonic() - 1)
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            if len(waiting) >= lane["workers"] or lane["sender"] in telling.away:
                continue
            name = lane["ask"].replace("RANDOM", f"n{rng.getrandbits(40):x}")
            task = group.create_task(question(lane, name, report))
            waiting.add(task)
            task.add_done_callback(waiting.discard)


async def question(lane: Mapping[str, Any], name: str, report: LoadReport) -> None:
    sent_at = time.monotonic()
    what = ""
    while time.monotonic() < sent_at + PATIENCE_S:
        asked_at = time.monotonic()
        query = dns.message.make_query(name, "A")
        try:
            answer = await dns.asyncquery.udp(
                query, lane["host"], port=lane["port"], timeout=_ASK_AGAIN_S
            )
        except (OSError, dns.exception.DNSException) as error:
            what = f"{type(error).__name__}: {error}"
        else:
            found = {item.to_text() for each in answer.answer for item in each}
            if answer.rcode() == dns.rcode.NOERROR and found == {lane["expect"]}:
                report.answered += 1
                report.latencies_s.append(time.monotonic() - sent_at)
                return
            what = f"{name}: {dns.rcode.to_text(answer.rcode())} {sorted(found)}"
            if answer.rcode() == dns.rcode.NOERROR:
                break  # a wrong answer is not asked for again
        await asyncio.sleep(max(0.0, asked_at + 1 - time.monotonic()))
    report.failures.append(Failure(sent_at=sent_at, failed_at=time.monotonic(), what=what))


async def follow(telling: Telling) -> None:
    """Have senders come and go as standard input says, until it ends."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async for line in reader:
        what, sender = line.decode().split()
        if what == "pause":
            telling.away.add(sender)
        else:
            telling.away.discard(sender)
        for load in telling.loads.get(sender, []):
            (load.pause if what == "pause" else load.resume)()


async def main(lanes: list[Mapping[str, Any]]) -> None:
    telling = Telling()
    tasks = [
        asyncio.create_task(
            questions(each, telling) if "ask" in each else requests(each, telling),
            name=each["name"],
        )
        for each in lanes
    ]
    ending = asyncio.create_task(follow(telling), name="senders")
    while not ending.done():
        await asyncio.wait([ending, *tasks], timeout=1, return_when=asyncio.FIRST_COMPLETED)
        telling.tell()
        for task in tasks:
            if task.done():
                task.result()
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    telling.tell()


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
