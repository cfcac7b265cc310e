"""How many bytes are on their way at once, and whose turn it is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from mesh_lifecycle import SystemClock
from mesh_listening import PendingWrites
from mesh_testkit import until
from xds_server.pushing._write_room import WriteRoom

Settle = Callable[[], Awaitable[None]]
LARGE = 1_000_000


class Writer:
    """A client that is written to, and reads when a test says so."""

    def __init__(
        self, room: WriteRoom, name: str, begun: list[str], *, holder: str, connection: str
    ) -> None:
        self._room = room
        self._name = name
        self._holder = holder
        self._connection = connection
        self._begun = begun
        self._read = asyncio.Event()
        self.closed = False

    async def write(self, size: int) -> None:
        if self._room.must_wait(size, self._holder):
            await self._room.wait(self._holder, self._connection)
        self._room.begin(self, size, None, self._holder)
        self._begun.append(self._name)
        try:
            await self._read.wait()
        finally:
            self._room.end(self)

    def read(self) -> None:
        self._read.set()

    def close_for_not_reading(self, **_facts: object) -> None:
        self.closed = True
        self._read.set()


class Writers:
    """Clients that are written to at once, by name."""

    def __init__(
        self,
        *,
        to_readers: int = 3 * LARGE,
        most: int = 100 * LARGE,
        of_holder: int | None = None,
    ) -> None:
        self.pending = PendingWrites(
            longest_s=None,
            max_bytes=most,
            slow_s=0.01,
            clock=SystemClock(),
            max_holder_bytes=of_holder,
        )
        self.room = WriteRoom(self.pending, to_readers_bytes=to_readers, most_bytes=most)
        self.begun: list[str] = []
        self.most = 0
        self.all: dict[str, Writer] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    def begin(
        self, name: str, *, size: int = LARGE, holder: str = "", connection: str = ""
    ) -> None:
        self.all[name] = Writer(self.room, name, self.begun, holder=holder, connection=connection)
        self.tasks[name] = asyncio.create_task(self.all[name].write(size))

    async def end(self) -> None:
        for task in self.tasks.values():
            task.cancel()
        await asyncio.wait(self.tasks.values())


async def test_large_responses_wait_in_one_line_until_others_are_read(settle: Settle) -> None:
    writers = Writers()
    for name in "abcdefg":
        writers.begin(name)
    await settle()
    assert writers.begun == ["a", "b", "c"]
    writers.all["b"].read()
    await settle()
    assert writers.begun == ["a", "b", "c", "d"]
    assert len(writers.room) == 3
    for name in "acd":
        writers.all[name].read()
    await settle()
    assert writers.begun == ["a", "b", "c", "d", "e", "f", "g"]
    await writers.end()
    assert writers.pending.bytes == 0


async def test_a_small_response_does_not_wait(settle: Settle) -> None:
    writers = Writers()
    for name in "abcd":
        writers.begin(name)
    writers.begin("small", size=60_000)
    await settle()
    assert writers.begun == ["a", "b", "c", "small"]
    await writers.end()


async def test_a_response_larger_than_the_bounds_goes_out_alone(settle: Settle) -> None:
    writers = Writers(to_readers=LARGE, most=2 * LARGE)
    writers.begin("a", size=5 * LARGE)
    writers.begin("b", size=5 * LARGE)
    await settle()
    assert writers.begun == ["a"]
    writers.all["a"].read()
    await settle()
    assert writers.begun == ["a", "b"]
    await writers.end()


async def test_clients_that_leave_the_line_hold_up_no_other(settle: Settle) -> None:
    writers = Writers()
    for name in "abcdef":
        writers.begin(name)
    await settle()
    writers.tasks["d"].cancel()
    await settle()
    writers.all["a"].read()
    await asyncio.sleep(0)  # "e" has its turn, and leaves before it takes it
    await asyncio.sleep(0)
    writers.tasks["e"].cancel()
    await settle()
    writers.all["b"].read()
    await until(lambda: "f" in writers.begun, what="the last of the line")
    await writers.end()
    assert writers.pending.bytes == 0
    assert len(writers.room) == 0


async def test_those_that_do_not_read_hold_up_the_others_for_a_moment_only() -> None:
    writers = Writers()
    for number in range(20):
        writers.begin(f"deaf-{number}")
    writers.begin("reader")
    await until(lambda: "reader" in writers.begun, what="the turn of the one who reads")
    assert len(writers.begun) == 21
    await writers.end()


async def test_with_too_much_pending_no_more_is_begun_until_one_that_does_not_read_is_closed() -> (
    None
):
    writers = Writers(to_readers=3 * LARGE, most=5 * LARGE)
    for number in range(20):
        writers.begin(f"deaf-{number}")
    writers.begin("reader")
    await until(lambda: len(writers.begun) == 6, what="the line to stand still")
    closing = asyncio.create_task(writers.pending.run())
    await until(lambda: "reader" in writers.begun, what="the turn of the one who reads")
    assert writers.pending.bytes <= 6 * LARGE
    assert sum(writer.closed for writer in writers.all.values()) >= 14
    assert not writers.all["reader"].closed
    closing.cancel()
    await writers.end()


async def test_a_holder_with_as_much_pending_as_may_be_holds_up_no_other_holder(
    settle: Settle,
) -> None:
    writers = Writers(of_holder=2 * LARGE)
    for number in range(50):
        writers.begin(f"deaf-{number}", holder="hog")
    await settle()
    assert writers.begun == ["deaf-0", "deaf-1"]
    writers.begin("small", size=1000, holder="hog")
    for name in ("a", "b"):
        writers.begin(name, holder="other")
    await settle()
    assert writers.begun == ["deaf-0", "deaf-1", "a"]  # the readers' bound holds for all
    writers.all["a"].read()
    await settle()
    assert writers.begun == ["deaf-0", "deaf-1", "a", "b"]
    writers.all["deaf-0"].read()
    writers.all["deaf-1"].read()
    await settle()
    assert writers.begun[4:] == ["deaf-2", "deaf-3"]
    await writers.end()
    assert writers.pending.bytes == 0
    assert len(writers.room) == 0


async def test_holders_alternate_and_so_do_the_connections_of_one(settle: Settle) -> None:
    writers = Writers(to_readers=LARGE)
    writers.begin("first", holder="a")
    for number in range(3):
        writers.begin(f"a-{number}", holder="a", connection="1")
    writers.begin("a-other", holder="a", connection="2")
    writers.begin("b", holder="b")
    await settle()
    for _ in range(5):
        writers.all[writers.begun[-1]].read()
        await settle()
    assert writers.begun == ["first", "a-0", "b", "a-other", "a-1", "a-2"]
    await writers.end()


async def test_while_others_fill_all_there_is_one_who_has_nothing_may_begin(
    settle: Settle,
) -> None:
    writers = Writers(to_readers=2 * LARGE, most=4 * LARGE, of_holder=3 * LARGE)
    for number in range(4):
        writers.begin(f"deaf-{number}", holder=f"hog-{number}")
    await until(lambda: len(writers.begun) == 4, what="all of those that do not read")
    writers.begin("deaf", holder="hog-1", size=2 * LARGE)
    writers.begin("reader", holder="reader")
    await until(lambda: "reader" in writers.begun, what="the turn of the one who reads")
    await settle()
    await writers.end()
