"""Which version of each type was sent, accepted and refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from xds_proxy.status._acks_and_nacks import DeliveryStatus

CLUSTER = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
START = datetime(2030, 1, 1, tzinfo=UTC)


def _sent(delivery: DeliveryStatus, version: str, *, second: int = 0, of: str = "") -> None:
    at = START.timestamp() + second
    delivery.on_response(CLUSTER, version, at=at, control_plane=of)


def _answered(
    delivery: DeliveryStatus, version: str, *, error: str | None = None, second: int = 0
) -> None:
    at = START.timestamp() + second
    if error is not None:
        delivery.on_nack(CLUSTER, version, error, at=at)
    else:
        delivery.on_ack(CLUSTER, version, at=at)
        delivery.on_resource_acceptance(CLUSTER, None)


def test_a_sent_version_waits_for_its_answer() -> None:
    delivery = DeliveryStatus()
    _sent(delivery, "1")
    status = delivery.types[CLUSTER]
    assert (status.version, status.acked, status.nack, status.in_use) == ("1", False, None, None)
    _answered(delivery, "1", second=3)
    status = delivery.types[CLUSTER]
    assert (status.acked, status.in_use) == (True, "1")
    assert status.at == START + timedelta(seconds=3)


def test_a_refused_version_leaves_the_accepted_one_in_use() -> None:
    delivery = DeliveryStatus()
    _sent(delivery, "1")
    _answered(delivery, "1")
    _sent(delivery, "2")
    _answered(delivery, "2", error="bad")
    status = delivery.types[CLUSTER]
    assert (status.version, status.acked, status.nack, status.in_use) == ("2", False, "bad", "1")


def test_the_control_plane_is_the_one_that_sent_the_newest_response() -> None:
    delivery = DeliveryStatus()
    for version, identifier in (("1", "old"), ("2", "new")):
        _sent(delivery, version, of=identifier)
    _answered(delivery, "1")
    assert delivery.types[CLUSTER].control_plane == "new"
    _answered(delivery, "2", error="bad")
    assert delivery.types[CLUSTER].control_plane == "new"
    _sent(delivery, "3")
    assert delivery.types[CLUSTER].control_plane == ""


def test_a_late_ack_of_an_older_version_does_not_accept_the_newest() -> None:
    delivery = DeliveryStatus()
    _sent(delivery, "1")
    _sent(delivery, "2")
    _answered(delivery, "1")
    status = delivery.types[CLUSTER]
    assert (status.version, status.acked, status.in_use) == ("2", False, "1")


def test_a_new_stream_keeps_versions() -> None:
    first = DeliveryStatus()
    _sent(first, "1")
    _answered(first, "1")
    _sent(first, "2")
    delivery = DeliveryStatus(first)
    delivery.on_request(CLUSTER, names_versions=True)
    status = delivery.types[CLUSTER]
    assert (status.acked, status.in_use) == (False, "1")
    assert delivery.version_in_use("unknown") == ""


def test_an_envoy_that_has_nothing_of_a_type_yet_says_so_in_its_first_request() -> None:
    first = DeliveryStatus()
    _sent(first, "1")
    _answered(first, "1")
    delivery = DeliveryStatus(first)
    delivery.on_request(CLUSTER, names_versions=False)
    assert delivery.types == {}
    _sent(delivery, "1")
    delivery.on_request(CLUSTER, names_versions=False)  # a changed subscription, before any answer
    _answered(delivery, "1")
    assert delivery.types[CLUSTER].acked
    assert first.types[CLUSTER].acked


@given(st.lists(st.tuples(st.integers(0, 30), st.sampled_from(["sent", "ack", "nack"]))))
def test_what_is_in_use_was_sent_and_accepted(steps: list[tuple[int, str]]) -> None:
    delivery, acked = DeliveryStatus(), set()
    for number, step in steps:
        version = str(number)
        if step == "sent":
            _sent(delivery, version)
        elif CLUSTER in delivery.types:
            acked |= {version} if step == "ack" else set()
            _answered(delivery, version, error="bad" if step == "nack" else None)
        for status in delivery.types.values():
            assert status.in_use is None or status.in_use in acked
            assert not status.acked or status.in_use is not None


def test_in_delta_a_refusal_is_in_force_until_its_resource_is_accepted_or_gone() -> None:
    delivery = DeliveryStatus()
    _sent(delivery, "1")
    _answered(delivery, "1", error="a: bad")
    versions = {"a": "a1", "b": "b1"}
    delivery.on_resource_refusals(CLUSTER, {"a": "bad"}, versions, at=START.timestamp() + 1)
    _sent(delivery, "2")
    delivery.on_ack(CLUSTER, "2", at=START.timestamp() + 2)
    delivery.on_resource_acceptance(CLUSTER, ("b",))
    status = delivery.types[CLUSTER]
    assert (status.acked, status.nack, status.in_use) == (True, "a: bad", "2")
    delivery.on_nack(CLUSTER, "3", "a: worse", at=START.timestamp() + 3)
    delivery.on_resource_refusals(CLUSTER, {"a": "worse"}, {"a": "a2"}, at=START.timestamp() + 3)
    (refused,) = delivery.types[CLUSTER].refused
    assert refused == ("a", "a2", "worse", START + timedelta(seconds=1))
    delivery.on_resource_acceptance(CLUSTER, ("a",))
    assert delivery.types[CLUSTER].refused == ()


def test_a_refusal_that_names_nothing_is_over_when_one_of_its_resources_is_accepted() -> None:
    delivery = DeliveryStatus()
    _sent(delivery, "1")
    _answered(delivery, "1", error="bad")
    delivery.on_resource_refusals(CLUSTER, {}, {"a": "a1", "b": "b1"}, at=0.0)
    delivery.on_resource_acceptance(CLUSTER, ("c",))
    (refused,) = delivery.types[CLUSTER].refused
    assert (refused.name, refused.reason) == ("", "bad")
    delivery.on_resource_acceptance(CLUSTER, ("b",))
    assert delivery.types[CLUSTER].nack is None


def test_memory_is_bounded_however_many_types_and_versions_come() -> None:
    delivery = DeliveryStatus()
    for number in range(5000):
        delivery.on_response(f"type-{number}", "1", at=0.0)
    assert len(delivery.types) == 1024
    reasons = {f"cluster-{number}": "bad" for number in range(5000)}
    delivery.on_resource_refusals("type-0", reasons, {}, at=0.0)
    assert len(delivery.types["type-0"].refused) == 256
