from datetime import UTC, datetime

from mesh_local.observation._agent_status import AgentStatus, read_status


def test_an_agent_s_answer_is_read() -> None:
    status = read_status(
        {
            "ready": True,
            "reasons": [],
            "spiffe_id": "spiffe://a/ns/b/sa/c",
            "certificate": {
                "serial": "ab",
                "not_before": "2026-01-01T00:00:00+00:00",
                "not_after": "2026-01-01T01:00:00+00:00",
            },
            "xds": {"connected": True, "types": {"t": {"nack": None}, "u": {"nack": "bad"}}},
            "envoy": {"state": "ready", "pid": 7},
        }
    )
    assert status == AgentStatus(
        ready=True,
        spiffe_id="spiffe://a/ns/b/sa/c",
        serial="ab",
        not_before=datetime(2026, 1, 1, tzinfo=UTC),
        not_after=datetime(2026, 1, 1, 1, tzinfo=UTC),
        xds_connected=True,
        xds_error="bad",
        configuration_refused=True,
        envoy_state="ready",
        envoy_pid=7,
    )


def test_what_an_agent_has_not_got_yet_is_none() -> None:
    assert read_status({"ready": False, "reasons": ["envoy: not yet"]}) == AgentStatus(
        reasons=("envoy: not yet",)
    )
