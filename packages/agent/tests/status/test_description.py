"""What the status says of the resource types, for people and for `mesh-agent status`."""

import json
from datetime import UTC, datetime

import pytest

from mesh_agent.status._description import describe_saved, describe_type, push_reasons
from xds_proxy import SavedStatus, SavedType, TypeStatus

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def delivered(identifier: str) -> TypeStatus:
    return TypeStatus(
        version="7", acked=True, nack=None, in_use="7", at=NOW, control_plane=identifier
    )


def test_a_push_of_mesh_discovery_is_shown_with_its_reasons() -> None:
    identifier = {
        "Component": "mesh-discovery",
        "ID": "host",
        "Info": {"version": "1"},
        "Push": {"Reasons": ["VirtualService/shop/web", "Service/shop/db"]},
    }
    assert describe_type(delivered(json.dumps(identifier))) == {
        "version": "7",
        "acked": True,
        "nack": None,
        "in_use": "7",
        "at": NOW,
        "push_reasons": ("VirtualService/shop/web", "Service/shop/db"),
    }


@pytest.mark.parametrize(
    "identifier",
    [
        "",
        "istiod-1",
        '{"Component": "istiod", "ID": "istiod-1", "Info": {"version": "1.27"}}',
        '{"Push": {"Reasons": "text"}}',
        '{"Push": ["x"]}',
        "[" * 100_000,
    ],
)
def test_other_identifiers_give_no_reasons(identifier: str) -> None:
    assert push_reasons(identifier) == ()
    assert "push_reasons" not in describe_type(delivered(identifier))


def test_what_is_saved_is_shown_by_type_as_json_can_hold_it() -> None:
    saved = SavedStatus(
        directory="/var/lib/mesh", types={"type.example/A": SavedType(count=2, bytes=70)}
    )
    described = json.loads(json.dumps(describe_saved(saved), default=str))
    assert described["types"] == {"type.example/A": {"count": 2, "bytes": 70}}
    assert described["directory"] == "/var/lib/mesh"
    assert describe_saved(None) == {}
