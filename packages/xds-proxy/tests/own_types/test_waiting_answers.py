"""Answers that wait keep their order, and hold up nothing else."""

import asyncio

from mesh_testkit import until
from xds_proxy.own_types._waiting_answers import WaitingAnswers

LONG_S = 3600.0


async def test_an_answer_waits_and_is_sent_then() -> None:
    sent: list[bytes] = []
    answers = WaitingAnswers(sent.append)
    answers.add("a", b"nack", wait_s=0.01)
    assert sent == []
    await until(lambda: sent == [b"nack"], what="the answer")
    answers.add("a", b"ack", wait_s=0.0)
    assert sent == [b"nack", b"ack"]


async def test_an_ack_brings_along_what_waits_of_its_type_and_no_other() -> None:
    sent: list[bytes] = []
    answers = WaitingAnswers(sent.append)
    answers.add("a", b"a1", wait_s=LONG_S)
    answers.add("b", b"b1", wait_s=LONG_S)
    answers.add("c", b"c1", wait_s=0.0)
    answers.add("a", b"a2", wait_s=LONG_S)
    assert sent == [b"c1"]
    answers.add("a", b"a3", wait_s=0.0)
    assert sent == [b"c1", b"a1", b"a2", b"a3"]
    answers.drop()


async def test_only_so_many_wait() -> None:
    """A control plane that sends without waiting for answers gets them in heaps."""
    sent: list[bytes] = []
    answers = WaitingAnswers(sent.append)
    for number in range(1000):
        answers.add("a", b"%d" % number, wait_s=LONG_S)
    assert sent == [b"%d" % number for number in range(len(sent))]
    assert len(sent) >= 1000 - 64
    answers.drop()


async def test_nothing_is_sent_after_the_end_of_the_stream() -> None:
    sent: list[bytes] = []
    answers = WaitingAnswers(sent.append)
    answers.add("a", b"nack", wait_s=0.0001)
    answers.drop()
    passed = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(0.01, passed.set_result, None)
    await passed
    assert sent == []
