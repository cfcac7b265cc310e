"""Room for large messages: who has it, who waits, and who gives way."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from mesh_listening import HeldRoom, RequestRoom
from mesh_listening.limits._request_room import LOOKS, MOST_LOOKS, STEADY_BYTES, Message


class Timer:
    """Calls what is due when a test says so."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []

    def __call__(self, _seconds: float, function: Callable[[], None]) -> None:
        self.due.append(function)

    def tick(self) -> None:
        due, self.due = self.due, []
        for each in due:
            each()


class Connection:
    """Asks for room; its messages end when it gives way."""

    def __init__(self, room: RequestRoom, holder: str) -> None:
        self.room, self.holder = room, holder
        self.messages: list[Message] = []
        self.begun = 0
        self.times_closed = 0
        self.got: list[int] = []

    def is_closed(self) -> bool:
        return self.times_closed > 0

    def ask(self, size: int) -> Message:
        message = Message(self, 1, holder=self.holder, size=size)
        self.messages.append(message)
        self.room.ask(message)
        return message

    def begin(self, size: int) -> None:
        self.begun += size
        self.room.begin(self, size, holder=self.holder)

    def has_room(self, message: Message) -> None:
        self.got.append(message.size)

    def give_way(self, _message: Message | None) -> None:
        self.times_closed += 1
        for each in self.messages:
            self.room.end(each)
        begun, self.begun = self.begun, 0
        if begun:
            self.room.begin(self, -begun, holder=self.holder)


def new(*, max_bytes: int = 100, max_holder_bytes: int = 40) -> tuple[RequestRoom, Timer]:
    timer = Timer()
    room = RequestRoom(
        max_bytes=max_bytes,
        max_holder_bytes=max_holder_bytes,
        max_begun_bytes=1000,
        max_begun_holder_bytes=600,
        later=timer,
    )
    return room, timer


def has_room(*messages: Message) -> list[bool]:
    return [each.has_room for each in messages]


def test_a_holder_that_asks_for_much_waits_and_another_does_not() -> None:
    room, _ = new()
    hog, other = Connection(room, "hog"), Connection(room, "other")
    first = [hog.ask(20) for _ in range(50)]
    assert (room.bytes, room.waiting) == (40, 48)
    assert other.ask(20).has_room
    room.end(first[0])
    assert [each.has_room for each in first[1:4]] == [True, True, False]


def test_in_all_holders_have_room_in_turn() -> None:
    room, _ = new(max_bytes=60)
    hog = [Connection(room, f"hog {each}") for each in range(3)]
    granted = [each.ask(20) for each in hog]
    waiting = [[each.ask(20) for _ in range(5)] for each in hog]
    late = Connection(room, "late").ask(20)
    assert has_room(late) == [False]
    room.end(granted[0])  # Its holder's next one has been in line before the late one.
    room.end(granted[1])
    room.end(granted[2])
    assert has_room(late) == [False]
    room.end(waiting[0][0])
    assert has_room(late) == [True]


def test_a_large_message_is_not_overtaken_for_ever_and_one_over_all_bounds_comes_alone() -> None:
    room, _ = new()
    small, large = Connection(room, "small"), Connection(room, "large")
    first = small.ask(40)
    huge = large.ask(5000)
    others = [Connection(room, f"other {each}").ask(30) for each in range(3)]
    assert has_room(huge, *others) == [False] * 4
    room.end(first)
    assert has_room(huge, *others) == [True, False, False, False]
    room.end(huge)
    assert has_room(*others) == [True] * 3


def test_what_does_not_come_gives_way_only_while_another_waits_for_it() -> None:
    room, timer = new()
    silent, other = Connection(room, "hog"), Connection(room, "hog")
    neighbour = Connection(room, "neighbour")
    silent.ask(40)
    neighbour.ask(40)
    for _ in range(50):
        timer.tick()
    assert not silent.is_closed()
    waiting = other.ask(10)
    for _ in range(LOOKS):
        timer.tick()
    assert not silent.is_closed()
    timer.tick()
    assert silent.is_closed()
    assert has_room(waiting) == [True]
    assert not neighbour.is_closed()  # None waited for it.
    assert not timer.due


def test_in_all_any_that_does_not_come_gives_way() -> None:
    room, timer = new(max_bytes=70)
    silent = [Connection(room, f"hog {each}") for each in range(2)]
    for each in silent:
        each.ask(35)
    waiting = Connection(room, "other").ask(10)
    for _ in range(LOOKS + 1):
        timer.tick()
    assert all(each.is_closed() for each in silent)
    assert has_room(waiting) == [True]


def test_one_that_comes_on_keeps_its_room_for_a_while_and_not_for_ever() -> None:
    room, timer = new(max_holder_bytes=1 << 40, max_bytes=1 << 40)
    steady = Connection(room, "a")
    coming = steady.ask(1 << 40)
    waiting = Connection(room, "a").ask(1)
    for look in range(MOST_LOOKS):
        assert not steady.is_closed()
        coming.received += STEADY_BYTES if look % LOOKS == 0 else 0
        timer.tick()
    timer.tick()
    assert steady.is_closed()
    assert has_room(waiting) == [True]


def test_what_a_handler_holds_is_waited_for_and_released_once() -> None:
    room, _ = new()
    held = HeldRoom(room, "a", 40)
    waiting = Connection(room, "a").ask(40)
    assert has_room(waiting) == [False]
    held.release()
    held.release()
    assert has_room(waiting) == [True]
    assert room.bytes == 40


def test_who_begins_too_much_gives_way_and_the_others_of_its_holder_do_not() -> None:
    room, _ = new()
    many = [Connection(room, "hog") for _ in range(3)]
    for each, size in zip(many, (250, 300, 40), strict=True):
        each.begin(size)
    assert not any(each.is_closed() for each in many)
    many[2].begin(20)
    assert [each.is_closed() for each in many] == [False, True, False]
    assert room.begun_bytes == 310


def test_in_all_the_one_that_began_most_gives_way() -> None:
    room, _ = new()
    large = Connection(room, "large")
    large.begin(500)
    others = [Connection(room, f"{each}") for each in range(10)]
    for each in others:
        each.begin(51)
    assert large.is_closed()
    assert not any(each.is_closed() for each in others)


steps = st.tuples(
    st.sampled_from(["ask", "end", "hold", "release", "tick"]),
    st.integers(0, 3),
    st.integers(1, 60),
)


@given(st.lists(steps, max_size=80))
def test_room_is_within_its_bounds_and_all_that_wait_have_it_in_the_end(
    some: list[tuple[str, int, int]],
) -> None:
    room, timer = new()
    callers = [Connection(room, f"{each}") for each in range(4)]
    held: list[HeldRoom] = []
    for step, which, size in some:
        caller = callers[which]
        coming = [each for each in caller.messages if each.has_room]
        match step:
            case "ask":
                caller.ask(size)
            case "end" if coming:
                room.end(coming[0])
                caller.messages.remove(coming[0])
            case "hold" if not held:
                held.append(HeldRoom(room, caller.holder, size))
            case "release" if held:
                held.pop().release()
            case _:
                timer.tick()
        taken = [
            each for c in callers for each in c.messages if each.has_room and not c.is_closed()
        ]
        assert sum(each.size for each in taken) <= 100
        callers = [c if not c.is_closed() else Connection(room, c.holder) for c in callers]
    for each in held:
        each.release()
    for _ in range(len(some)):
        for caller in callers:
            for message in [each for each in caller.messages if each.has_room]:
                room.end(message)
                caller.messages.remove(message)
    assert not any(caller.messages for caller in callers)
    assert (room.bytes, room.waiting) == (0, 0)
