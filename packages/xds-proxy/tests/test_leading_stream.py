"""Which stream leads, whatever comes and goes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from xds_proxy._config import MAX_STREAMS
from xds_proxy.streams._leading_stream import EnvoyStreams


class FakeStream:
    def __init__(self, process: int | None = None) -> None:
        self.process = process
        self.leads = False

    def start_leading(self) -> None:
        assert not self.leads
        self.leads = True

    def stop_leading(self) -> None:
        assert self.leads
        self.leads = False


def test_the_newest_stream_leads_and_after_it_the_next_older_one() -> None:
    streams: EnvoyStreams[FakeStream] = EnvoyStreams(most=MAX_STREAMS)
    old, new = FakeStream(), FakeStream()
    assert streams.add(old) is None
    assert streams.add(new) is None
    assert (old.leads, new.leads) == (False, True)
    assert streams.remove(new)
    assert old.leads
    assert not streams.remove(old)
    assert streams.leading is None


def test_the_end_of_an_older_stream_leaves_the_leading_one() -> None:
    streams: EnvoyStreams[FakeStream] = EnvoyStreams(most=MAX_STREAMS)
    old, new = FakeStream(), FakeStream()
    streams.add(old)
    streams.add(new)
    assert not streams.remove(old)
    assert streams.leading is new


def test_a_process_with_many_streams_ends_its_own_and_not_another_process_s() -> None:
    streams: EnvoyStreams[FakeStream] = EnvoyStreams(most=MAX_STREAMS)
    old, new = FakeStream(1), FakeStream(2)
    streams.add(old)
    streams.add(new)
    many = [FakeStream(3) for _ in range(100)]
    crowded_out = [one for each in many if (one := streams.add(each)) is not None]
    assert crowded_out == many[:-2]
    assert streams.all == (old, new, *many[-2:])
    newest = FakeStream(4)
    assert streams.add(newest) is many[-2]
    assert streams.add(FakeStream(5)) is old


def test_a_leading_stream_that_is_crowded_out_leads_no_more() -> None:
    streams: EnvoyStreams[FakeStream] = EnvoyStreams(most=MAX_STREAMS)
    others = [FakeStream(process) for process in range(MAX_STREAMS - 1)]
    first, second = FakeStream(100), FakeStream(100)
    for stream in (*others, first):
        streams.add(stream)
    assert streams.add(second) is first
    assert (first.leads, second.leads) == (False, True)
    assert streams.all == (*others, second)


@given(st.lists(st.one_of(st.just("add"), st.integers(0, 2 * MAX_STREAMS)), max_size=40))
def test_exactly_the_newest_leads_and_there_are_never_too_many(
    steps: list[str | int],
) -> None:
    streams: EnvoyStreams[FakeStream] = EnvoyStreams(most=MAX_STREAMS)
    alive: list[FakeStream] = []  # crowded out or not: they are removed when they have ended
    for step in steps:
        if isinstance(step, str):
            newcomer = FakeStream()
            before = streams.all
            crowded_out = streams.add(newcomer)
            assert crowded_out is (before[0] if len(before) == MAX_STREAMS else None)
            alive.append(newcomer)
        elif step < len(alive):
            leaving = alive.pop(step)
            led = leaving is streams.leading
            assert streams.remove(leaving) is (led and streams.leading is not None)
            leaving.leads = False
        assert len(streams.all) <= MAX_STREAMS
        assert [stream for stream in alive if stream.leads] == list(streams.all[-1:])
