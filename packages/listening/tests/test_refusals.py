from mesh_listening.limits._refusals import Ended, Reason, Refusals


def test_refusing_begins_once_and_ends_when_it_was_quiet() -> None:
    refusals = Refusals(quiet_s=5)
    assert refusals.begins(Reason.PEER_FULL, "10.0.0.1", now=100)
    for moment in range(101, 104):
        assert not refusals.begins(Reason.PEER_FULL, "10.0.0.1", now=moment)
    assert not refusals.begins(Reason.PEER_FULL, "10.0.0.2", now=104)
    assert refusals.next_end() == 109
    assert refusals.ended(now=108) == []
    (ended,) = refusals.ended(now=109)
    assert ended == Ended(
        reason=Reason.PEER_FULL, refused=5, peers="10.0.0.1 (4), 10.0.0.2 (1)", lasted_s=4
    )
    assert refusals.next_end() is None
    assert refusals.begins(Reason.PEER_FULL, "10.0.0.1", now=110)
    assert refusals.totals[Reason.PEER_FULL] == 6


def test_each_reason_has_a_beginning_and_an_end_of_its_own() -> None:
    refusals = Refusals(quiet_s=5)
    assert refusals.begins(Reason.PEER_FULL, "a", now=0)
    assert refusals.begins(Reason.NO_FIRST_BYTE, "a", now=3)
    assert [each.reason for each in refusals.ended(now=5)] == [Reason.PEER_FULL]
    assert [each.reason for each in refusals.ended(now=5, all_of_them=True)] == [
        Reason.NO_FIRST_BYTE
    ]


def test_many_peers_are_named_in_few_words_and_kept_in_bounds() -> None:
    refusals = Refusals(quiet_s=5)
    for number in range(5000):
        refusals.begins(Reason.PORT_FULL, f"peer {number}", now=0)
    refusals.begins(Reason.PORT_FULL, "peer 7", now=0)
    (ended,) = refusals.ended(now=5)
    assert ended.refused == 5001
    assert ended.peers == "peer 7 (2), peer 0 (1), peer 1 (1), and 997 or more others"
