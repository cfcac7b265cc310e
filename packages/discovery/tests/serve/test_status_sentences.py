"""What `mesh-discovery status` says: short names, time spans, no node ids and no type URLs."""

import pytest

from mesh_discovery import status_notes, status_problems
from mesh_discovery.serve._status import StatusDocument

NOW = 1_800_000_000.0


def document(**given: object) -> StatusDocument:
    nothing: StatusDocument = {
        "version": "1",
        "loaded_at": NOW,
        "looked_at": NOW,
        "wrong_files": [],
        "unsupported": [],
        "warnings": [],
        "unreachable": [],
        "taken": [],
        "only_by_http_proxy": [],
        "patches": [],
        "proxies": 2,
        "not_served": [],
        "refused": [],
        "open_files": "",
    }
    return nothing | given  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-5, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (3605, "1 h"),
        (81_600, "22 h 40 min"),
        (273_599, "3 d 3 h"),
    ],
)
def test_how_long_something_is_so_has_two_units_at_the_most(seconds: int, said: str) -> None:
    wrong = {"file": "a.yaml", "since": NOW - seconds, "problems": [], "kept": None}

    assert list(status_problems(document(wrong_files=[wrong]), now=NOW)) == [
        f"wrong for {said}: a.yaml; nothing of it is served"
    ]


@pytest.mark.parametrize(
    ("type_url", "shown"),
    [
        ("cluster", "clusters"),
        ("secret", "secrets"),
        ("type.googleapis.com/envoy.config.route.v3.ScopedRoute", "ScopedRoute"),
    ],
)
def test_a_refusal_names_the_workload_and_the_type_as_people_do(type_url: str, shown: str) -> None:
    refused = {
        "proxy": "sidecar~10.0.0.1~cart-1.shop~shop.svc.cluster.local",
        "type": type_url,
        "message": "no such field",
        "since": NOW - 90,
    }

    assert list(status_problems(document(refused=[refused]), now=NOW)) == [
        f"refused for 1 min 30 s: {shown}, by the proxy of cart-1.shop: no such field"
    ]


def test_what_is_reached_by_the_http_proxy_alone_is_a_note_and_no_problem() -> None:
    beside = {"file": "", "line": 1, "field": "", "message": "all calls go that way"}
    page = document(only_by_http_proxy=[beside])

    assert not list(status_problems(page, now=NOW))
    assert list(status_notes(page)) == ["note: all calls go that way"]
