"""A refusal counts for one body and one build of Envoy, until something ends it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from envoy.config.core.v3 import base_pb2

from xds_proxy.quarantine._quarantine import Quarantine, build_of, join_reasons

ROUTE = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
BUILD = (b"envoy", b"1.36")


def node(version: int, **metadata: str) -> bytes:
    envoy_node = base_pb2.Node(id="a", user_agent_name="envoy")
    envoy_node.user_agent_build_version.version.minor_number = version
    envoy_node.user_agent_build_version.metadata.update(metadata)
    return bytes(envoy_node.SerializeToString())


def quarantined() -> Quarantine:
    quarantine = Quarantine(lambda: 100.0)
    quarantine.on_refusal(ROUTE, "r", b"bad", version="2", reason="no", build=BUILD)
    return quarantine


def test_a_refused_body_is_known_with_its_reason() -> None:
    quarantine = quarantined()
    assert quarantine.among(ROUTE, {"r": b"bad", "s": b"bad"}, BUILD) == {"r": "no"}
    assert quarantine.has(ROUTE, "r", b"bad")
    (shown,) = quarantine.resources
    assert (shown.name, shown.version, shown.reason, shown.since.timestamp()) == (
        "r",
        "2",
        "no",
        100.0,
    )


def test_another_body_passes_and_so_does_another_build() -> None:
    quarantine = quarantined()
    assert not quarantine.among(ROUTE, {"r": b"other"}, BUILD)
    assert not quarantine.among(ROUTE, {"r": b"bad"}, (b"envoy", b"1.40"))


@pytest.mark.parametrize(
    "ends",
    [
        lambda quarantine: quarantine.on_response(ROUTE, {"r": b"better"}),
        lambda quarantine: quarantine.on_response(ROUTE, {}, removed=["r"]),
        lambda quarantine: quarantine.on_response(ROUTE, {"s": b""}, whole=True),
        lambda quarantine: quarantine.on_acceptance(ROUTE, {"r": b"bad"}),
    ],
    ids=["another body", "removed", "gone from the whole", "accepted after all"],
)
def test_the_quarantine_ends(ends: Callable[[Quarantine], None]) -> None:
    quarantine = quarantined()
    ends(quarantine)
    assert not quarantine.resources
    assert not quarantine.types, "the hot path looks here"


@pytest.mark.parametrize(
    "goes_on",
    [
        lambda quarantine: quarantine.on_response(ROUTE, {"r": b"bad"}),
        lambda quarantine: quarantine.on_response(ROUTE, {"s": b"bad"}, removed=["t"]),
        lambda quarantine: quarantine.on_acceptance(ROUTE, {"r": b"another", "s": b"bad"}),
    ],
    ids=["sent again", "others", "another was accepted"],
)
def test_the_quarantine_goes_on(goes_on: Callable[[Quarantine], None]) -> None:
    quarantine = quarantined()
    goes_on(quarantine)
    assert [each.name for each in quarantine.resources] == ["r"]


def test_the_time_is_that_of_the_first_refusal_of_a_body() -> None:
    at = 100.0
    quarantine = Quarantine(lambda: at)
    for version, body in (("1", b"a"), ("2", b"a"), ("3", b"b")):
        quarantine.on_refusal(ROUTE, "r", body, version=version, reason="no", build=BUILD)
        at += 1
        (shown,) = quarantine.resources
        assert shown.since.timestamp() == (102.0 if body == b"b" else 100.0)


def test_at_most_1024_are_kept() -> None:
    quarantine = Quarantine(lambda: 0.0)
    for number in range(2000):
        name = str(number)
        quarantine.on_refusal(ROUTE, name, b"bad", version="", reason="no", build=BUILD)
    assert len(quarantine.resources) == 1024


def test_builds_are_distinguished_whatever_the_order_of_their_metadata() -> None:
    one = build_of(node(36, **{"ssl.version": "a", "revision.sha": "b"}))
    assert one == build_of(node(36, **{"revision.sha": "b", "ssl.version": "a"}))
    assert one != build_of(node(36, **{"revision.sha": "c", "ssl.version": "a"}))
    assert one != build_of(node(37, **{"revision.sha": "b", "ssl.version": "a"}))
    assert build_of(b"\xff") == ()


def test_several_reasons_name_their_resources() -> None:
    assert join_reasons({"a": "no", "b": "neither"}, ["a"]) == "no"
    assert join_reasons({"a": "no", "b": "neither"}, ["b", "a"]) == "a: no; b: neither"
