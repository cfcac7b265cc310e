from __future__ import annotations

from ipaddress import IPv4Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envoy_supervisor import Address, active_connections, parse_stats

ANY = str(IPv4Address(0))


def test_counters_are_numbers_and_the_rest_is_text() -> None:
    text = (
        "server.state: 0\n"
        "cluster.outbound|80||a.b;.upstream_rq: 12\r\n"
        'control_plane.identifier: "istiod: 1"\n'
        "http.x.time: P0(nan,1.0) P25(nan,1.05)\n"
        "cluster.empty: No recorded values\n"
        "not a statistic\n"
        "negative: -1\n"
    )
    assert parse_stats(text) == {
        "server.state": 0,
        "cluster.outbound|80||a.b;.upstream_rq": 12,
        "control_plane.identifier": "istiod: 1",
        "http.x.time": "P0(nan,1.0) P25(nan,1.05)",
        "cluster.empty": "No recorded values",
        "negative": "-1",
    }


def test_names_may_hold_the_separator() -> None:
    assert parse_stats("cluster.a: b.rq: 3\n") == {"cluster.a: b.rq": 3}


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    active_connections(parse_stats(text))


@given(
    st.dictionaries(
        st.text(st.characters(blacklist_characters="\n\r", codec="utf-8"), min_size=1),
        st.integers(min_value=0, max_value=2**64 - 1),
    )
)
def test_numbers_survive_under_any_name(stats: dict[str, int]) -> None:
    assert parse_stats("".join(f"{name}: {value}\n" for name, value in stats.items())) == stats


@pytest.mark.parametrize(
    ("stats", "count"),
    [
        ({}, None),
        ({"http.admin.downstream_cx_active": 1}, None),
        ({"listener.admin.downstream_cx_active": 1}, 0),
        (
            {
                "listener.admin.downstream_cx_active": 1,
                "listener.admin.main_thread.downstream_cx_active": 1,
                "listener.0.0.0.0_15006.downstream_cx_active": 3,
                "listener.0.0.0.0_15006.worker_0.downstream_cx_active": 2,
                "listener.0.0.0.0_15006.worker_1.downstream_cx_active": 1,
                "listener.10.0.0.1_80.downstream_cx_active": 4,
                "listener.10.0.0.1_80.downstream_cx_total": 400,
                "listener.10.0.0.1_81.downstream_cx_active": "unknown",
            },
            7,
        ),
        (
            {
                "listener.0.0.0.0_15021.downstream_cx_active": 5,
                "listener.[__]_15090.downstream_cx_active": 6,
                "listener.envoy_internal_connect.downstream_cx_active": 7,
            },
            0,
        ),
    ],
)
def test_only_connections_of_real_traffic_count(
    stats: dict[str, int | str], count: int | None
) -> None:
    ours = (Address(host=ANY, port=15021), Address(host="::", port=15090))
    assert active_connections(stats, ours) == count
